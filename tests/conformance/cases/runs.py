"""Attempts, generations and incarnations: what comes after what, and what never runs beside each other."""

from __future__ import annotations

from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, run
from tests.support.waiting import eventually


@case()
async def a_later_attempt_waits_until_the_earlier_one_is_gone(stage: Stage) -> None:
    work = stage.work(programs.STUBBORN)
    await work.assign()
    await work.state(READY)
    await stage.platform.settled(work.id, work.name())
    await work.assign(attempt=1, revision=1)
    await work.state(READY, attempt=1)
    assert work.is_in_turn(work.name(), work.name(attempt=1))
    await work.release(attempt=1)
    await work.nothing_left()


@case()
async def a_later_generation_of_a_training_replaces_the_earlier_one(stage: Stage) -> None:
    work = await stage.running()
    await work.assign(generation=2, revision=1)
    name = work.name(generation=2)
    await work.state(READY, name=name)
    assert work.is_in_turn(work.name(), name)
    await work.finish(0, name)
    await work.state(SUCCEEDED, name=name)


@case()
async def an_attempt_after_a_failure_starts_anew(stage: Stage) -> None:
    work = stage.work(programs.ends(3))
    await work.assign()
    await work.state(GONE)
    await work.assign(attempt=1, revision=1, command=programs.WAITS)
    await work.state(READY, attempt=1)
    assert await work.starts(work.name(attempt=1)) == 1
    await work.finish(0, work.name(attempt=1))
    await work.state(SUCCEEDED, attempt=1)
    await work.release(attempt=1)
    await work.nothing_left()


@case(given=[1, 2])
async def another_incarnation_of_a_trial_has_another_name_and_starts_once(stage: Stage, k: int) -> None:
    work = stage.work(programs.WAITS, completions=2, parallelism=2)
    await work.assign(runs=[run(count=2)])
    await work.state(READY, name=work.name(index=0))
    await work.state(READY, name=work.name(index=1))
    await work.finish(1, work.name(index=1))
    await work.state(GONE, name=work.name(index=1))
    await work.assign(revision=1, runs=[run(), run(first=1, k=k)])
    later = work.name(index=1, k=k)
    assert (await work.state(READY, name=later)).k == k
    assert await work.starts(work.name(index=0)) == 1
    assert await work.starts(later) == 1


@case()
async def a_trial_that_is_no_longer_wanted_is_stopped(stage: Stage) -> None:
    work = stage.work(programs.WAITS, completions=3, parallelism=3)
    await work.assign(runs=[run(count=3)])
    for index in range(3):
        await work.state(READY, name=work.name(index=index))
    await work.assign(revision=1, runs=[run(count=2)])
    await work.state(GONE, name=work.name(index=2))
    for index in range(2):
        assert work.states(work.name(index=index))[-1] == "READY"
        await work.finish(0, work.name(index=index))
        await work.state(SUCCEEDED, name=work.name(index=index))


@case()
async def more_trials_start_beside_those_that_run(stage: Stage) -> None:
    work = stage.work(programs.WAITS, completions=4, parallelism=4)
    await work.assign(runs=[run()])
    await work.state(READY, name=work.name())
    await work.assign(revision=1, runs=[run(), run(count=2, node="n-1", first=1)])
    for index in range(3):
        await work.state(READY, name=work.name(index=index))
    assert await work.starts(work.name()) == 1


@case()
async def an_attempt_on_another_node_runs_there(stage: Stage) -> None:
    work = await stage.running()
    await work.assign(attempt=1, revision=1, runs=[run(node="n-1")])
    assert (await work.state(READY, attempt=1)).node == "n-1"
    assert work.is_in_turn(work.name(), work.name(attempt=1))


@case(given=[20])
async def many_workloads_at_once_run_once_each(stage: Stage, count: int) -> None:
    works = [stage.work(programs.ends(0)) for _ in range(count)]
    for work in works:
        await work.assign()
    for work in works:
        await work.state(GONE)
        assert await eventually(work.starts, lambda starts: starts == 1) == 1
        await work.release()
    for work in works:
        await work.nothing_left()


@case()
async def one_that_fails_spares_the_others(stage: Stage) -> None:
    bad, good = stage.work(programs.MISSING), stage.work(programs.WAITS)
    await bad.assign()
    await good.assign()
    await bad.state(FAILED)
    await good.state(READY)
    await good.finish(0)
    await good.state(SUCCEEDED)
