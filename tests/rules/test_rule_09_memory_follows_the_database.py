"""Rule 9: memory changes when, and only when, the transaction that changed the database is known to be committed.

Taken out here: the look at the commit row after a lost answer (memory falls behind, or runs ahead), the order of the
two (memory of a failed transaction stays), and the commit row itself (nothing can be looked up).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster_chassis.connection import Backend
from muster_chassis.database import Database, OutcomeUnknown
from muster_chassis.unit import Unit
from tests.support.records import intake, record, with_ledger
from tests.support.stations import settings
from tests.support.wire import Cut, wire


class _TakesItForLost(Database):
    """Believes that what got no answer did not happen."""

    async def resolve(self, commit_id: str, backend: Backend, *, within: float = 0) -> bool:
        return False


class _TakesItForDone(Database):
    """Believes that what got no answer did happen. Both looks at the commit row are taken out."""

    async def resolve(self, commit_id: str, backend: Backend, *, within: float = 0) -> bool:
        return True

    async def _confirm(self, commit_id: str) -> None:
        return


async def _memory_and_truth(database: Any, kind: type[Database], cut: Cut) -> tuple[dict[str, int], dict[str, int]]:
    """What a consumer's memory and the database say after the answer of one commit was lost on the way."""
    async with wire(database.url("policy")) as through:
        here = await kind.open(settings(through.url, "policy"), source="policy")
        try:
            ledger = await with_ledger(here)
            consumer = intake(here, ledger)
            await consumer.process([record("w1", 1)], {})
            through.at_next_commit(cut)
            await consumer.process([record("w1", 2)], {})
            return ledger.memory, await ledger.truth(here)
        finally:
            await here.close()


@pytest.mark.parametrize("cut", list(Cut))
async def test_memory_is_right_whatever_became_of_the_commit(database: Any, cut: Cut) -> None:
    memory, truth = await _memory_and_truth(database, Database, cut)
    assert memory == truth == {"w1": 2}


async def test_without_the_commit_row_memory_falls_behind(database: Any) -> None:
    memory, truth = await _memory_and_truth(database, _TakesItForLost, Cut.AFTER)
    assert (memory, truth) == ({"w1": 1}, {"w1": 2})


async def test_without_the_commit_row_memory_runs_ahead(database: Any) -> None:
    memory, truth = await _memory_and_truth(database, _TakesItForDone, Cut.BEFORE)
    assert (memory, truth) == ({"w1": 2}, {"w1": 1})


class _Hasty(Unit):
    """Lets memory change at once."""

    def after_commit(self, action: Callable[[], None]) -> None:
        action()


async def _memory_after_a_failure(database: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Unit]) -> list[str]:
    monkeypatch.setattr("muster_chassis.database.Unit", kind)
    here = await Database.open(settings(database.url("policy"), "policy"), source="policy")
    memory: list[str] = []
    try:
        with pytest.raises(ValueError, match="no"):
            await _fail(here, memory)
    finally:
        await here.close()
    return memory


async def _fail(here: Database, memory: list[str]) -> None:
    async with here.unit() as unit:
        unit.after_commit(lambda: memory.append("w1"))
        raise ValueError("no")


async def test_a_failed_transaction_changes_no_memory(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _memory_after_a_failure(database, monkeypatch, Unit) == []


async def test_without_waiting_for_the_commit_it_does(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await _memory_after_a_failure(database, monkeypatch, _Hasty) == ["w1"]


async def test_another_server_cannot_answer(database: Any) -> None:
    here = await Database.open(settings(database.url("policy"), "policy"), source="policy")
    try:
        with pytest.raises(OutcomeUnknown, match="the server is"):
            await here.resolve("00000000-0000-7000-8000-000000000000", Backend(1, "then", "another server"), within=5)
    finally:
        await here.close()


async def test_an_open_backend_is_ended_before_the_row_is_judged(database: Any) -> None:
    """A row that is not there yet says nothing while the transaction may still commit."""
    here = await Database.open(settings(database.url("policy"), "policy"), source="policy")
    try:
        other = await here.connect()
        await other.execute("BEGIN")
        await other.execute("INSERT INTO commits VALUES ('00000000-0000-7000-8000-000000000001', now())")
        assert not await here.resolve("00000000-0000-7000-8000-000000000001", other.backend, within=5)
        assert other.is_closed() or not await _alive(here, other.backend)
        other.terminate()
    finally:
        await here.close()


async def _alive(here: Database, backend: Backend) -> bool:
    found = await here.pool.fetchval(
        "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2", backend.pid, backend.started
    )
    return found is not None
