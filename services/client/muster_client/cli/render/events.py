"""What happened to a workload, a line an event. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.api.v1 import workloads_pb2
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import time_of
from muster_client.words import phase_word

_TIME = "%Y-%m-%d %H:%M:%S"
_WIDE = len("2026-01-31 12:00:00")
_PHASE = len("Initializing")


def heading() -> str:
    """The names of the columns."""
    return f"{'TIME (UTC)':<{_WIDE}}  ATTEMPT  {'PHASE':<{_PHASE}}  WHAT"


def event_lines(events: Iterable[workloads_pb2.WorkloadEvent]) -> Iterator[str]:
    """One line each; an event before the first place belongs to no attempt."""
    for each in events:
        at = time_of(each.at)
        when = at.strftime(_TIME) if at else "-"
        attempt = str(each.attempt) if each.attempt else "-"
        yield one_line(f"{when:<{_WIDE}}  {attempt:>7}  {phase_word(each.phase):<{_PHASE}}  {each.text}")
