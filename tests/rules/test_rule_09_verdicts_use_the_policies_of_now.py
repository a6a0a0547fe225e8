"""Rule 9: policies in memory follow the database. A verdict that is committed after a write's answer used that write.

Three instances judge beside each other while policies are written. Taken out here: the lock that verdicts share (a
write is answered while an older verdict is still on its way), and the revision (an instance goes on by what it has).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

import pytest

from muster_chassis.database import Database
from muster_chassis.migrations import load
from muster_chassis.unit import Unit
from muster_policy.adapters.policies import PostgresPolicies
from muster_policy.adapters.postgres import PostgresBooks
from muster_policy.domain.changes import Given, Reach, Wanted
from muster_policy.domain.standing import Shelf
from muster_policy.handlers.judging import Judging
from muster_policy.handlers.standing import Loading
from muster_policy.handlers.writing import Writing
from muster_policy.ports import PolicyStore, Project
from muster_policy_engine.documents.document import read_policies
from tests.support.policy_books import MemoryHerald, submission
from tests.support.stations import settings
from tests.support.waiting import until

INSTANCES: Final = 3
WRITES: Final = 8
_SLOW: Final = "SELECT pg_sleep(0.03)"  # between a verdict and its commit, so that a write that does not wait is seen
_POLICY: Final = """
kind: Policy
workload: training
scope: {scope}
policy: {{defaults: {{backoffLimit: {limit}}}}}
"""


class Unlocked(PostgresPolicies):
    """Verdicts that keep no write out."""

    async def share(self, unit: Unit) -> int:
        return await self.revision(unit)


class Deaf(PostgresPolicies):
    """Instances that do not hear of a later revision."""

    def __init__(self) -> None:
        self._first: int | None = None

    async def share(self, unit: Unit) -> int:
        now = await super().share(unit)
        self._first = now if self._first is None else self._first
        return self._first


@dataclass
class Seen:
    """What an outsider saw. answers: when each revision was answered. verdicts: before the commit, and the revision."""

    answers: list[tuple[float, int]] = field(default_factory=list)
    verdicts: list[tuple[float, int]] = field(default_factory=list)

    def stale(self) -> list[tuple[float, int]]:
        """Verdicts by a revision that is older than a write which was answered before they were committed."""
        return [
            (at, revision)
            for at, revision in self.verdicts
            if any(answered < at and written > revision for answered, written in self.answers)
        ]


async def _seen(url: str, kind: type[PostgresPolicies]) -> Seen:
    migrations = load("policy", files("muster_policy") / "migrations")
    here = await Database.open(settings(url, "policy"), source="policy", migrations=migrations)
    seen, over = Seen(), asyncio.Event()
    books = PostgresBooks()
    try:
        async with here.unit() as unit:
            await books.change(unit, [Project("team-a", 1, (), department="d")])
        store = PostgresPolicies()
        writing = Writing(Loading(Shelf(), store), store, books)
        judges = [asyncio.create_task(_judge(here, kind(), number, seen, over)) for number in range(INSTANCES)]
        for number in range(WRITES):
            scope = ("tenant", "{project: team-a}")[number % 2]
            [document] = read_policies(_POLICY.format(scope=scope, limit=number))
            wanted = Wanted([Given(document, "f:1")], "anna", datetime.now(UTC), [_id(number)], Reach(tenant=True))
            async with here.unit() as unit:
                done = await writing.apply(unit, wanted, "grpc", "")
            seen.answers.append((time.monotonic(), done.revision))
            so_far = len(seen.verdicts)
            await until(lambda: len(seen.verdicts) >= so_far + INSTANCES)  # noqa: B023 - awaited at once
        over.set()
        await asyncio.gather(*judges)
    finally:
        await here.close()
    return seen


async def _judge(here: Database, store: PolicyStore, instance: int, seen: Seen, over: asyncio.Event) -> None:
    herald = MemoryHerald()
    judging = Judging(Loading(Shelf(), store), PostgresBooks(), herald)
    number = instance * 1_000_000
    while not over.is_set():
        number += 1
        each = submission(number)
        async with here.unit() as unit:
            await judging.judge(unit, [each])
            await unit.connection.execute(_SLOW)
            before = time.monotonic()
        seen.verdicts.append((before, herald.judged[each.key].revision))


def _id(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012d}"


async def test_no_verdict_is_older_than_a_write_that_was_answered(database: Any) -> None:
    seen = await _seen(database.url("policy"), PostgresPolicies)
    assert seen.stale() == []
    assert {revision for _, revision in seen.verdicts} >= {WRITES}


@pytest.mark.parametrize("kind", [Unlocked, Deaf])
async def test_without_the_mechanism_an_older_verdict_is_found(database: Any, kind: type[PostgresPolicies]) -> None:
    assert (await _seen(database.url("policy"), kind)).stale()


async def test_the_next_verdict_of_the_same_question_is_by_the_next_version(database: Any) -> None:
    """The memory of equal questions has the versions of the branch's policies in its question."""
    migrations = load("policy", files("muster_policy") / "migrations")
    here = await Database.open(settings(database.url("policy"), "policy"), source="policy", migrations=migrations)
    try:
        store, books, herald = PostgresPolicies(), PostgresBooks(), MemoryHerald()
        loading = Loading(Shelf(), store)
        judging, writing = Judging(loading, books, herald), Writing(loading, store, books)
        async with here.unit() as unit:
            await books.change(unit, [Project("team-a", 1, ())])
        limits = []
        for number in (1, 2):
            [document] = read_policies(_POLICY.format(scope="tenant", limit=number))
            wanted = Wanted([Given(document, "f:1")], "anna", datetime.now(UTC), [_id(number)], Reach(tenant=True))
            async with here.unit() as unit:
                await writing.apply(unit, wanted, "grpc", "")
            each = submission(number)
            async with here.unit() as unit:
                await judging.judge(unit, [each])
            verdict: Any = herald.judged[each.key].verdict
            limits.append(verdict.effective.backoff_limit)
        assert limits == [1, 2]
    finally:
        await here.close()
