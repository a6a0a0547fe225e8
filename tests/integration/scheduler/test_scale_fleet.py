"""The fleet that the benchmarks write is one that a scheduler reads."""

from __future__ import annotations

from typing import Any

import asyncpg

from muster_chassis.migrations import of_package
from muster_chassis.migrations.apply import migrate
from muster_kernel.lifecycle import Phase
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain.asked.limits import Limits
from tests.support import scale_fleet
from tests.support.fleets import START
from tests.support.scale_fleet import Size


async def test_what_is_written_is_read(database: Any) -> None:
    size = Size(gpus=160, queued=30, projects=5, classes=10, pools=4, departments=2, clusters=2)
    connection = await asyncpg.connect(database.template)  # a checkpoint is for a superuser
    try:
        await migrate(connection, "scheduler", of_package("scheduler", "muster_scheduler"))
        await connection.execute("SET search_path TO scheduler")
        await scale_fleet.write(connection, size, b"")
        state = await load(connection, Limits(), START)
    finally:
        await connection.close()
    phases = [workload.phase for workload in state.world.workloads.values()]
    assert phases.count(Phase.PENDING) == size.queued
    assert phases.count(Phase.RUNNING) == len(list(scale_fleet.running(size)))
    assert len(state.world.inventory.nodes) == size.nodes
