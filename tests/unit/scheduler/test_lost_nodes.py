"""What people read while a node does not answer, while something crashes again and again, and of a series of trials."""

from __future__ import annotations

from typing import Any

import pytest

from muster.events.v1 import scheduler_pb2
from muster_kernel.lifecycle import Phase
from muster_kernel.quantities import GPU
from muster_kernel.reasons import ChangeReason, FailureClass
from muster_scheduler.adapters import explaining
from muster_scheduler.adapters.outgoing import event_of
from muster_scheduler.adapters.placements import Placements
from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.rules import Rules
from muster_scheduler.domain.asked.workloads import ReplicaState, Trials
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.decisions import PhaseChange
from muster_scheduler.stream.values import last_lines
from tests.support.fleets import Fleet, node, request, role, whole

FINAL = {Phase.DELETING: Phase.DELETED, Phase.STOPPING: Phase.STOPPED}
LOST, READY = ReplicaState.LOST, ReplicaState.READY


def changes(fleet: Fleet) -> list[PhaseChange]:
    return [each for each in fleet.decisions if isinstance(each, PhaseChange)]


def running(size: int = 1) -> Fleet:
    fleet = Fleet(node("a", 1), node("b", 1))
    fleet.submit(1, request(role(whole(), size)))
    fleet.run(1)
    return fleet


def test_a_lost_node_shows_in_phase_reason_and_why() -> None:
    fleet = running()
    fleet.send(fleet.status(1, LOST))
    lost = fleet.workload(1)
    assert (lost.phase, lost.reason) == (Phase.DEGRADED, ChangeReason.NODE_LOST)
    assert lost.message.startswith("node a has not answered since ")
    assert "with its replica; it starts elsewhere once the node has rebooted or been down for 15 min" in lost.message
    assert lost.message.endswith("or after `muster nodes force-gone c1 a`")
    why = explaining.explanation(lost, explain(fleet.world, lost))
    assert why.reason.message == lost.message
    fleet.send(fleet.status(1, READY))
    assert (fleet.workload(1).phase, fleet.workload(1).message) == (Phase.RUNNING, "")


def test_a_gang_is_told_when_it_gives_up_and_the_same_thing_once() -> None:
    fleet = running(size=2)
    fleet.send(fleet.status(1, LOST, rank=1))
    text = fleet.workload(1).message
    assert "1 of its 2 replicas (the gang gives up the others after 60 s)" in text
    fleet.wait(20)
    fleet.send(fleet.status(1, READY, rank=0))
    assert fleet.workload(1).message == text, "since when it is silent does not change"
    fleet.send(fleet.status(1, ReplicaState.STARTING, rank=1))
    assert fleet.workload(1).reason is not ChangeReason.NODE_LOST


@pytest.mark.parametrize(
    ("asked", "phase", "reason"),
    [
        (events.DeletionRequested, Phase.DELETING, ChangeReason.DELETED),
        (events.SuspendRequested, Phase.STOPPING, ChangeReason.SUSPENDED),
    ],
)
def test_what_ends_says_that_it_waits_for_a_lost_node(asked: Any, phase: Phase, reason: ChangeReason) -> None:
    fleet = running()
    fleet.send(fleet.status(1, LOST))
    _, _, since = fleet.workload(1).message.partition("has not answered since ")
    fleet.wait(90)
    fleet.send(asked("e", fleet.workload(1).id))
    ends = fleet.workload(1)
    assert (ends.phase, ends.reason) == (phase, ChangeReason.NODE_LOST)
    assert ends.message == (
        f"waits for its replica: node a has not answered since {since[:8]} UTC; it ends once it answers, or once the "
        "node has rebooted or been down for 15 min, or after an administrator's "
        "`muster nodes force-gone c1 a`"
    )
    assert [each.reason for each in changes(fleet)][-2:] == [reason, ChangeReason.NODE_LOST]
    why = explaining.explanation(ends, explain(fleet.world, ends))
    assert why.reason.message == ends.message
    before = len(changes(fleet))
    fleet.send(fleet.status(1, LOST))
    assert len(changes(fleet)) == before, "the same text is published once"
    fleet.send(fleet.status(1, READY))
    assert (fleet.workload(1).reason, fleet.workload(1).message) == (reason, "")
    fleet.send(fleet.status(1, LOST), events.NodeForcedGone("c1", "a"))
    assert (fleet.workload(1).phase, fleet.workload(1).message) == (FINAL[phase], "")


