"""Rule 5, the lease's part: one scheduler leads, and what an old leader still wants to do is refused.

Taken out here: the lock on the epoch row (an old leader commits after the takeover), the transactional producer (an old
leader's assignments still go out), the renewal (a leader that was frozen does not notice), and the end of the old
leader's sessions (the transaction of one that is stopped holds up the takeover).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from muster_chassis import identity, lease_holder
from muster_chassis.database import Database
from muster_chassis.lease import LEASE_SECONDS, Deposed, Leadership, Term, fence
from muster_chassis.lease_holder import Contest
from muster_chassis.outbox import Fenced, Relay
from muster_chassis.topics import assignments
from muster_chassis.unit import ASSIGNMENTS, Unit
from tests.support.stations import asked, opened, station
from tests.support.waiting import until


async def _forever(_term: Term | None = None) -> None:
    await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def _candidate(database: Database, holder: str, **options: Any) -> AsyncIterator[Leadership]:
    leadership = Leadership(database, holder, lease=1.5, **options)
    task = asyncio.ensure_future(leadership.run(_forever))
    try:
        yield leadership
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _takeover(database: Database, holder: str, sessions: str = "none") -> int:
    """One takeover, alone; the new epoch. sessions: the application_name of the new leader."""
    connection = await database.connect()
    try:
        contest = Contest(connection, database.settings.database_schema, "leader", holder, sessions, LEASE_SECONDS)
        assert await contest.free()
        epoch = await contest.take(0)
        assert epoch is not None
        return epoch
    finally:
        await connection.close()


async def _plain_fence(unit: Unit, epoch: int) -> None:
    """The mechanism taken out: a condition without the lock."""
    sql = "SELECT 1 FROM lease_epoch WHERE name = 'leader' AND epoch = $1"
    if await unit.connection.fetchval(sql, epoch) is None:
        raise Deposed("over")


async def _commit_across_a_takeover(database: Any, begin: Callable[[Unit, int], Awaitable[None]]) -> bool:
    """Whether a takeover sees all that the old leader writes: its transaction is open while another one takes over."""
    async with opened(database.url("scheduler"), "scheduler") as here:
        epoch = await _takeover(here, "old")
        await here.pool.execute("UPDATE lease_renewal SET expires = '-infinity'")

        async def take_over() -> bool:
            await _takeover(here, "new")
            return bool(await here.pool.fetchval("SELECT count(*) FROM breakers"))

        async with here.unit(begin=lambda unit: begin(unit, epoch)) as unit:
            await unit.connection.execute("INSERT INTO breakers VALUES ('t', 'r', now())")
            takeover = asyncio.ensure_future(take_over())
            await asyncio.wait({takeover}, timeout=0.5)
        return await takeover


async def test_a_takeover_waits_for_what_has_passed_the_fence(database: Any) -> None:
    async def fence(unit: Unit, epoch: int) -> None:
        await Term(epoch).fence(unit)

    assert await _commit_across_a_takeover(database, fence)


async def test_with_a_plain_condition_the_old_leader_commits_after_the_takeover(database: Any) -> None:
    assert not await _commit_across_a_takeover(database, _plain_fence)


async def _takeover_from_a_stopped_leader(database: Any) -> bool:
    """Whether a takeover does not wait for the open transaction of a leader that will never go on with it."""
    url = database.url("scheduler")
    async with opened(url, "scheduler") as old, opened(url, "scheduler") as new:
        epoch = await _takeover(old, "old", await old.pool.fetchval("SHOW application_name"))
        await new.pool.execute("UPDATE lease_renewal SET expires = '-infinity'")
        stopped = await old.connect()
        try:
            await stopped.execute("BEGIN")
            await fence(Unit(cast("Any", stopped), identity.now(), "scheduler"), epoch)
            return await asyncio.wait_for(_takeover(new, "new"), 2) == epoch + 1
        except TimeoutError:
            return False
        finally:
            stopped.terminate()


async def test_a_takeover_ends_the_sessions_of_a_leader_that_is_stopped(database: Any) -> None:
    assert await _takeover_from_a_stopped_leader(database)


async def test_if_they_stayed_its_open_transaction_would_hold_up_the_takeover(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_holder, "_END_SESSIONS", "SELECT $1::text")
    assert not await _takeover_from_a_stopped_leader(database)


async def test_after_a_takeover_the_old_leader_may_not_begin(database: Any) -> None:
    async with opened(database.url("scheduler"), "scheduler") as here:
        old = await _takeover(here, "a")
        await _takeover(here, "a")
        with pytest.raises(Deposed):
            async with here.unit(begin=Term(old).fence) as unit:
                await unit.connection.execute("INSERT INTO breakers VALUES ('t', 'r', now())")
        assert await here.pool.fetchval("SELECT count(*) FROM breakers") == 0


async def test_one_leads_at_a_time_and_the_next_has_a_higher_epoch(database: Any) -> None:
    async with opened(database.url("scheduler"), "scheduler") as here:
        async with _candidate(here, "a") as first:
            await until(lambda: first.term)
            async with _candidate(here, "b") as second:
                await asyncio.wait({asyncio.ensure_future(_leads(second))}, timeout=2.5)
                assert second.term is None
                assert first.term == Term(1)
        async with _candidate(here, "b") as second:
            await until(lambda: second.term)
            assert second.term == Term(2)


async def _leads(leadership: Leadership) -> None:
    await until(lambda: leadership.term, within=30)


async def test_the_epoch_exceeds_the_highest_on_the_assignment_topics(database: Any) -> None:
    async def floor() -> int:
        return 41

    async with opened(database.url("scheduler"), "scheduler") as here, _candidate(here, "a", floor=floor) as only:
        await until(lambda: only.term)
        assert only.term == Term(42)


class _NeverRenews(Leadership):
    """Neither renews nor notices."""

    async def _held(self, process: asyncio.subprocess.Process, until: float) -> None:
        await _forever()


async def _leaders_after_one_was_frozen(database: Any, kind: type[Leadership]) -> int:
    """How many believe to lead once the second candidate does; the first one's renewals get no answer."""
    async with opened(database.url("scheduler"), "scheduler") as here:
        frozen = kind(here, "frozen", lease=1.5)
        task = asyncio.ensure_future(frozen.run(_forever))
        await until(lambda: frozen.term)
        await here.pool.execute("UPDATE lease_renewal SET holder = 'nobody', expires = clock_timestamp()")
        async with _candidate(here, "b") as second:
            await until(lambda: second.term)
            await asyncio.wait({asyncio.ensure_future(until(lambda: frozen.term is None))}, timeout=3)
            count = sum(one.term is not None for one in (frozen, second))
        task.cancel()
        await asyncio.wait({task})
        return count


