"""Access on PostgreSQL: what decides about calls is followed, and the audit takes inserts only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from muster_chassis.database import Database
from muster_chassis.migrations import of_package
from muster_chassis.rpc import Caller
from muster_chassis.settings import DatabaseSettings
from muster_submission.adapters.access import FRESH, PostgresAccess
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access

ANNA = Caller("anna", (), "https://one", channel="rest", peer="10.0.0.1")
_GRANT = """
INSERT INTO access_rules (holder_kind, holder, issuer, role, scope_kind, scope, created_at, created_by)
VALUES ('subject', 'anna', '', 'viewer', 'project', 'vision', now(), 'test')
"""


@asynccontextmanager
async def _opened(database: Any) -> AsyncIterator[Database]:
    settings = DatabaseSettings(database_url=SecretStr(database.url("submission")), database_schema="submission")
    opened = await Database.open(
        settings, source="submission", migrations=of_package("submission", "muster_submission")
    )
    try:
        yield opened
    finally:
        await opened.close()


class _Fails(Exception):
    """What the change of a test ends with."""


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_another_instances_change_counts_within_half_a_second(database: Any) -> None:
    async with _opened(database) as opened:
        clock = _Clock()
        access = Access(PostgresAccess(opened.pool, clock=clock))
        assert not (await access.rights(ANNA)).allows(Verb.WORKLOADS_READ, project="vision")
        await opened.pool.execute(_GRANT)
        clock.now += FRESH
        assert (await access.rights(ANNA)).allows(Verb.WORKLOADS_READ, project="vision")
        await opened.pool.execute("DELETE FROM access_rules")
        clock.now += FRESH
        assert not (await access.rights(ANNA)).allows(Verb.WORKLOADS_READ, project="vision")


async def test_a_change_of_ones_own_counts_at_once(database: Any) -> None:
    async with _opened(database) as opened:
        books = PostgresAccess(opened.pool, clock=_Clock())
        assert (await books.state()).rules == {}
        await opened.pool.execute(_GRANT)
        assert (await books.state()).rules == {}
        books.stale()
        assert len((await books.state()).rules) == 1


async def test_the_audit_is_written_with_the_change_and_never_changed(database: Any) -> None:
    async with _opened(database) as opened:
        entries = [Entry(Verb.WORKLOADS_CREATE, f"w-{number}", "vision") for number in range(3)]
        async with opened.unit() as unit:
            await audit(unit, *entries, who=ANNA)
        with suppress(_Fails):
            async with opened.unit() as unit:
                await audit(unit, *entries, who=ANNA)
                raise _Fails
        rows = await opened.pool.fetch("SELECT * FROM audit ORDER BY id")
        assert [row["target"] for row in rows] == ["w-0", "w-1", "w-2"]
        assert {(row["subject"], row["channel"], row["peer"], row["outcome"]) for row in rows} == {
            ("anna", "rest", "10.0.0.1", "done")
        }
        for change in ("UPDATE audit SET subject = 'x'", "DELETE FROM audit", "TRUNCATE audit"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await opened.pool.execute(change)
