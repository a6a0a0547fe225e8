"""The composition root: opens everything, has it wired, names the eternal tasks, starts to serve."""

from __future__ import annotations

from functools import partial
from typing import Final

from muster_chassis.bus import Bus
from muster_chassis.database import Database
from muster_chassis.database_watch import watch_postgres
from muster_chassis.migrations import of_package
from muster_chassis.notifications import OUTBOX
from muster_chassis.outbox import Relay
from muster_chassis.retention import Retention
from muster_chassis.rpc import Server, server_tls
from muster_chassis.runtime import Runtime
from muster_chassis.settings import CallKind
from muster_submission.app_parts import NAME, Application
from muster_submission.rest.server import RestServer
from muster_submission.rpc.tokens import PUBLIC
from muster_submission.settings import SubmissionSettings

KINDS: Final = {
    "/muster.api.v1.WorkloadsService/StreamLogs": CallKind.LOG,
    "/muster.api.v1.AgentGatewayService/Connect": CallKind.AGENT,
    "/muster.api.v1.AgentGatewayService/FetchSecrets": CallKind.AGENT,
    "/muster.api.v1.AgentGatewayService/FindDeleted": CallKind.AGENT,
}
"""Methods whose calls have limits of their own."""
_DRAIN_SECONDS: Final = 3.0


async def compose(runtime: Runtime, settings: SubmissionSettings) -> Application:
    """Opens and wires everything, and names the eternal tasks."""
    migrations = of_package(NAME, "muster_submission")
    database = await Database.open(settings, source=NAME, migrations=migrations, health=runtime.health)
    runtime.close_last(database.close)
    client = f"muster-{NAME}-{settings.instance}"
    bus = Bus.of_service(NAME, database, settings.broker, client=client, health=runtime.health, needed=False)
    runtime.close_last(bus.close)
    app = Application(runtime, settings, database, bus)
    for owner in (app.scheduler, app.policy, app.telemetry, app.refused_calls, app.expressions, app.peers):
        runtime.close_last(owner.close)
    async with database.unit() as unit:
        await app.departments.ensure_default(unit)
        await app.access_parts.begin(unit)
    upkeep = app.upkeep()
    relay = Relay(database, bus)
    app.notifications.subscribe(OUTBOX, relay.wake)
    access = app.access_parts
    server = Server(
        settings, app.services(), runtime.health, access.authenticate, PUBLIC, limiter=access.limiter, kinds=KINDS
    )

    async def stop_serving() -> None:
        app.feed.close()
        app.agents.end()
        await server.stop()

    runtime.eternal("bus", bus.watch)
    runtime.eternal("postgres", partial(watch_postgres, database, runtime.health))
    runtime.eternal("relay", relay.run)
    runtime.eternal("notifications", app.notifications.run)
    for consumer in app.consumers():
        runtime.eternal(f"consumer {consumer.name}", consumer.run, stop=consumer.stop)
    runtime.eternal("feed", app.feed.run)
    runtime.eternal("verdicts", app.verdicts.run)
    runtime.eternal("retention", Retention(database).run)
    runtime.eternal("archive", app.archiving().run)
    runtime.eternal("pruning", upkeep.keep_bounded)
    runtime.eternal("refusals", app.access_parts.refusals.run)
    runtime.eternal("refused calls", app.refused_calls.run)
    runtime.eternal("trigger lanes", app.lanes.run)
    if settings.secret_keys_file is not None:
        runtime.eternal("credentials", upkeep.keep_sealed)
    runtime.eternal("rpc", server.run, stop=stop_serving)
    if settings.rest_listen is not None:
        rest = RestServer(settings.rest_listen, app.edge(), reserved=settings.ports_reserved)
        rest.start()
        runtime.eternal("rest", rest.run, stop=rest.stop)
    runtime.drain(lambda: relay.drain(_DRAIN_SECONDS))
    await server.start(server_tls(settings))
    return app
