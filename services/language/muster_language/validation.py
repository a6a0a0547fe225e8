"""What is wrong with a spec, in two stages.

LAYER (`check_layer`): one layer alone, as a user or a template gives it; submission answers the call with these.
EFFECTIVE (`check_effective`): the merged spec after defaults; policy publishes these as issues with rule `language`.
Holds: every error at once, each with its path; nothing is written into the spec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from muster_language import value_types as of
from muster_language.bounds import refusal
from muster_language.catalogue import COMPANIONS, Row, catalogue, either
from muster_language.documents import Violation
from muster_language.labels import label_of
from muster_language.spec import Kind, WorkloadSpec, kind_of
from muster_language.values import Refused, shown

MOST_ITEMS: Final = 1_000
_VARIABLE: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]{0,252}")
_LABEL: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,317}")  # a prefix of 253, a slash and a name of 63

Found = Iterator[Violation]


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that stands against an effective spec; policy turns it into a compliance issue."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str


def check_layer(spec: WorkloadSpec) -> list[Violation]:
    """Types, bounds, patterns, lengths, exclusive members, labels, and whether the kind takes each field."""
    kind = kind_of(spec)
    found: list[Violation] = []
    if kind is None:
        allowed = either([each.document for each in Kind])
        found.append(Violation("kind", "the kind of workload is not said", allowed=allowed))
    found.extend(_spec(spec, "spec", kind))
    return found


def _spec(spec: WorkloadSpec, path: str, kind: Kind | None, *, master: bool = False) -> Found:
    rows = catalogue().by_number
    for descriptor, value in spec.ListFields():
        row = rows.get(descriptor.number)
        if row is None:
            continue  # the kind itself, which has no row
        here = row.yaml if row.beside_spec else f"{path}.{row.yaml}"
        if kind is not None and kind not in row.kinds:
            yield Violation(here, f"a {kind.document} does not take {row.yaml}", allowed=_takers(row))
        elif master and not (row.for_roles or row.own):
            yield Violation(here, f"{row.yaml} speaks about the workload as a whole", allowed="say it under spec")
        elif row.beside_spec:
            yield from _spec(value, row.yaml, kind, master=True)
        else:
            yield from _checker(row)(value, here)
    yield from _exclusive(spec, path)


def _takers(row: Row) -> str:
    kinds = either([kind.document for kind in sorted(row.kinds)])
    return f"{kinds} {'takes' if len(row.kinds) == 1 else 'take'} it"


def _exclusive(spec: WorkloadSpec, path: str) -> Found:
    for group, rows in _groups().items():
        given = [row for row in rows if spec.HasField(row.name)]  # type: ignore[arg-type]
        if len(given) > 1:
            names = " and ".join(row.yaml for row in given)
            first = f"{path}.{given[1].yaml}" + ("" if given[1].bare else ".value")
            yield Violation(first, f"{names} exclude each other", allowed=f"one {group} field: {either(_names(rows))}")


def _names(rows: tuple[Row, ...]) -> list[str]:
    return [row.yaml for row in rows]


@cache
def _groups() -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for row in catalogue().rows:
        if row.exclusive:
            groups.setdefault(row.exclusive, []).append(row)
    return {group: tuple(rows) for group, rows in groups.items()}


@cache
def _checker(row: Row) -> Callable[[Any, str], Found]:
    if row.type == of.ITEMIZED:
        return lambda value, path: _items(row, value, path)
    if row.type == of.OBJECT:
        return lambda value, path: _members(row, value, f"{path}.value")
    if row.type == of.ARRAY:
        return lambda value, path: _value(row, list(value.values), f"{path}.value")
    suffix = "" if row.bare else ".value"
    return lambda value, path: _value(row, value, f"{path}{suffix}")


def _value(row: Row, value: Any, path: str) -> Found:
    refused = refusal(row, value)
    if refused is not None:
        yield _violation(path, refused)


def _violation(path: str, refused: Refused) -> Violation:
    return Violation(path, refused.message, allowed=refused.allowed)


def _members(row: Row, message: Any, path: str) -> Found:
    for member in row.members:
        if message.HasField(member.name):
            yield from _value(member, getattr(message, member.name), f"{path}.{member.yaml}")
        elif member.mandatory:
            yield Violation(path, f"{member.yaml} is missing", allowed=f"{row.yaml} needs {member.yaml}")


def _items(row: Row, items: Any, path: str) -> Found:
    if len(items) > MOST_ITEMS:
        yield Violation(path, f"{len(items)} items are too many", allowed=f"at most {MOST_ITEMS}")
        return
    seen: set[str] = set()
    for item in items:
        label = label_of(item)
        here = f"{path}.items.{label}"
        if label in seen:
            yield Violation(here, f"two items have the label {shown(label)}", allowed="each label once")
        seen.add(label)
        yield from _item(row, item, label, here)


def _item(row: Row, item: Any, label: str, path: str) -> Found:
    legal = _VARIABLE if row.name == "environment" else _LABEL
    if not legal.fullmatch(label):
        allowed = (
            "letters, digits, _ - and ., not beginning with a digit" if legal is _VARIABLE else "a word without spaces"
        )
        yield Violation(path, f"{shown(label)} is not a label", allowed=allowed)
    if item.deleted:
        return
    if row.members:
        yield from _members(row, item, f"{path}.value")
    elif not item.HasField("value"):
        yield Violation(
            path, "the item has no value", allowed="value: text, or deleted: true to take an inherited item out"
        )
    elif "\0" in item.value or len(item.value) > of.LONGEST_TEXT:
        yield Violation(
            f"{path}.value", "the value is not taken", allowed=f"at most {of.LONGEST_TEXT} characters, no NUL"
        )


def check_effective(spec: WorkloadSpec) -> list[Issue]:
    """What the spec lacks or contradicts once all layers are in: mandatory and cross-field rules, then LAYER's."""
    rules = (_runnable, _gang, _service, _scaling)
    found = [issue for rule in rules for issue in rule(spec)]
    # A template or a policy default may hold what no edge has seen in this combination.
    return found + [Issue(_path(each.path), "language", "", each.allowed, each.text) for each in check_layer(spec)]


