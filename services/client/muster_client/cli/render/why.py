"""Why a workload waits, as an answer to a person. Pure: now is an argument."""

from __future__ import annotations

import textwrap
from datetime import datetime

from muster.events.v1 import scheduler_pb2
from muster_client.cli.printable import folded
from muster_client.cli.render.amounts import gpus, ordinal, span, time_of
from muster_client.words import phase_word
from muster_kernel.lifecycle import WAITING

_WAITING = frozenset(phase.value for phase in WAITING)
_LABEL = 13
_WIDTH = 80
_FIRM = "\u00a0"
_STARTS = "It would start now if"
_GROWS = "It would have one more if"


def why_text(told: scheduler_pb2.Explanation, now: datetime) -> str:
    """The explanation: what it waits for, what blocks it, how the nodes stand, and what would let it start."""
    phase = phase_word(told.phase)
    if phase not in _WAITING:
        return _short_of(told, phase, now) if told.HasField("growth") else _not_waiting(told, phase, now)
    return f"{_headline(told, now)}\n\n{blocked_text(told, now)}"


def blocked_text(told: scheduler_pb2.Explanation, now: datetime) -> str:
    """What blocks it, how the nodes stand, and what would let it start; also of one that would only wait."""
    lines = _labelled("Blocked by", told.reason.message or told.reason.code or "not known yet")
    lines += _listed("Refused", [_refusal(each, now) for each in told.refusals])
    lines += _standing(told)
    if told.HasField("estimate"):
        lines += _labelled("Starts", _estimate(told.estimate, now), further="  ")
    return _with_help(lines, _STARTS, told)


def _short_of(told: scheduler_pb2.Explanation, phase: str, now: datetime) -> str:
    """How many replicas it runs with, and what stands against the next one."""
    growth = told.growth
    many = f"{growth.replicas} of the {growth.wanted} replicas that it would have"
    before = f" and {growth.before} of the revision before" if growth.before else ""
    headline = folded(f"{told.name} does not wait: it is {phase}, with {many}{before}.")
    lines = _labelled("Held back by", growth.reason.message or growth.reason.code)
    lines += _listed("Refused", [_refusal(each, now) for each in told.refusals])
    return f"{headline}\n\n{_with_help([*lines, *_standing(told)], _GROWS, told)}"


def _with_help(lines: list[str], when: str, told: scheduler_pb2.Explanation) -> str:
    paragraphs = ["\n".join(lines)]
    if told.unblockers:
        paragraphs.append(_unblockers(when, list(told.unblockers)))
    return "\n\n".join(paragraphs)


def _not_waiting(told: scheduler_pb2.Explanation, phase: str, now: datetime) -> str:
    text = f"{told.name} does not wait: it is {phase}."
    lines = _labelled("Reason", told.reason.message) if told.reason.message else []
    lines += _listed("Refused", [_refusal(each, now) for each in told.refusals])
    return "\n".join([text, "", *lines]) if lines else text


def _headline(told: scheduler_pb2.Explanation, now: datetime) -> str:
    text = f"{told.name} waits for {told.asks or 'its place'}"
    if told.node_pool:
        text += f" in node pool {told.node_pool}"
    queued = time_of(told.queued_at)
    beside = [f"queued {span((now - queued).total_seconds())}"] if queued else []
    if told.rank:
        beside.append(f"{ordinal(told.rank)} in {told.project}")
    return text + (f" ({', '.join(beside)})." if beside else ".")


def _standing(told: scheduler_pb2.Explanation) -> list[str]:
    """How the nodes stand, which come closest, what making room comes to, and how its queues stand."""
    lines: list[str] = []
    if told.excluded:
        # A phrase is not broken: the spaces inside it are made firm while the lines are filled.
        phrases = [_phrase(each).replace(" ", _FIRM) for each in told.excluded]
        lines += _labelled("Nodes", f"{_FIRM}· ".join(phrases))
    if told.nearest:
        lines += _labelled("Nearest", f"{_FIRM}· ".join(each.replace(" ", _FIRM) for each in told.nearest))
    lines += _listed("Room", [each.text for each in told.attempts])
    lines += _listed("Shares", [_share(each) for each in told.shares])
    return lines


def _refusal(told: scheduler_pb2.SeenRefusal, now: datetime) -> str:
    where = f"{told.cluster}/{told.node}" if told.node else f"cluster {told.cluster}"
    at, again = time_of(told.at), time_of(told.again_at) if told.HasField("again_at") else None
    ago = f" {span((now - at).total_seconds())} ago" if at else ""
    if again is None:
        then = "not tried there again until its spec or the cluster's profile changes"
    elif again <= now:
        then = "may be tried there again"
    else:
        then = f"tried there again in {span((again - now).total_seconds())}"
    often = f", refused {told.times} times in a row" if told.times > 1 else ""
    return f"{where}{ago}: {told.reason.code}: {told.reason.message}; {then}{often}"


def _share(told: scheduler_pb2.QueueShare) -> str:
    whose = f"department {told.queue}" if told.department else told.queue
    held, wanted = f"holds {gpus(told.gpu_held)}", f"wants {gpus(told.gpu_wanted)}"
    deserved, fair = f"deserves {gpus(told.gpu_deserved)}", f"fair share {gpus(told.gpu_fair)}"
    of = f"{gpus(told.gpu_total - told.gpu_mig)} GPUs"
    of += f" and {gpus(told.gpu_mig)} in MIG mode" if told.gpu_mig else ""
    return f"{whose} {held}, {wanted}, {deserved}; {fair} of {of}"


def _estimate(told: scheduler_pb2.StartEstimate, now: datetime) -> str:
    moments = time_of(told.earliest), time_of(told.latest), time_of(told.likely)
    first, last, likely = (span((at - now).total_seconds()) if at else "" for at in moments)
    if first and last:
        when = f"in {first} to {last}"
    elif first:
        when = f"in {first} at the earliest"
    else:
        when = f"within {last}" if last else ""
    probably = f"probably within {likely}" if likely and likely != last else ""
    return f"{', '.join(filter(None, (when, probably))) or 'unknown when'}: {told.basis}"


def _listed(label: str, texts: list[str]) -> list[str]:
    """Each text begins a line of its own; what goes on in a second line stands further in."""
    found: list[str] = []
    for text in texts:
        found += _labelled("" if found else label, text, further="  ")
    return found


def _labelled(label: str, text: str, further: str = "") -> list[str]:
    first, rest = f"  {label:<{_LABEL}}", " " * (_LABEL + 2) + further
    filled = textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False)
    return [line.replace(_FIRM, " ") for line in filled]


def _phrase(excluded: scheduler_pb2.ExcludedNodes) -> str:
    text = excluded.text or excluded.constraint
    return text if text[:1].isdigit() else f"{excluded.nodes} {text}"


def _unblockers(when: str, phrases: list[str]) -> str:
    first, rest = f"  {when}    ", " " * (len(when) + 6)
    ends = [", or"] * (len(phrases) - 1) + ["."]
    lines: list[str] = []
    for phrase, end in zip(phrases, ends, strict=True):
        lead = rest if lines else first
        # What goes on in a second line stands further in: the next line at the margin is the next way.
        lines += textwrap.wrap(
            f"{phrase}{end}", _WIDTH, initial_indent=lead, subsequent_indent=f"{rest}  ", break_long_words=False
        )
    return "\n".join(lines)
