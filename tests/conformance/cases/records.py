"""Records on the agent's topic: repeated, late, of other epochs and instances, forged, and unreadable."""

from __future__ import annotations

from typing import Any, Final

from muster.events.v1 import agent_pb2, dead_letter_pb2
from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import GONE, READY, SUCCEEDED, Stage, Work

_OLDER: Final = 1
_NEWER: Final = 2


async def dead_letter_of(stage: Stage, work: Work) -> None:
    """The agent has read the record and found that it is none."""
    await stage.bus.first(lambda m: isinstance(m, dead_letter_pb2.DeadLettered) and m.key == work.id.encode())


async def nothing_came_of(work: Work) -> None:
    """It was not started, and nothing was made of it."""
    assert work.reports() == []
    assert await work.starts() == 0
    assert await work.stage.platform.left(work.id) == []


@case()
async def an_assignment_written_three_times_starts_once(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    made = await work.assign()
    await stage.bus.assign(made)
    await work.state(READY)
    await stage.bus.assign(made)
    await stage.passed()
    assert await work.starts() == 1
    await work.finish(0)
    await work.state(GONE)
    assert work.states().count("READY") == 1


@case()
async def an_older_revision_that_comes_late_changes_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(revision=_NEWER)
    await work.state(READY)
    await work.assign(revision=_OLDER, attempt=7)
    await stage.passed()
    assert work.states() in (["READY"], ["STARTING", "READY"], ["CREATED", "STARTING", "READY"], ["CREATED", "READY"])
    assert {message.attempt for message in work.reports()} == {0}


@case()
async def an_assignment_that_a_tombstone_has_released_starts_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    made = await work.assign(revision=1)
    await work.state(READY)
    await work.release()
    await work.state(GONE)
    await work.nothing_left()
    await stage.bus.assign(made)  # a copy that comes after its tombstone
    await stage.passed()
    assert await work.starts() == 1


@case()
async def a_tombstone_of_an_earlier_attempt_spares_the_later_one(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(attempt=3)
    await work.state(READY)
    await work.release(attempt=2)
    await stage.passed()
    await work.finish(0, work.name(attempt=3))
    await work.state(SUCCEEDED)


@case()
async def a_tombstone_for_what_was_never_here_is_answered(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.release(generation=2, attempt=1)
    found = await stage.bus.first(lambda m: isinstance(m, agent_pb2.ReplicaStatusChanged), workload=work.id)
    assert (found.generation, found.attempt, found.status.name, found.status.state) == (2, 1, "", GONE)


@case()
async def a_tombstone_written_twice_is_answered_and_harms_nothing(stage: Stage) -> None:
    work = await stage.running()
    await work.release()
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


@case()
async def an_assignment_for_another_instance_starts_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(instance="another agent")
    await stage.passed()
    await nothing_came_of(work)


@case()
async def an_assignment_without_a_signature_starts_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    made = work.assignment()
    made.epoch = stage.bus.epoch
    await stage.bus.write(work.id, made.SerializeToString(), signed_as=None)
    await dead_letter_of(stage, work)
    await nothing_came_of(work)


@case()
async def a_signature_of_another_record_starts_nothing(stage: Stage) -> None:
    work, other = stage.work(programs.WAITS), stage.work(programs.WAITS)
    made = work.assignment()
    made.epoch = stage.bus.epoch
    await stage.bus.write(work.id, made.SerializeToString(), signed_as=other.id)
    await dead_letter_of(stage, work)
    await nothing_came_of(work)


@case()
async def an_assignment_under_the_key_of_another_workload_starts_nothing(stage: Stage) -> None:
    work, other = stage.work(programs.WAITS), stage.work(programs.WAITS)
    made = work.assignment()
    made.epoch = stage.bus.epoch
    await stage.bus.write(other.id, made.SerializeToString())
    await other.refused("BadRecord")
    await nothing_came_of(work)
    assert other.reports() == []


@case(given=["bytes", "empty", "no-kind"])
async def a_record_that_cannot_be_read_is_refused_and_the_rest_flows(stage: Stage, what: str) -> None:
    work = stage.work(programs.WAITS)
    made = work.assignment()
    made.epoch = stage.bus.epoch
    if what == "no-kind":
        made.revisions[0].spec.ClearField("kind")  # none that an agent knows
    values = {"bytes": b"\xff\xfe no protobuf", "empty": b"", "no-kind": made.SerializeToString()}
    await stage.bus.write(work.id, values[what])
    refused = await work.refused("BadRecord")
    assert refused.retry_after_seconds == 0
    await stage.passed()


@case()
async def a_key_of_another_kind_of_record_is_left_alone(stage: Stage) -> None:
    await stage.bus.write("project/vision", b"x")
    await stage.passed()
    assert not [message for message in stage.bus.seen if getattr(message, "key", b"") == b"project/vision"]


@case(given=["not-an-id", "x" * 300, "node/n-0"])
async def a_key_without_a_workload_becomes_a_dead_letter(stage: Stage, key: str) -> None:
    await stage.bus.write(key, b"x")

    def wanted(message: Any) -> bool:
        return isinstance(message, dead_letter_pb2.DeadLettered) and message.key == key.encode()

    assert (await stage.bus.first(wanted)).reason


@case()
async def a_tombstone_without_its_headers_is_a_dead_letter_and_releases_nothing(stage: Stage) -> None:
    work = await stage.running()
    await stage.bus.write(work.id, None)
    await stage.bus.first(lambda m: isinstance(m, dead_letter_pb2.DeadLettered) and m.key == work.id.encode())
    await stage.passed()
    assert work.states()[-1] == "READY"
    await work.finish(0)
    await work.state(SUCCEEDED)


@case(alone=True)
async def a_lower_epoch_is_not_obeyed(stage: Stage) -> None:
    stage.bus.epoch = 5
    work = await stage.running()
    old = stage.work(programs.WAITS)
    made = old.assignment()
    made.epoch = 4
    await stage.bus.assign(made)
    await tombstone_of_epoch(stage, work, 4)
    await stage.passed()
    await nothing_came_of(old)
    await work.finish(0)
    await work.state(SUCCEEDED)


@case(alone=True)
async def a_higher_epoch_goes_on_with_what_runs(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign(revision=3)
    await work.state(READY)
    stage.bus.epoch = 2
    await work.assign(revision=1)  # a new scheduler counts its own revisions
    await stage.passed()
    assert work.states()[-1] == "READY"
    assert await work.starts() == 1
    await work.release()
    await work.state(GONE)
    await work.nothing_left()


async def tombstone_of_epoch(stage: Stage, work: Work, epoch: int) -> None:
    """Writes a tombstone as a scheduler of another epoch."""
    now, stage.bus.epoch = stage.bus.epoch, epoch
    await work.release()
    stage.bus.epoch = now


@case(given=["not-an-id", "node/n-0"], alone=True)
async def a_broken_record_that_is_read_first_holds_nothing_up(stage: Stage, key: str) -> None:
    await stage.kill()
    await stage.bus.write(key, b"x")
    await stage.up()
    await stage.passed()
