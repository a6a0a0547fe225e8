"""The forms of rows that two releases read and write at once during an upgrade (decisions/0011)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect

from muster_kernel.reasons import FailureClass, WaitingReason
from muster_scheduler.adapters import rows, workload_rows
from muster_scheduler.domain.asked.requests import Grant, Holder
from muster_scheduler.domain.asked.workloads import DataLocation, News, Replica, Request, Workload
from muster_scheduler.domain.shares.decay import Faded
from tests.support.fleets import request

BODIES: Final = (
    rows.ClusterBody,
    rows.NodeBody,
    rows.PartBody,
    rows.ProjectBody,
    rows.DepartmentBody,
    rows.NodePoolBody,
    Faded,
    workload_rows.WorkloadBody,
    workload_rows.ReplicaBody,
)
LATER: Final = workload_rows.LATER_REASONS
"""Words that stand only where the last release does not look."""
FORMS: Final = Path(__file__).with_name("row_forms.json")
"""How the last release reads them: fields of arrays, required names of objects, words of enumerations.

What came after it is not here, and may change until the next release.
"""


def _types(of: Any) -> Iterator[inspect.Type]:
    """Yield a type and all types within it."""
    yield of
    for name in ("fields", "types", "item_types"):
        for each in getattr(of, name, ()):
            yield from _types(getattr(each, "type", each))
    for name in ("item_type", "key_type", "value_type"):
        if (inner := getattr(of, name, None)) is not None:
            yield from _types(inner)


def _forms() -> dict[str, dict[str, list[str]]]:
    arrays: dict[str, list[str]] = {"Request": list(Request._fields[: workload_rows.REQUEST_ARRAY])}
    objects: dict[str, list[str]] = {}
    words: dict[str, list[str]] = {}
    for body in (*BODIES, Request):
        for found in _types(inspect.type_info(body)):
            if isinstance(found, inspect.NamedTupleType):
                arrays.setdefault(found.cls.__name__, [field.encode_name for field in found.fields])
            elif isinstance(found, inspect.DataclassType | inspect.StructType):
                objects[found.cls.__name__] = sorted(f.encode_name for f in found.fields if f.required)
            elif isinstance(found, inspect.EnumType):
                words[found.cls.__name__] = sorted(str(one.value) for one in found.cls if one not in LATER)
    return {"arrays": arrays, "objects": objects, "words": words}


def test_rows_keep_their_form() -> None:
    """An older release refuses a longer array and an unknown word, and its own rows have no new name.

    If this fails after a field was added: write the field by name and with a default, as `AddedFields` does. After a
    word was added: write it where an older release does not look, as `told_later` does.
    """
    known, now = json.loads(FORMS.read_text()), _forms()
    assert {kind: {name: now[kind].get(name) for name in known[kind]} for kind in known} == known


def test_a_request_with_every_field_is_an_array_of_the_first_fields() -> None:
    asked = request()._replace(keeps_data=True, data=DataLocation("a", ("a", "b")), spec=b"spec")
    body, added = workload_rows.of_request(asked)
    assert len(json.loads(body)) == len(json.loads(FORMS.read_text())["arrays"]["Request"])
    assert workload_rows.to_request(body, added, b"spec") == asked
    older = workload_rows.to_request(body, "", b"spec")
    assert older == asked._replace(keeps_data=False, data=None)


def test_a_request_without_added_fields_writes_none() -> None:
    assert workload_rows.of_request(request())[1] == ""


def test_what_an_agent_has_said_keeps_its_array() -> None:
    news = News(FailureClass.RETRYABLE_EXIT, 3, "pod", "ended", ("http://a",), 1, 2, "PullingImages", 7)
    replica = Replica(Holder("w", 1, 2, "worker", 3, 0), ("a", "n1"), Grant(0, 0), news=news)
    body = workload_rows.of_replica(replica)
    assert len(json.loads(body)["news"]) == len(json.loads(FORMS.read_text())["arrays"]["NewsBody"])
    key = {"workload": "w", "generation": 1, "attempt": 2, "role": "worker", "rank": 3, "k": 0, "place": "current"}
    read = workload_rows.to_replica({**key, "body": body})
    assert msgspec.structs.asdict(read) == msgspec.structs.asdict(replica)


@pytest.mark.parametrize("reason", [WaitingReason.NO_CAPACITY, WaitingReason.DATA_ELSEWHERE, WaitingReason.REFUSED])
@pytest.mark.parametrize("claimed", [False, True], ids=["plain", "with-more-fields"])
def test_the_last_release_reads_no_reason_that_it_does_not_know(reason: WaitingReason, *, claimed: bool) -> None:
    workload = Workload("w", project="p", name="n", told=reason)
    if claimed:
        workload.avoid = {("a", "n1"): 7}
    body = workload_rows.of_workload(workload)
    known = json.loads(FORMS.read_text())["words"]["WaitingReason"]
    assert json.loads(body).get("told") in {None, *known}
    columns = {"id": "w", "project": "p", "name": "n", "phase": workload.phase.value}
    row = {**columns, "desired": workload.desired.value, "attempt": workload.attempt, "body": body}
    assert workload_rows.to_workload(row, {})[0].told is reason