def gpu_members() -> tuple[str, ...]:
    """The proto names that together are the GPU request: exclusive with each other, or their number of devices."""
    return tuple(row.name for row in _groups()["gpu"]) + tuple(COMPANIONS)


def _path(path: str) -> str:
    row = catalogue().by_yaml.get(path.removeprefix("spec.").split(".")[0])
    return row.path if row is not None and path.startswith("spec.") else path


def _missing(path: str, details: str, allowed: str = "") -> Issue:
    return Issue(path, "language", "", allowed, details)


def _runnable(spec: WorkloadSpec) -> Iterator[Issue]:
    runs = (spec, spec.master_spec) if spec.HasField("master_spec") else (spec,)
    if not any(each.command or each.image for each in runs):
        yield _missing(
            "command", "nothing says what to run: neither command nor image is given", "a command or an image"
        )


def _gang(spec: WorkloadSpec) -> Iterator[Issue]:
    if kind_of(spec) is not Kind.DISTRIBUTED:
        return
    if not spec.framework:
        yield _missing("distributedFramework", "a distributed workload needs jobType", _words("framework"))
    if not spec.workers:
        yield _missing("numWorkers", "a distributed workload needs workers", "a whole number from 1 on")
    slots = max(1, spec.slots_per_worker)
    room = spec.workers * slots
    if spec.workers and spec.processes > room:
        details = f"{spec.processes} processes do not fit {spec.workers} workers with {slots} slots each"
        yield Issue("processes", "language", str(spec.processes), f"at most {room}", details)


def _words(name: str) -> str:
    words = catalogue().by_name[name].words
    return words.allowed if words else ""


def _service(spec: WorkloadSpec) -> Iterator[Issue]:
    if kind_of(spec) is Kind.INFERENCE and not any(not port.deleted for port in spec.ports):
        yield _missing(
            "ports", "an inference service needs a port", "ports: {items: {http: {value: {container: 8000}}}}"
        )


def _scaling(spec: WorkloadSpec) -> Iterator[Issue]:
    if kind_of(spec) is not Kind.INFERENCE:
        return
    low = spec.min_scale if spec.HasField("min_scale") else 1
    high = spec.max_scale if spec.HasField("max_scale") else max(low, 1)
    path = "autoscaling.metric"
    if low > high:
        details = f"minScale {low} is above maxScale {high}"
        yield Issue("autoscaling.minReplicas", "language", str(low), f"at most {high}", details)
    elif low < high and not spec.metric and (low, high) != (0, 1):
        yield _missing(path, f"scaling between {low} and {high} replicas needs a metric", _words("metric"))
    if spec.metric and not spec.HasField("target"):
        yield _missing("autoscaling.metricThreshold", "a metric needs a target", "a number above 0")
    if low == 0 and spec.metric == _metric("latency"):
        allowed = "concurrency or throughput, or a minScale of at least 1"
        yield Issue(path, "language", "latency", allowed, "a service scaled by latency cannot go down to no replica")


def _metric(word: str) -> int:
    words = catalogue().by_name["metric"].words
    return words.by_word[word] if words else 0
