"""A standby's state on a real PostgreSQL: after any work of the leader it is the one that is read back."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from muster.events.v1 import scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.workload.v1 import workload_pb2 as w
from muster_chassis import kafka as client
from muster_chassis.broker import Broker
from muster_scheduler.adapters.following import Follower, Overtaken
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.app import topics_of
from muster_scheduler.domain.asked.limits import Limits
from muster_stack.embedded import EmbeddedKafka
from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import leads, register
from tests.support.scheduling import neighbours, scheduler
from tests.support.waiting import eventually, until


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO scheduler")
        yield connection
    finally:
        await connection.close()


async def test_a_standby_follows_all_that_a_leader_does(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka) as candidate, _connected(url) as connection:
        follower = await Follower.read(connection, Limits(), 1)
        followed = 0

        async def agrees() -> bool:
            """The leader may write between the two reads, so that they have to agree once."""
            nonlocal followed
            followed += await follower.advance(connection, 1)
            follower.state.check()
            return follower.state.digest() == (await load(connection, Limits(), 1)).digest()

        await register(candidate, others)
        await eventually(agrees)
        ids = [await others.admit(f"w{n}", devices=n % 3 + 1) for n in range(6)]
        await until(lambda: all(others.phases(i) for i in ids))
        await eventually(agrees)
        taker = await others.admit("taker", devices=6, priority=75)
        await until(lambda: others.said(taker, scheduler_pb2.WorkloadClaimed))
        await eventually(agrees)
        # What the claim waits for leaves, though it may not be told yet: events of workloads come in any order.
        leaving = set(others.said(taker, scheduler_pb2.WorkloadClaimed)[-1].waits_for)
        ended = next(i for i in ids if i not in leaving and others.phases(i)[-1] == w.PHASE_INITIALIZING)
        await until(lambda: others.last_record(ended) is not None)
        record = others.last_record(ended)
        assert record is not None
        await others.status("north", record, fleet.REPLICA_STATE_SUCCEEDED, 0)
        await others.status("north", record, fleet.REPLICA_STATE_GONE)
        await others.ask(submission_pb2.DeletionRequested, ids[-1])
        await others.project("q", gpus=3)
        await others.department("d", 4)
        await others.inventory("north", devices=4)
        await until(lambda: others.phases(ended)[-1:] == [w.PHASE_COMPLETED])
        await eventually(agrees)
        assert followed > 5
        assert {workload.id for workload in follower.state.world.workloads.values()} >= {*ids, taker}


async def test_where_an_older_release_has_led_the_state_is_read_again(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others:
        async with scheduler(url, kafka) as candidate:
            await register(candidate, others)
        async with _connected(url) as connection:
            follower = await Follower.read(connection, Limits(), 1)
            led = await connection.fetchval("SELECT epoch FROM lease_epoch")
            await follower.check_terms(connection, led + 1)
            await connection.execute("UPDATE lease_epoch SET epoch = epoch + 1")  # it notes nothing
            with pytest.raises(Overtaken, match="a scheduler of an older release has led"):
                await follower.check_terms(connection, led + 2)


async def test_a_standby_creates_the_topics_of_clusters_that_another_leader_registered(
    own_kafka: EmbeddedKafka, database: TestDatabase
) -> None:
    """It started before the cluster was registered, and leads for the first time on a Kafka that was wiped."""
    url, bootstrap = database.url("scheduler"), own_kafka.bootstrap
    names = [topic.name for topic in topics_of("north")]

    async def there() -> bool:
        return len(await client.partitions_of(Broker(bootstrap), names, client="test")) == len(names)

    async with scheduler(url, bootstrap, instance="scheduler-0") as leader:
        await eventually(lambda: leads(leader))
        async with scheduler(url, bootstrap, instance="scheduler-1"):
            async with neighbours(bootstrap, "north") as others:
                await register(leader, others)
                early = await others.admit("early")
                await until(lambda: others.last_record(early) is not None)
            own_kafka.kill()
            await leader.kill()
            await asyncio.to_thread(own_kafka.wipe)
            async with neighbours(bootstrap, "north") as others:
                await eventually(there, within=60)
                await until(lambda: others.last_record(early) is not None, within=60)
                await others.inventory("north", start=2)
                late = await others.admit("late")
                await until(lambda: others.last_record(late) is not None)
    _let_go()


def _let_go() -> None:
    """Collect the connections to the killed Kafka, which aiokafka does not close: they would fail a later test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