def test_a_node_that_is_lost_while_a_workload_ends_is_told() -> None:
    fleet = running(size=2)
    fleet.send(events.DeletionRequested("e", fleet.workload(1).id))
    assert fleet.workload(1).message == ""
    fleet.send(fleet.status(1, LOST, rank=1))
    assert fleet.workload(1).message.startswith("waits for 1 of its 2 replicas: node b has not answered since ")


def test_a_limit_stays_the_reason_of_what_waits_for_a_lost_node() -> None:
    fleet = Fleet(node("a", 1))
    quota = {"default": Quota(100 * GPU)}
    fleet.send(events.ProjectChanged(Project("p", "d", quota, 0, Rules(training_time=60))))
    fleet.submit(1, request(role(whole())))
    fleet.run(1)
    fleet.send(fleet.status(1, LOST))
    fleet.wait(90)
    stops = fleet.workload(1)
    assert (stops.phase, stops.reason) == (Phase.STOPPING, ChangeReason.RUN_TIME_LIMIT)
    said, _, waits = stops.message.partition("; ")
    assert said
    assert waits.startswith("waits for its replica: node a has not answered since ")
    fleet.send(events.NodeForcedGone("c1", "a"))
    assert (fleet.workload(1).phase, fleet.workload(1).message) == (Phase.STOPPED, said)


def test_a_crash_loop_is_told_while_it_pauses_and_by_why() -> None:
    fleet = running()
    for number, pause in ((1, 10), (2, 20), (3, 40)):
        failed = fleet.status(1, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT)
        fleet.send(failed._replace(status=failed.status._replace(message="last lines: boom")))
        said = f"restarting (failure {number} of 6, in {pause} s): worker-0 exited with 1 (Exit): last lines: boom"
        assert fleet.workload(1).message == said
        fleet.gone(1)
        pausing = fleet.workload(1)
        assert pausing.message == said, "and not that nothing of it runs"
        if pausing.phase is Phase.PENDING:  # so long a pause that its devices are given back
            why = explaining.explanation(pausing, explain(fleet.world, pausing))
            assert why.reason.message == f"it restarts after a pause, {pause} s left; {said}"
        fleet.wait(pause)
        fleet.run(1)
    assert fleet.workload(1).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        ("", ""),
        ("one\n\ntwo\nthree\nfour\n", "two | three | four"),
        ("\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07end\n", "red  end"),
        ("a\x1b[2Jb\u202ec\rd", "ab c | d"),
        ("x" * 500, "x" * 160 + "..."),
        ("cut \x1b[3", "cut"),
    ],
)
def test_the_last_lines_of_a_log_are_printable_and_short(tail: str, told: str) -> None:
    assert last_lines(tail) == told


def test_how_far_a_series_is_goes_out_with_its_phase() -> None:
    fleet = Fleet(node("a", 8))
    fleet.submit(1, request(role(whole()))._replace(trials=Trials(3, 2)))
    for rank in (0, 1, 2):
        fleet.send(fleet.status(1, READY, rank=rank))
        if rank == 1:
            assert fleet.workload(1).message == "1 of 3 trials are done, at most 2 run at once"
        fleet.send(fleet.status(1, ReplicaState.SUCCEEDED, rank=rank, exit_code=0))
        fleet.send(fleet.status(1, None, rank=rank, gone=True))
    last = event_of(changes(fleet)[-1], fleet.world, Placements())
    assert isinstance(last, scheduler_pb2.PhaseChanged)
    assert (last.trials.done, last.trials.total, last.trials.at_once) == (3, 3, 2)
    assert (fleet.workload(1).phase, fleet.workload(1).message) == (Phase.COMPLETED, "all 3 trials are done")


def test_no_other_workload_has_trials() -> None:
    last = event_of(changes(running())[-1], running().world, Placements())
    assert isinstance(last, scheduler_pb2.PhaseChanged)
    assert not last.HasField("trials")
