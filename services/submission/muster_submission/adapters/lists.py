"""Lists of workloads in PostgreSQL: questions answered with ids, by the ways that domain/listing.py chooses.

Called by REST's lists and counts and by gRPC's pages. What costs a pass over the table goes through a gate, two at a
time, so that it cannot keep the connections from those who ask for a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import asyncpg

from muster_chassis.connection import AnyConnection
from muster_submission.adapters import list_sql
from muster_submission.adapters.list_sql import Statement
from muster_submission.domain.listing import DEEP, FEW, Few, Question, Scan, Walk, certain, keys, ways
from muster_submission.domain.terms import impossible

_AT_ONCE: Final = 2
_ABOUT: Final = "SELECT reltuples FROM pg_class WHERE oid = 'workload_list'::regclass"
# Sorting and reading the whole table are out of the question where entries are counted off.
_FORCED: Final = "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off"


class Measure(StrEnum):
    """What is told of a group of workloads."""

    COUNT = "count(*)"
    GPUS = "coalesce(sum(l.gpus), 0)::bigint"


class Lists:
    """Answers questions with ids, in their order: each from a connection of the pool, or all from the one given."""

    def __init__(self, source: asyncpg.Pool | AnyConnection) -> None:
        self._source = source
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def ids(self, asked: Question) -> Sequence[str]:
        """The ids of the rows that are wanted."""
        if impossible(asked.terms):
            return []
        known = certain(asked)
        for way in [known] if known else ways(asked, await self._probed(asked)):
            match way:
                case Few(key=key):
                    return await self._fetch(list_sql.few(asked, key))
                case Walk(stride=0):
                    return await self._walked(asked, way)
                case Walk():
                    found = await self._looked_through(asked, way)
                    if found is not None:
                        return found
                case Scan():
                    async with self._gate:
                        return await self._fetch(list_sql.scan(asked))
        raise AssertionError(f"no way answered {asked}")

    async def count(self, asked: Question) -> int:
        """How many rows pass; the stretch and the order do not matter."""
        if impossible(asked.terms):
            return 0
        counted = await self._probed(asked)
        few = next((key for key in keys(asked) if counted[key.column] < FEW), None)
        if few is not None:
            found: int = await self._value(list_sql.few_counted(asked, few))
            return found
        async with self._gate:
            every: int = await self._value(list_sql.counted(asked))
            return every

    async def pods(self, asked: Question) -> int:
        """How many pods the workloads that pass have together."""
        if impossible(asked.terms):
            return 0
        async with self._gate:
            found: int = await self._value(list_sql.pods_counted(asked))
            return found

    async def groups(self, asked: Question, columns: Sequence[str], measure: Measure) -> Sequence[tuple[Any, ...]]:
        """The measure of each group of the workloads that pass, followed by the group's columns."""
        if impossible(asked.terms):
            return []
        async with self._gate:
            return [tuple(row) for row in await self._rows(list_sql.grouped(asked, columns, measure.value))]

    async def _probed(self, asked: Question) -> dict[str, int]:
        found = keys(asked)
        if not found:
            return {}
        return dict(zip((key.column for key in found), await self._row(list_sql.probes(asked, found)), strict=True))

    async def _walked(self, asked: Question, way: Walk) -> Sequence[str]:
        if asked.offset <= DEEP:
            return await self._fetch(list_sql.walk(asked, way))
        async with self._gate:
            if way.keys or asked.offset < await self._source.fetchval(_ABOUT) / 2:
                return await self._forced(list_sql.walk(asked, way))
            left = await self._value(list_sql.counted(asked)) - asked.offset
            if left <= 0:
                return []
            # The end is nearer: the same rows are counted off from there, and turned round.
            limit = min(asked.limit, left)
            mirrored = replace(asked, order=asked.order.reversed(), offset=left - limit, limit=limit)
            return (await self._forced(list_sql.walk(mirrored, way)))[::-1]

    async def _looked_through(self, asked: Question, way: Walk) -> Sequence[str] | None:
        """What a bounded walk finds; None where it was cut short before it had found enough."""
        found: list[str] = []
        for row in await self._rows(list_sql.strided(asked, way)):
            if row["passes"]:
                found.append(row["id"])
            if len(found) == asked.need:
                return found[asked.offset :]
            if row["edge"]:
                # Behind this entry others of its value were not looked at, and they may come before what follows.
                return None
        return found[asked.offset :]

    async def _fetch(self, statement: Statement) -> Sequence[str]:
        return [row["id"] for row in await self._rows(statement)]

    async def _rows(self, statement: Statement) -> Sequence[Any]:
        return await self._source.fetch(statement.text, *statement.values)

    async def _row(self, statement: Statement) -> Sequence[Any]:
        (row,) = await self._source.fetch(statement.text, *statement.values)
        return tuple(row)

    async def _value(self, statement: Statement) -> Any:
        return await self._source.fetchval(statement.text, *statement.values)

    async def _forced(self, statement: Statement) -> Sequence[str]:
        async with self._connection() as connection, connection.transaction():
            await connection.execute(_FORCED)
            return [row["id"] for row in await connection.fetch(statement.text, *statement.values)]

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        if not isinstance(self._source, asyncpg.Pool):
            yield self._source
            return
        async with self._source.acquire() as connection:
            yield connection
