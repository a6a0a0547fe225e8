"""The agent itself: killed at any moment, started again, held back; each of these has an agent of its own."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Final

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from tests.conformance import programs
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import fake_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, Work, run

HELD: Final = agent_pb2.AssignmentsHeld
_MET: Final = 4


async def again(stage: Stage) -> None:
    """Kills the agent and starts it again."""
    await stage.kill()
    stage.bus.forget()
    await stage.up()


@case(alone=True)
async def a_killed_agent_finds_what_runs(stage: Stage) -> None:
    work = await stage.running()
    await again(stage)
    await work.state(READY)
    await work.finish(3)
    assert (await work.state(FAILED)).exit_code == 3
    assert await work.starts() == 1
    await work.release()
    await work.nothing_left()


@case(alone=True)
async def an_end_while_no_agent_runs_is_told_by_the_next(stage: Stage) -> None:
    work = await stage.running()
    await stage.kill()
    await work.finish(3)
    stage.bus.forget()
    await stage.up()
    assert (await work.state(FAILED)).exit_code == 3
    await work.state(GONE)
    assert await work.starts() == 1


@case(alone=True)
async def a_release_while_no_agent_runs_is_done_by_the_next(stage: Stage) -> None:
    work = await stage.running()
    await stage.kill()
    await work.release()
    stage.bus.forget()
    await stage.up()
    await work.state(GONE)
    await work.nothing_left()


@case(alone=True)
async def an_assignment_while_no_agent_runs_is_done_by_the_next(stage: Stage) -> None:
    await stage.kill()
    work = stage.work(programs.ends(0))
    await work.assign()
    await stage.up()
    await work.state(SUCCEEDED)
    assert await work.starts() == 1


@case(alone=True)
async def a_later_attempt_while_no_agent_runs_waits_for_the_end_of_the_earlier(stage: Stage) -> None:
    work = await stage.running()
    await stage.kill()
    await work.assign(attempt=1, revision=1)
    stage.bus.forget()
    await stage.up()
    await work.state(READY, attempt=1)
    assert work.is_in_turn(work.name(), work.name(attempt=1))


@case(alone=True)
async def what_it_holds_is_told_when_it_starts(stage: Stage) -> None:
    works = [stage.work(programs.WAITS) for _ in range(3)]
    for work in works:
        await work.assign()
        await work.state(READY)
    await again(stage)
    held = await stage.bus.first(lambda m: isinstance(m, HELD) and len(m.assignments) == 3)
    assert {each.workload_id for each in held.assignments} == {work.id for work in works}
    assert held.highest_epoch == 1


@case(alone=True)
async def its_starts_are_counted_and_its_reports_ordered(stage: Stage) -> None:
    first = await stage.bus.first(lambda m: isinstance(m, agent_pb2.Heartbeat))
    await again(stage)
    second = await stage.bus.first(lambda m: isinstance(m, agent_pb2.Heartbeat) and m.order.start > first.order.start)
    assert second.order.instance == first.order.instance
    places = [(m.order.start, m.order.sequence) for m in stage.bus.seen if hasattr(m, "order")]
    assert places == sorted(places)


@case(alone=True)
async def the_epoch_that_it_has_seen_outlives_it(stage: Stage) -> None:
    stage.bus.epoch = 7
    work = stage.work(programs.ends(0))
    await work.assign()
    await work.state(GONE)
    await again(stage)
    old = stage.work(programs.WAITS)
    made = old.assignment()
    made.epoch = 6
    await stage.bus.assign(made)
    await stage.passed()
    assert old.reports() == []


@case(alone=True)
async def what_was_released_is_not_started_by_the_next(stage: Stage) -> None:
    work = stage.work(programs.ends(0))
    made = await work.assign()
    await work.state(GONE)
    await work.release()
    await work.nothing_left()
    await again(stage)
    await stage.passed()  # it has read the tombstone
    await stage.bus.assign(made)
    await stage.passed()
    assert await work.starts() == 1


@case(alone=True)
async def what_had_failed_is_not_started_by_the_next(stage: Stage) -> None:
    work = stage.work(programs.ends(3))
    await work.assign()
    await work.state(GONE)
    await again(stage)
    assert (await work.state(GONE)).exit_code == 3
    assert await work.starts() == 1


@case(alone=True)
async def trials_go_on_over_the_end_of_the_agent(stage: Stage) -> None:
    work = stage.work(programs.WAITS, completions=4, parallelism=4)
    await work.assign(runs=[run(count=2), run(count=2, first=2, node="n-1")])
    names = [work.name(index=index) for index in range(4)]
    for name in names:
        await work.state(READY, name=name)
    await again(stage)
    for name in names:
        await work.finish(0, name)
        await work.state(SUCCEEDED, name=name)
        assert await work.starts(name) == 1


@case(given=range(4), alone=True, long=True)
async def killed_at_some_moment_it_neither_doubles_nor_loses(stage: Stage, seed: int) -> None:
    """The moments are drawn by the seed: while replicas are made, while they end, while they are taken away.

    A replica whose start a kill has met may end as a fault of the infrastructure; the scheduler then starts it again.
    """
    drawn = random.Random(seed)
    lasting = [stage.work(programs.WAITS) for _ in range(4)]
    short = [stage.work(programs.ends(number)) for number in range(4)]
    writing = asyncio.create_task(written(lasting, short, drawn))
    for _ in range(2):
        await asyncio.sleep(drawn.uniform(0.0, 1.5))
        await stage.kill()
        await stage.up()
    await writing
    attempts = {
        work.id: await told_or_made_again(work, GONE if work in short else READY) for work in (*short, *lasting)
    }
    assert sum(attempts.values()) <= _MET, "more starts than the kills can have met"
    for number, work in enumerate(short):
        assert (await work.state(GONE, attempt=attempts[work.id])).exit_code == number, work.told()
    for work in lasting:  # what runs survives every kill
        await work.finish(0, work.name(attempt=attempts[work.id]))
        await work.state(SUCCEEDED, attempt=attempts[work.id])
    for work in (*short, *lasting):
        await work.release(attempt=attempts[work.id])
        await work.nothing_left()
        for attempt in range(2):
            assert await work.starts(work.name(attempt=attempt)) <= 1


async def told_or_made_again(work: Work, state: int) -> int:
    """The attempt that reaches the state: the second one where a kill has met the start of the first."""
    found = await work.told_of({state, GONE})
    if found.failure != fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE:
        return 0
    await work.assign(attempt=1, revision=1)
    await work.state(state, attempt=1)
    return 1


async def written(lasting: list[Work], short: list[Work], drawn: random.Random) -> None:
    """Writes assignments with pauses."""
    for work in drawn.sample([*lasting, *short], len(lasting) + len(short)):
        await work.assign()
        await asyncio.sleep(drawn.uniform(0.0, 0.3))


@case(alone=True)
async def an_agent_that_holds_starts_nothing_and_tells_what_it_has(stage: Stage) -> None:
    await stage.kill()
    stage.agent.hold = True
    work = stage.work(programs.ends(0))
    await work.assign()
    stage.bus.forget()
    await stage.up()
    held = await stage.bus.first(lambda m: isinstance(m, HELD) and m.assignments)
    assert held.assignments[0].workload_id == work.id
    await work.release()
    await work.state(GONE)
    assert work.states() == ["GONE"]
    await work.nothing_left()
    assert await work.starts() == 0


@case(Capability.REBOOTS, alone=True)
async def a_node_that_starts_again_while_no_agent_runs_is_noticed(stage: Stage) -> None:
    node = stage.node()
    work = await stage.running(node)
    await stage.kill()
    await stage.platform.silence(node)
    await stage.platform.reboot(node)
    stage.bus.forget()
    await stage.up()
    gone = await work.state(GONE)
    assert gone.failure == fleet_pb2.FAILURE_CLASS_INFRASTRUCTURE
    assert gone.gone_evidence in {"boot-id-changed", stage.platform.gone}  # the kubelet may be faster than the node


@case(Capability.API_FAULTS, alone=True)
async def a_cluster_that_is_restored_to_an_earlier_state_starts_nothing_again(stage: Stage) -> None:
    """The store comes back as it was: pods that have gone are there again, and their runs were released meanwhile."""
    lasting, released = await stage.running(), await stage.running()
    server = fake_of(stage).server
    kept = copy.deepcopy(server.objects)
    await released.release()
    await released.state(GONE)
    await released.nothing_left()
    first = next(message.order.start for message in stage.bus.seen if isinstance(message, agent_pb2.Heartbeat))
    await stage.kill()
    for kind, objects in kept.items():
        for key in server.objects[kind].keys() - objects.keys():
            server.remove(kind, key)
        for item in objects.values():
            server.put(kind, item)
    stage.bus.forget()
    await stage.up()
    beat = await stage.bus.first(lambda m: isinstance(m, agent_pb2.Heartbeat))
    assert beat.order.start > first, "the scheduler ignores its reports"
    await released.state(GONE)
    await released.nothing_left()
    await lasting.state(READY)
    await lasting.finish(0)
    await lasting.state(SUCCEEDED)
    assert [await work.starts() for work in (lasting, released)] == [1, 1]
