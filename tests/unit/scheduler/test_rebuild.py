"""A rebuild that is cancelled ends as one, and leaves its connection with nothing asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster_scheduler.adapters import rebuild
from muster_scheduler.adapters.postgres import PostgresStore
from muster_scheduler.domain.asked.limits import Limits
from tests.support.checked_fleet import driven
from tests.support.fleets import Fleet, node
from tests.support.scheduler_tables import Tables, TablesUnit


class Slow(Tables):
    """Tables whose database never answers from the second stretch of workloads on."""

    begun: asyncio.Event
    asked = 0
    busy = False
    busy_at_end: bool | None = None

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        """As the tables do, until then."""
        self.asked += sql == rebuild._WORKLOADS
        if self.asked < 2:
            return await super().fetch(sql, *arguments)
        self.busy = True
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.busy = False
        raise AssertionError("nobody sets it")

    @asynccontextmanager
    async def transaction(self, *, isolation: str, readonly: bool) -> AsyncIterator[None]:
        """Sees whether anything is asked of the connection when it is given back."""
        async with super().transaction(isolation=isolation, readonly=readonly):
            try:
                yield
            finally:
                self.busy_at_end = self.busy


def written(tables: Tables) -> None:
    fleet = Fleet(node("n1", 2))
    for number in (1, 2, 3):
        fleet.state.begin(fleet.now)
        fleet.state.apply(fleet.admitted(number, None))
        fleet.state.propose()
        unit: Any = TablesUnit(tables)
        driven(PostgresStore().write(unit, fleet.state.plan(), fleet.world))
        fleet.state.commit()


def test_a_cancelled_rebuild_says_so_and_asks_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "STRETCH", 1)
    tables = Slow()
    written(tables)

    async def cancelled() -> None:
        tables.begun = asyncio.Event()
        reading = asyncio.ensure_future(rebuild.load(tables, Limits(), 1))  # type: ignore[arg-type]
        await tables.begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(cancelled())
    assert tables.busy_at_end is False
