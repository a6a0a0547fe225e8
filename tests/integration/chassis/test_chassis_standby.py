"""A commit that no synchronous standby has is not acknowledged, and nothing of it is published."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from muster.api.v1.dead_letters_pb2 import ResumeConsumerRequest, ResumeConsumerResponse
from muster_chassis import database as database_module
from muster_chassis import standby as standby_module
from muster_chassis.database import Database, DatabaseError, OutcomeUnknown
from muster_chassis.health import Health
from muster_chassis.outbox import Relay
from muster_chassis.rpc import once
from muster_chassis.sending import Offset
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from muster_stack.postgres import DATABASE
from tests.support.pair import NAME, Pair, pair
from tests.support.stations import asked, opened, station
from tests.support.waiting import until

QUICK: dict[str, Any] = {"database_statement_seconds": 1.0}


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    with pair() as found:
        yield found


@pytest.fixture
def standby(both: Pair) -> Iterator[Pair]:
    yield both
    if both._process is None:
        both.start()


def url(both: Pair, role: str = "policy") -> str:
    return both.primary.server.url(role)


async def publish(here: Database, name: str) -> None:
    async with here.unit() as unit:
        unit.publish(SUBMISSIONS, name, asked(name))


def on_standby(both: Pair, name: str) -> bool:
    return name in both.sql("SELECT aggregate FROM policy.outbox").splitlines()


async def test_an_acknowledged_commit_is_on_the_standby(standby: Pair) -> None:
    async with opened(url(standby), **QUICK) as here:
        await publish(here, "acknowledged")
    # The standby has its log; it applies it a moment later.
    await until(lambda: on_standby(standby, "acknowledged"))


async def test_without_the_standby_nothing_is_acknowledged(standby: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_RESOLVE_SECONDS", 3.0)
    async with opened(url(standby), **QUICK) as here:
        await publish(here, "before")
        standby.stop()
        with pytest.raises(OutcomeUnknown, match="no synchronous standby had it"):
            await publish(here, "alone")
        assert await here.pool.fetchval("SELECT count(*) FROM outbox WHERE aggregate = 'alone'") == 1
        standby.start()
        await publish(here, "after")
    await until(lambda: on_standby(standby, "alone") and on_standby(standby, "after"))


async def test_the_retry_of_a_key_finds_the_outcome(standby: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_RESOLVE_SECONDS", 3.0)
    done: list[str] = []

    async def work(unit: Unit) -> ResumeConsumerResponse:
        unit.publish(SUBMISSIONS, "keyed", asked("keyed"))
        done.append(f"answer {len(done) + 1}")
        return ResumeConsumerResponse(topics=done)

    async def call() -> list[str]:
        request = ResumeConsumerRequest(topic="t", idempotency_key="standby")
        return list((await once(here, "ResumeConsumer", request, ResumeConsumerResponse, work)).topics)

    async with opened(url(standby), **QUICK) as here:
        standby.stop()
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="no synchronous standby had it"):
                await call()
        await asyncio.to_thread(standby.start)
        assert await call() == ["answer 1"]
        assert done == ["answer 1"]
        assert await here.pool.fetchval("SELECT count(*) FROM outbox WHERE aggregate = 'keyed'") == 1
        assert await here.pool.fetchval("SELECT count(*) FROM idempotency WHERE key = 'standby'") == 1
    await until(lambda: on_standby(standby, "keyed"))


async def test_a_server_whose_commits_wait_for_no_standby_is_refused(standby: Pair) -> None:
    server = standby.primary.server

    def name(synchronous: str) -> None:
        server._sql("postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{synchronous}'")
        server._sql("postgres", "SELECT pg_reload_conf()")

    await until(lambda: server._sql("postgres", "SELECT count(*) FROM pg_stat_replication") == "1")
    name("")
    try:
        await until(lambda: not server._sql("postgres", "SHOW synchronous_standby_names"))
        with pytest.raises(DatabaseError, match=r"1 standby\(s\) and synchronous_standby_names is empty"):
            async with opened(url(standby), **QUICK):
                pass
    finally:
        name(NAME)
    await until(lambda: server._sql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync")
    async with opened(url(standby), **QUICK):
        pass


async def test_a_standby_that_comes_back_in_time_is_waited_for(standby: Pair) -> None:
    async with opened(url(standby), **QUICK) as here:
        standby.stop()
        publishing = asyncio.create_task(publish(here, "patient"))
        await asyncio.wait({publishing}, timeout=3)  # longer than PostgreSQL itself waits for the standby
        assert not publishing.done()
        await asyncio.to_thread(standby.start)
        await publishing
    await until(lambda: on_standby(standby, "patient"))


async def test_a_wait_that_an_operator_cancels_is_no_acknowledgement(standby: Pair) -> None:
    def cancel() -> bool:
        """PostgreSQL answers the COMMIT with success then, and a warning."""
        waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        return standby.primary.server._sql("postgres", waiting).startswith("t")

    async with opened(url(standby), database_statement_seconds=30.0) as here:
        standby.stop()
        publishing = asyncio.create_task(publish(here, "cancelled"))
        await until(cancel)
        await until(cancel)  # the row by which it looks again waits as well
        assert not publishing.done()
        await asyncio.to_thread(standby.start)
        await publishing
    await until(lambda: on_standby(standby, "cancelled"))


async def test_a_commit_that_the_server_lacks_is_not_acknowledged(
    standby: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_over(_: Any) -> bool:
        """A standby that has not received the commit takes over."""
        lose = "SET synchronous_commit = local; DELETE FROM policy.commits"
        await asyncio.to_thread(standby.primary.server._sql, DATABASE, lose)
        return False

    monkeypatch.setattr(standby_module, "confirm", fail_over)
    async with opened(url(standby), **QUICK) as here:
        standby.stop()
        with pytest.raises(asyncpg.PostgresConnectionError, match="a failover has lost commit"):
            await publish(here, "lost")


class _Recording(Relay):
    """Writes down what is sent, and sends it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent: list[str] = []

    async def _send(self, producer: Any, rows: Any) -> list[Offset]:
        self.sent.extend(row["aggregate"] for row in rows)
        return await super()._send(producer, rows)


async def test_what_the_standby_lacks_is_not_published(
    standby: Pair, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_RESOLVE_SECONDS", 3.0)
    async with station("submission", url(standby, "submission"), kafka, **QUICK) as here:
        relay = _Recording(here.database, here.bus)
        here.go(relay.run)
        await publish(here.database, "first")
        await until(lambda: relay.sent == ["first"])
        standby.stop()
        with pytest.raises(OutcomeUnknown):
            await publish(here.database, "second")
        health: Health = here.bus.health
        await until(lambda: "standby" in health.waiting)
        assert relay.sent == ["first"]
        await asyncio.to_thread(standby.start)
        await until(lambda: relay.sent == ["first", "second"])
        assert health.waiting == {}
