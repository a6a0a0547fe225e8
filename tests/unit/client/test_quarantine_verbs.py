"""`muster quarantine`: the workloads that the scheduler failed on, for people."""

from __future__ import annotations

from datetime import UTC, datetime

from muster.api.v1 import fleet_pb2
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

_ID = "01900000-0000-7000-8000-000000000001"


def test_what_is_set_aside_is_listed_with_its_error_and_on_demand_its_trace(muster: Command, world: World) -> None:
    assert muster("quarantine").out == "nothing is set aside\n"
    one = fleet_pb2.QuarantinedWorkload(
        workload_id=_ID, name="bad", project="team-a", error="ZeroDivisionError: x", trace="File a\nFile b"
    )
    one.at.FromDatetime(datetime.now(UTC))
    world.quarantine.workloads.append(one)
    listed = muster("quarantine", "list").out
    assert f"{_ID}  team-a/bad" in listed
    assert "ZeroDivisionError: x" in listed
    assert "File b" not in listed
    assert "    File b" in muster("quarantine", "list", "--trace").out
    place = fleet_pb2.QuarantinedWorkload(workload_id="pool/a100", place="node pool a100", error="KeyError: y")
    place.at.FromDatetime(datetime.now(UTC))
    world.quarantine.workloads.append(place)
    assert "pool/a100  node pool a100  0s ago\n  KeyError: y" in muster("quarantine", "list").out


def test_workloads_are_let_in_again_by_id_or_all(muster: Command) -> None:
    assert muster("quarantine", "release", _ID).out == "1 let in again\n"
    assert muster("quarantine", "release", "--all").out == "7 let in again\n"
    assert muster("quarantine", "release").code == 2
    assert muster("quarantine", "release", _ID, "--all").code == 2
