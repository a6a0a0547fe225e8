"""The task that prunes submission's tables removes everything that is due in one round, however much that is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_submission import app_upkeep
from tests.support.doors import PROJECT, Door, door, moved, placed
from tests.support.waiting import eventually

_BATCH = 3
_FIRINGS = """
INSERT INTO firings (id, project, trigger, event_key, source, event_id, event, number, outcome, why, name, at, until)
SELECT gen_random_uuid(), $1, 'on-model', decode(lpad(to_hex(n), 4, '0') || $2, 'hex'), '/s', n::text, '', 1, $3, '',
       '', now(), now() - make_interval(days => $4)
FROM generate_series(1, $5) AS n
"""
_SECRETS = """
INSERT INTO secrets (id, version, holder, key, nonce, cipher, at)
SELECT gen_random_uuid(), 1, $1, 'k', '', '', now() FROM generate_series(1, 10)
"""
_TOKENS = """
INSERT INTO refresh_tokens (id, family, made_at, ends_at)
SELECT gen_random_uuid(), gen_random_uuid(), now(), now() - interval '1 day' FROM generate_series(1, 10)
"""
_DUE = {
    "firings": "outcome <> 1 AND until < now() - interval '30 days'",
    "secrets": "holder = '{gone}'",
    "refresh_tokens": "ends_at < now()",
    "workload_history": "at < now() - interval '90 days'",
    "changes": "at < now() - interval '24 hours'",
}


async def _due(here: Door, gone: str) -> dict[str, int]:
    """How many rows of each table are due."""
    return {
        table: await here.app.database.pool.fetchval(
            f"SELECT count(*) FROM {table} WHERE {rows.format(gone=gone)}"  # noqa: S608 - constants of this file
        )
        for table, rows in _DUE.items()
    }


async def test_one_round_removes_all_that_is_due_of_each_table(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_upkeep, "_PRUNE_ROWS", _BATCH)
    async with door(database, kafka) as here:
        await here.project()
        made = [await here.submit(name=f"w-{number}") for number in range(4)]
        life = (wl.PHASE_RUNNING, wl.PHASE_COMPLETED, wl.PHASE_DELETING, wl.PHASE_DELETED)
        await here.decide(made[0].id, placed(), *map(moved, life))
        await eventually(lambda: here.get(made[0].id), lambda seen: seen.phase == wl.PHASE_DELETED)
        pool = here.app.database.pool
        await pool.execute(_FIRINGS, PROJECT, "00", 2, 31, 10)
        await pool.execute(_FIRINGS, PROJECT, "01", 1, 31, 1)  # it still waits
        await pool.execute(_FIRINGS, PROJECT, "02", 2, 29, 1)
        for holder in (made[0].id, made[1].id):
            await pool.execute(_SECRETS, holder)
        await pool.execute(_TOKENS)
        await pool.execute("UPDATE workload_history SET at = at - interval '91 days'")
        await pool.execute("UPDATE changes SET at = at - interval '25 hours'")
        before = await _due(here, made[0].id)
        assert all(number > _BATCH for number in before.values()), before

        await here.app.upkeep().prune()
        assert await _due(here, made[0].id) == dict.fromkeys(_DUE, 0)
        assert await pool.fetchval("SELECT count(*) FROM firings") == 2
        assert await pool.fetchval("SELECT count(*) FROM secrets") == 10


async def test_old_lines_of_the_audit_go_as_the_guide_says_and_in_no_other_way(database: Any, kafka: str) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/operate.md").read_text()
    (statements,) = re.findall(r"^```sql\n(.*?)^```", guide, flags=re.DOTALL | re.MULTILINE)
    async with door(database, kafka) as here:
        await here.project()
        await here.app.database.pool.execute(
            "INSERT INTO audit (at, issuer, subject, verb, target, project, outcome, channel, peer, detail) "
            "SELECT timestamptz '2025-06-01', '', '', '', '', '', '', '', '', '' FROM generate_series(1, 5)"
        )
        administrator = await asyncpg.connect(database.template)
        try:
            lines = "SELECT count(*) FROM submission.audit"
            delete = "DELETE FROM submission.audit WHERE at < '2026-01-01'"
            before = await administrator.fetchval(lines)
            for someone in (here.app.database.pool, administrator):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await someone.execute(delete)
            for statement in statements.strip().split("\n"):
                await administrator.execute(statement)
            assert await administrator.fetchval(lines) == before - 5
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await administrator.execute(delete)
        finally:
            await administrator.close()
