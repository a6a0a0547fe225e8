"""What is set aside is in PostgreSQL: a takeover knows it before its first cycle."""

from __future__ import annotations

from typing import Any

from muster_chassis.database import Database
from muster_chassis.migrations import of_package
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.state import State
from tests.support.fleets import Fleet, node, request
from tests.support.stations import settings


async def _rebuilt(here: Database, fleet: Fleet) -> State:
    async with here.pool.acquire() as connection:
        return await load(connection, fleet.state.world.limits, fleet.now)  # type: ignore[arg-type]  # the pool's proxy


async def _written(here: Database, fleet: Fleet, act: Any) -> None:
    fleet.state.begin(fleet.now)
    act()
    async with here.unit() as unit:
        await PostgresStore().write(unit, fleet.state.plan(), fleet.state.world)
    fleet.state.commit()


async def test_a_takeover_knows_who_is_set_aside_and_who_was_released(database: Any) -> None:
    migrations = of_package("scheduler", "muster_scheduler")
    here = await Database.open(
        settings(database.url("scheduler"), "scheduler"), source="scheduler", migrations=migrations
    )
    try:
        fleet = Fleet(node("n1", 2))
        bad = fleet.admitted(1, request())
        found = Quarantined(bad.workload, "ValueError: x", "Traceback: there", fleet.now)

        def set_aside() -> None:
            fleet.state.apply(bad)
            fleet.state.set_aside(found)

        await _written(here, fleet, set_aside)
        taken_over = await _rebuilt(here, fleet)
        assert taken_over.world.quarantined == {bad.workload: found}
        assert bad.workload not in taken_over.world.waiting
        await _written(here, fleet, lambda: fleet.state.release(bad.workload))
        taken_over = await _rebuilt(here, fleet)
        assert taken_over.world.quarantined == {}
        assert bad.workload in taken_over.world.waiting
    finally:
        await here.close()
