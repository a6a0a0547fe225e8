"""The opt-in that gives a lost cluster's devices back: refused and taken over gRPC, and kept in PostgreSQL."""

from __future__ import annotations

from typing import Any

import asyncpg
import grpc
import pytest

from muster.api.v1 import fleet_pb2, fleet_pb2_grpc
from muster.fleet.v1 import fleet_pb2 as fleet
from muster_chassis.migrations import of_package
from muster_chassis.migrations.apply import migrate
from muster_chassis.rpc import ServiceName
from muster_scheduler.adapters import rows
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig
from tests.support.identities import channel_to
from tests.support.scheduling import neighbours, scheduler
from tests.support.waiting import eventually


async def test_the_opt_in_waits_for_an_agent_with_a_deadline(kafka: str, database: Any) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka) as candidate:
        address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
        async with channel_to(ServiceName.SCHEDULER, address) as channel:
            stub = fleet_pb2_grpc.FleetServiceStub(channel)

            async def register(lost_timeout: int, key: str) -> fleet.Cluster:
                asked = fleet_pb2.RegisterClusterRequest(
                    cluster="north", lost_timeout_seconds=lost_timeout, idempotency_key=key
                )
                return (await stub.RegisterCluster(asked)).cluster

            async def leads() -> bool:
                try:
                    await register(0, "first")
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                    return False
                return True

            async def reported() -> int:
                answer = await stub.ListClusters(fleet_pb2.ListClustersRequest())
                return int(answer.clusters[0].dead_man_seconds)

            await eventually(leads)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await register(900, "unbound")
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "no agent has reported" in str(caught.value.details())
            await others.inventory("north")
            await others.heartbeat("north", dead_man=1800)
            await eventually(reported, lambda seen: seen == 1800)
            made = await register(900, "second")
            assert (made.lost_timeout_seconds, made.dead_man_seconds, made.released_after_seconds) == (900, 1800, 1860)
        await candidate.stop()
    connection = await asyncpg.connect(url)
    try:
        body = await connection.fetchval("SELECT body FROM clusters WHERE id = 'north'")
        assert rows.to_cluster("north", body, 0).released_after == 1860
    finally:
        await connection.close()


async def test_rows_of_before_are_read(database: Any) -> None:
    """The profile was an array with `ends_replicas_itself` at its 7th place, and no row had a deadline."""
    steps = of_package("scheduler", "muster_scheduler")
    connection = await asyncpg.connect(database.url("scheduler"))
    profile = '["local",false,true,true,false,"dynamic",true,["image"],[],["local"],false,"landlock"]'
    numbers = '"start":3,"observed":5,"inventory_sequence":7,"full_needed":false,"silent":false,"lost_timeout":900'
    try:
        await migrate(connection, "scheduler", [step for step in steps if step.number < 7])
        for cluster, said in (("north", profile), ("south", "null")):
            body = f'{{"instance":"i","profile":{said},{numbers}}}'
            await connection.execute("INSERT INTO clusters (id, body) VALUES ($1, $2)", cluster, body)
        await migrate(connection, "scheduler", steps)
        found = {row["id"]: row["body"] for row in await connection.fetch("SELECT id, body FROM clusters")}
    finally:
        await connection.close()
    north, south = rows.to_cluster("north", found["north"], 0), rows.to_cluster("south", found["south"], 0)
    assert north.profile == Profile(
        mig=Mig.DYNAMIC, ignored_fields=("image",), service_types=("local",), confinement="landlock"
    )
    assert south.profile is None
    assert [(one.start, one.lost_timeout, one.dead_man) for one in (north, south)] == [(3, 900, 0)] * 2