async def test_a_leader_that_lost_its_lease_steps_down(database: Any) -> None:
    assert await _leaders_after_one_was_frozen(database, Leadership) == 1


async def test_without_the_renewal_two_believe_to_lead(database: Any) -> None:
    assert await _leaders_after_one_was_frozen(database, _NeverRenews) == 2


async def _old_relay_after_a_takeover(database: Any, kafka: str, transactional_id: str | None) -> Relay:
    """An old leader's relay after a new leader's has started; raises what the old one raises."""
    async with station("scheduler", database.url("scheduler"), kafka) as here:
        await here.bus.create([assignments("east")])
        options: dict[str, Any] = {"lane": ASSIGNMENTS, "transactional_id": transactional_id}
        old = Relay(here.database, here.bus, **options)
        running = here.begin(old.run)
        await here.publish("w1", topic=assignments("east"))
        await until(lambda: old.last == 1)
        new = _Idle(here.database, here.bus, **options)
        here.go(new.run)
        await until(lambda: new.ready or transactional_id is None)
        async with here.database.unit() as unit:
            unit.publish(assignments("east"), "w2", asked("w2"))
        await until(lambda: running.done() or old.last == 2)
        if running.done():
            running.result()
        return old


class _Idle(Relay):
    """The new leader's relay, which has fenced the old one and has nothing to send yet."""

    ready = False

    async def _position(self, connection: Any) -> int:
        self.ready = True
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


async def test_a_new_leader_fences_the_old_ones_assignments(database: Any, kafka: str) -> None:
    with pytest.raises(Fenced):
        await _old_relay_after_a_takeover(database, kafka, "muster-assignments")


async def test_without_the_transactional_id_they_still_go_out(database: Any, kafka: str) -> None:
    assert (await _old_relay_after_a_takeover(database, kafka, None)).last == 2
