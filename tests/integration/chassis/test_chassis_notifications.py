"""Instances of one service hear of each other's commits, also after their connection was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from muster_chassis import outbox
from muster_chassis.database import Database
from muster_chassis.notifications import OUTBOX, Notifications
from muster_chassis.topics import SUBMISSIONS
from tests.support.stations import asked, settings, station
from tests.support.waiting import until

_LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' OR query LIKE 'SELECT pg_notify%'"


@dataclass
class Instance:
    """One instance and the kinds that it was called for."""

    database: Database
    notifications: Notifications
    heard: list[str] = field(default_factory=list)

    async def publish(self, workload: str = "w") -> None:
        async with self.database.unit() as unit:
            unit.publish(SUBMISSIONS, workload, asked(workload))


@asynccontextmanager
async def instance(database: Any) -> AsyncIterator[Instance]:
    """An instance that listens: its first calls, those of the connect, are over."""
    opened = await Database.open(settings(database.url("submission"), "submission"), source="submission")
    here = Instance(opened, Notifications(opened))
    for kind in (OUTBOX, "changes"):
        here.notifications.subscribe(kind, lambda kind=kind: here.heard.append(kind))  # type: ignore[misc]
    listening = asyncio.create_task(here.notifications.run())
    try:
        await until(lambda: here.heard == [OUTBOX, "changes"])
        here.heard.clear()
        yield here
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await opened.close()


async def test_a_commit_is_heard_by_the_others_alone(database: Any) -> None:
    async with instance(database) as first, instance(database) as second:
        await first.publish()
        await until(lambda: second.heard)
        first.notifications.send("changes")
        await until(lambda: second.heard == [OUTBOX, "changes"])
        assert not first.heard  # its own parts were told by the commit itself


async def test_the_relay_of_one_instance_sends_what_another_commits(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_POLL", 600.0)
    async with station("submission", database.url("submission"), kafka) as here, instance(database) as other:
        listener = Notifications(here.database)
        relay = here.relay()
        await here.publish("own")
        await until(lambda: relay.last == 1)
        called = asyncio.Event()
        listener.subscribe(OUTBOX, relay.wake)
        listener.subscribe(OUTBOX, called.set)
        here.go(listener.run)
        await called.wait()  # it has connected and listens: from here on the relay waits for a notification
        await until(lambda: not relay._wake.is_set())
        await other.publish("of the other")
        await until(lambda: relay.last == 2)


async def test_many_commits_are_few_notifications(database: Any) -> None:
    async with instance(database) as first, instance(database) as second:
        for _ in range(1000):
            first.notifications.send("changes")
        first.notifications.send(OUTBOX)
        await until(lambda: OUTBOX in second.heard)
        assert second.heard.count("changes") == 1


async def test_after_a_lost_connection_everything_is_looked_at_again(database: Any) -> None:
    async with instance(database) as first, instance(database) as second:
        ended = await first.database.pool.fetch(f"SELECT pg_terminate_backend(pid) FROM ({_LISTENERS}) AS l")  # noqa: S608
        assert len(ended) == 2
        await until(lambda: first.heard == second.heard == [OUTBOX, "changes"])
        second.heard.clear()
        await first.publish()
        await until(lambda: second.heard == [OUTBOX])


async def test_what_was_not_sent_is_sent_after_the_reconnect(database: Any) -> None:
    async with instance(database) as first, instance(database) as second:
        await first.database.pool.fetch(f"SELECT pg_terminate_backend(pid) FROM ({_LISTENERS}) AS l")  # noqa: S608
        first.notifications.send("changes")
        # One call is that of its own reconnect; the other one is the notification, or the reconnect came after it.
        await until(lambda: "changes" in second.heard and first.heard)
