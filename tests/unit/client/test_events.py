"""`muster events` and the starts that `describe` shows, over a real gRPC server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import workloads_pb2
from muster.workload.v1 import workload_pb2
from muster_client.cli.render.events import event_lines
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

BEGIN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(BEGIN + timedelta(seconds=seconds))
    return stamp


def test_events_are_listed_the_oldest_first_over_all_pages(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_RUNNING)
    ran = muster("events", "bert")
    assert ran.code == 0
    heading, first, second = ran.out.splitlines()
    assert heading.split() == ["TIME", "(UTC)", "ATTEMPT", "PHASE", "WHAT"]
    assert (first.split()[-1], second.split()[-4:]) == ("acknowledged", ["1", "Running", "it", "runs"])
    assert len(json.loads(muster("events", "bert", "--json").out)) == 2


def test_long_events_are_filled_to_80_columns_and_say_the_phase_once() -> None:
    text = "Running -> Terminating: restarting (failure 1 of 6, in 10 s): worker-0 exited with 3 (Exit): last lines: x"
    event = workloads_pb2.WorkloadEvent(at=at(0), attempt=1, phase=workload_pb2.PHASE_TERMINATING, text=text)
    (shown,) = event_lines([event])
    first, second = shown.splitlines()
    assert first.startswith("2026-01-01 12:00:00        1  Terminating   restarting (failure 1")
    assert second.startswith("        ")
    assert max(map(len, (first, second))) <= 80


def test_followed_events_come_once_and_end_with_the_workload(muster: Command, world: World) -> None:
    world.add("bert", phase=workload_pb2.PHASE_DELETED)
    ran = muster("events", "bert", "-f", "--json")
    assert ran.code == 0
    assert [json.loads(line)["number"] for line in ran.out.splitlines()] == [0, 1]


def test_a_negative_limit_is_refused(muster: Command) -> None:
    ran = muster("events", "bert", "--limit=-1")
    assert ran.code == 2
    assert "--limit -1" in ran.err


def test_describe_tells_why_each_start_ended_and_how_long_it_ran(muster: Command, world: World) -> None:
    taken = workload_pb2.Reason(code="Preempted", message="it gives its place to a workload of another project")
    attempts = [
        workload_pb2.Attempt(number=1, cluster="north", placed_at=at(0), running_at=at(1), ended_at=at(6), cause=taken),
        workload_pb2.Attempt(number=2, cluster="north", placed_at=at(66), running_at=at(67), ended_at=at(70)),
    ]
    world.add("bert", phase=workload_pb2.PHASE_COMPLETED, started_at=at(1), finished_at=at(70), attempts=attempts)
    shown = " ".join(muster("describe", "bert").out.split())
    assert "1 2026-01-01 12:00:00 5 s north 12:00:06: it gives its place to a workload of another project" in shown
    assert "Ran for 8 s in 2 attempts" in shown
