"""Kafka comes back empty, as another cluster: the agent stops nothing and tells everything it holds again (rule 8)."""

from __future__ import annotations

from typing import Final

from muster.events.v1 import agent_pb2
from tests.conformance import programs
from tests.conformance.registry import case
from tests.conformance.stage import GONE, READY, SUCCEEDED, Stage

HELD: Final = agent_pb2.AssignmentsHeld


@case(given=["meanwhile", "before"], own_bus=True, long=True)
async def what_was_over_is_not_started_by_the_past_of_an_emptied_bus(stage: Stage, killed: str) -> None:
    """The relay writes all records again in their order: an assignment comes before the tombstone that ended it."""
    over = stage.work(programs.ends(0))
    assigned = await over.assign()
    await over.state(GONE)
    await over.release()
    await over.nothing_left()
    if killed == "before":
        await stage.kill()
    await stage.empty_bus()
    await stage.bus.assign(assigned)
    if killed == "before":
        await stage.up()
    stage.bus.epoch = 2
    await stage.passed()  # the agent has read the assignment of before, and done what was written after it
    assert over.states() == []
    await stage.bus.release(over.id)
    await over.nothing_left()
    assert await over.starts() == 1


@case(given=["meanwhile", "before"], own_bus=True, long=True)
async def what_runs_outlives_an_emptied_bus_and_is_told_again(stage: Stage, killed: str) -> None:
    """The agent runs meanwhile, or was killed before and is started once Kafka is back."""
    lasting, deleted, over = await stage.running(), await stage.running(), stage.work(programs.ends(3))
    await over.assign()
    await over.state(GONE)
    if killed == "before":
        await stage.kill()
    await stage.empty_bus()
    if killed == "before":
        await stage.up()
    await lasting.state(READY)
    assert (await over.state(GONE)).exit_code == 3
    assert over.states() == ["FAILED", "GONE"]
    await stage.bus.first(lambda m: isinstance(m, agent_pb2.InventoryReported) and m.inventory.full)
    held = await stage.bus.first(lambda m: isinstance(m, HELD) and len(m.assignments) == 3)
    assert {each.workload_id for each in held.assignments} == {lasting.id, deleted.id, over.id}
    stage.bus.epoch = 2  # the scheduler writes again what its database has
    await lasting.assign()
    await over.assign()
    await deleted.release()  # its user deleted it while Kafka was away
    await deleted.state(GONE)
    await deleted.nothing_left()
    await stage.passed()
    await lasting.finish(0)
    await lasting.state(SUCCEEDED)
    await lasting.state(GONE)
    for work in (lasting, over):
        await work.release()
        await work.nothing_left()
    assert [await work.starts() for work in (lasting, deleted, over)] == [1, 1, 1]
