"""Telemetry put together: the only file that knows every part."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Final

import asyncpg

from muster_chassis import identity, logs
from muster_chassis.bus import Bus
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.database_watch import watch_postgres
from muster_chassis.dead_letters import dead_letters_service
from muster_chassis.intake import Intake
from muster_chassis.migrations import load
from muster_chassis.notifications import OUTBOX, Notifications
from muster_chassis.outbox import Relay
from muster_chassis.retention import Retention, paced
from muster_chassis.rpc import ServiceName, internal_server
from muster_chassis.runtime import Runtime
from muster_chassis.topics import SAMPLES
from muster_chassis.unit import Unit
from muster_telemetry.adapters.postgres import PostgresAccounts
from muster_telemetry.handlers import AT_ONCE, Handlers
from muster_telemetry.samples import DECODER
from muster_telemetry.settings import TelemetrySettings
from muster_telemetry.stream import Samples, SampleStream

_log = logs.get(__name__)
NAME: Final = "telemetry"
_DRAIN_SECONDS: Final = 3.0
_BEYOND: Final = timedelta(days=1)  # beyond the inbox, which stops older repeats
_FORGET_SECONDS: Final = 600.0
_FORGET_ROWS: Final = 2_000


async def compose(runtime: Runtime, settings: TelemetrySettings) -> None:
    """Opens everything and names the eternal tasks."""
    migrations = load(NAME, files("muster_telemetry") / "migrations")
    database = await Database.open(settings, source=NAME, migrations=migrations, health=runtime.health)
    runtime.close_last(database.close)
    bus = Bus.of_service(NAME, database, settings.broker, client=settings.instance, health=runtime.health)
    runtime.close_last(bus.close)
    await bus.open()
    server = internal_server(settings, ServiceName.TELEMETRY, [dead_letters_service(database)], runtime.health)
    await server.start()
    runtime.close_last(server.stop)
    accounts = PostgresAccounts()
    handlers = Handlers(accounts)
    intake = Intake(database, Samples(handlers), [SAMPLES], DECODER, health=runtime.health)
    await intake.breakers.look()
    stream = SampleStream(bus, intake, name=NAME, instance=settings.instance)
    relay = Relay(database, bus)
    notifications = Notifications(database)
    notifications.subscribe(OUTBOX, relay.wake)
    runtime.eternal("grpc health", server.run)
    runtime.eternal("bus", bus.watch)
    runtime.eternal("postgres", partial(watch_postgres, database, runtime.health))
    runtime.eternal("relay", relay.run)
    runtime.eternal("notifications", notifications.run)
    runtime.eternal("samples", stream.run, stop=stream.stop)
    runtime.eternal("sweep", stream.sweep)
    runtime.eternal("announce", partial(announce, database, handlers, settings.announce_seconds))
    runtime.eternal("forget", partial(forget, database, accounts))
    runtime.eternal("retention", Retention(database).run)
    runtime.drain(partial(relay.drain, _DRAIN_SECONDS))


async def announce(database: Database, handlers: Handlers, seconds: float) -> None:
    """Tells changed accounts, at most once in `seconds`. An eternal task."""
    told = 0
    while True:
        if told < AT_ONCE:
            await asyncio.sleep(seconds)
        told = 0
        try:
            if not await database.pool.fetchval("SELECT EXISTS (SELECT 1 FROM accounts WHERE changed)"):
                continue  # nothing to tell: no transaction, no fsync
            async with database.unit() as unit:
                told = await handlers.announce(unit)
        except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
            _log.warning("accounts could not be told, tried again", error=repr(error))


async def forget(database: Database, accounts: PostgresAccounts) -> None:
    """Every ten minutes remove what is due of replicas and workloads without use. An eternal task."""
    while True:
        try:
            await forget_due(database, accounts)
        except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
            _log.warning("old coverage and accounts could not be removed, tried again", error=repr(error))
        await asyncio.sleep(_FORGET_SECONDS)


async def forget_due(database: Database, accounts: PostgresAccounts) -> None:
    """Remove all coverage and accounts that are due now, batch by batch.

    Accounts go no earlier than coverage: use that is still covered is not counted for a new account. They stay for a
    day after an upgrade: until then a submission of the previous release may run, which does not add accounts up.
    """
    retention = database.settings.retention
    beyond = min(retention, _BEYOND)
    before = identity.now() - 2 * retention - beyond
    steps = [accounts.forget_replicas]
    async with database.unit() as unit:
        if unit.now - await accounts.runs_since(unit) >= beyond:
            steps.append(accounts.forget_workloads)

    async def batch(remove: Callable[[Unit, datetime, int], Awaitable[bool]]) -> bool:
        async with database.unit() as unit:
            return await remove(unit, before, _FORGET_ROWS)

    for remove in steps:
        while await paced(partial(batch, remove)):
            pass
