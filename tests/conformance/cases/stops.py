"""Releases: in each phase of a replica, with and without the program's help, of one and of many."""

from __future__ import annotations

import time
from typing import Final

from muster.fleet.v1 import fleet_pb2
from muster_kernel.reasons import ChangeReason
from tests.conformance import programs
from tests.conformance.platforms import Capability
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, run

OURS: Final = fleet_pb2.FAILURE_CLASS_OURS


@case()
async def a_release_stops_what_runs_and_counts_as_ours(stage: Stage) -> None:
    work = await stage.running()
    await work.release()
    failed = await work.state(FAILED)
    assert failed.failure == OURS
    gone = await work.state(GONE)
    assert (gone.failure, gone.gone_evidence) == (OURS, stage.platform.gone)
    await work.nothing_left()


@case()
async def a_program_may_end_well_when_it_is_stopped(stage: Stage) -> None:
    work = stage.work(programs.POLITE)
    await work.assign()
    await work.state(READY)
    await stage.platform.settled(work.id, work.name())
    await work.release(grace=20)
    gone = await work.state(GONE)
    assert (gone.exit_code, gone.failure) == (0, OURS)


@case()
async def a_program_that_does_not_listen_is_killed_after_its_grace(stage: Stage) -> None:
    work = stage.work(programs.STUBBORN)
    await work.assign()
    await work.state(READY)
    await stage.platform.settled(work.id, work.name())
    asked = time.monotonic()
    await work.release(grace=2)
    gone = await work.state(GONE)
    assert time.monotonic() - asked >= 2
    assert (gone.exit_code, gone.failure) == (137, OURS)


@case(given=[ChangeReason.SUSPENDED.value, ChangeReason.DELETED.value, ChangeReason.PREEMPTED.value])
async def nothing_of_a_run_outlives_its_release(stage: Stage, reason: str) -> None:
    work = await stage.running()
    await work.release(reason=reason)
    await work.state(GONE)
    await work.nothing_left()
    assert await work.starts() == 1


@case()
async def a_release_right_behind_its_assignment_leaves_nothing(stage: Stage) -> None:
    work = stage.work(programs.WAITS)
    await work.assign()
    await work.release()
    await work.state(GONE)
    await work.nothing_left()
    assert await work.starts() <= 1


@case(given=[0, 3])
async def a_release_after_the_end_takes_nothing_back(stage: Stage, code: int) -> None:
    work = stage.work(programs.ends(code))
    await work.assign()
    await work.state(GONE)
    await work.release()
    await work.nothing_left()
    ends = {message.status.failure for message in work.reports() if message.status.state in {SUCCEEDED, FAILED, GONE}}
    assert OURS not in ends


@case(given=[2, 5])
async def a_release_stops_every_replica(stage: Stage, count: int) -> None:
    work = stage.work(programs.WAITS, completions=count, parallelism=count)
    await work.assign(runs=[run(count=count)])
    names = [work.name(index=index) for index in range(count)]
    for name in names:
        await work.state(READY, name=name)
    await work.release()
    for name in names:
        assert (await work.state(GONE, name=name)).failure == OURS
    await work.nothing_left()


@case(given=[1, 2])
async def a_suspended_workload_starts_again_as_another_attempt(stage: Stage, times: int) -> None:
    work = stage.work(programs.WAITS)
    for attempt in range(times):
        await work.assign(attempt=attempt)
        await work.state(READY, attempt=attempt)
        await work.release(attempt=attempt)
        await work.state(GONE, attempt=attempt)
        await work.nothing_left()
    await work.assign(attempt=times)
    await work.state(READY, attempt=times)
    for attempt in range(times + 1):
        assert await work.starts(work.name(attempt=attempt)) == 1
    await work.finish(0, work.name(attempt=times))
    await work.state(SUCCEEDED, attempt=times)


@case()
async def one_of_many_that_are_released_at_once_spares_the_others(stage: Stage) -> None:
    works = [stage.work(programs.WAITS) for _ in range(6)]
    for work in works:
        await work.assign()
    for work in works:
        await work.state(READY)
    for work in works[::2]:
        await work.release()
    for work in works[::2]:
        await work.state(GONE)
    for work in works[1::2]:
        await work.finish(0)
        assert (await work.state(SUCCEEDED)).exit_code == 0


@case(Capability.SIGNALS)
async def what_a_program_started_ends_with_it(stage: Stage) -> None:
    work = stage.work("sh -c 'setsid sleep 1000 & : > \"$MUSTER_WORKLOAD_DIR/$MUSTER_REPLICA.up\"; sleep 1000 & wait'")
    await work.assign()
    await work.state(READY)
    await stage.platform.settled(work.id, work.name())
    await work.release()
    await work.state(GONE)
    await work.nothing_left()  # its processes too
