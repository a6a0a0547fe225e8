"""Policy put together: the only file that knows every part.

Order of the start: PostgreSQL and the policies that stand there, Kafka with the topics that policy owns, then gRPC, the
relay, the consumer and the release of what waits.
"""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.resources import files
from typing import Final

import asyncpg

from muster_chassis import logs, metrics
from muster_chassis.bus import Bus
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.database_watch import watch_postgres
from muster_chassis.dead_letters import dead_letters_service
from muster_chassis.group_consumer import GroupConsumer
from muster_chassis.migrations import load
from muster_chassis.notifications import OUTBOX, Notifications
from muster_chassis.outbox import Relay
from muster_chassis.retention import Retention
from muster_chassis.rpc import Service, ServiceName, internal_server
from muster_chassis.runtime import Runtime
from muster_chassis.topics import SUBMISSIONS, TENANCY
from muster_policy.adapters.herald import KafkaHerald
from muster_policy.adapters.old_file import check_old_file
from muster_policy.adapters.policies import PostgresPolicies
from muster_policy.adapters.postgres import PostgresBooks, forget
from muster_policy.domain.standing import Shelf
from muster_policy.handlers.judging import Judging
from muster_policy.handlers.standing import Loading
from muster_policy.handlers.writing import Writing
from muster_policy.rpc import Policies, policies_service
from muster_policy.settings import PolicySettings
from muster_policy.stream import DECODER, Stream

_log = logs.get(__name__)
NAME: Final = "policy"
_RELEASE_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 3.0
_WAITING: Final = """
SELECT count(*) AS number, coalesce(extract(epoch FROM now() - min(at)), 0)::float8 AS seconds FROM waiting
"""
WAITING: Final = metrics.gauge(
    "muster_policy_waiting",
    unit="submissions",
    meaning="Submissions that cannot be judged yet: of a project, or a version of one, that has not come here, or of a "
    "branch with a policy that this build cannot read.",
    action="More than a few for minutes: look at the lag of muster.tenancy, and at muster_policy_unreadable.",
)
OLDEST: Final = metrics.gauge(
    "muster_policy_waiting_seconds",
    unit="seconds",
    meaning="For how long the oldest of them waits; one that was looked at in vain begins anew.",
    action="As for muster_policy_waiting.",
)


async def compose(runtime: Runtime, settings: PolicySettings) -> None:
    """Opens everything and names the eternal tasks."""
    await asyncio.to_thread(check_old_file, settings.policy_file)
    migrations = load(NAME, files("muster_policy") / "migrations")
    database = await Database.open(settings, source=NAME, migrations=migrations, health=runtime.health)
    runtime.close_last(database.close)
    store, books = PostgresPolicies(), PostgresBooks()
    loading = Loading(Shelf(), store)
    async with database.unit() as unit:
        await loading.seen(unit)  # not ready before every policy is compiled
    bus = Bus.of_service(NAME, database, settings.broker, client=settings.instance, health=runtime.health)
    runtime.close_last(bus.close)
    await bus.open()
    judging = Judging(loading, books, KafkaHerald())
    policies = Policies(database, loading, judging, Writing(loading, store, books), store, books)
    await _serve(runtime, settings, database, policies_service(policies))
    _flow(runtime, settings, database, bus, judging)


async def _serve(runtime: Runtime, settings: PolicySettings, database: Database, policies: Service) -> None:
    server = internal_server(settings, ServiceName.POLICY, [policies, dead_letters_service(database)], runtime.health)
    await server.start()
    runtime.close_last(server.stop)
    runtime.eternal("grpc health", server.run)


def _flow(runtime: Runtime, settings: PolicySettings, database: Database, bus: Bus, judging: Judging) -> None:
    relay = Relay(database, bus)
    notifications = Notifications(database)
    notifications.subscribe(OUTBOX, relay.wake)
    consumer = GroupConsumer(
        database,
        bus,
        instance=settings.instance,
        name=NAME,
        topics=[SUBMISSIONS, TENANCY],
        handler=Stream(judging),
        decoder=DECODER,
    )
    runtime.eternal("bus", bus.watch)
    runtime.eternal("postgres", partial(watch_postgres, database, runtime.health))
    runtime.eternal("relay", relay.run)
    runtime.eternal("notifications", notifications.run)
    runtime.eternal("consumer", consumer.run, stop=consumer.stop)
    runtime.eternal("release", partial(release, database, judging))
    runtime.eternal("retention", Retention(database, forget=forget).run)
    runtime.drain(partial(relay.drain, _DRAIN_SECONDS))


async def release(database: Database, judging: Judging) -> None:
    """Every two seconds judges what waited and no longer has to. An eternal task."""
    while True:
        await asyncio.sleep(_RELEASE_SECONDS)
        try:
            [(number, seconds)] = await database.pool.fetch(_WAITING)
            WAITING.set(number)
            OLDEST.set(seconds)
            if number:
                await release_due(database, judging)
        except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
            _log.warning("what waits could not be looked at, tried again", error=repr(error))


async def release_due(database: Database, judging: Judging) -> None:
    """Judge all submissions that waited and can be judged now, batch by batch."""
    more = True
    while more:
        async with database.unit() as unit:
            more = await judging.release(unit)
