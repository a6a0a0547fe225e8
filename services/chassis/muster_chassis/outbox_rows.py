"""Reads the outbox rows of one pass, bounded by their number and by their bytes.

A value has up to 1 MiB, so 1,000 rows may have 1 GiB. The relay (outbox.py) and republications (republishing.py) send
what is read here.
Holds: at least one row is read if there is one, however large it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from asyncpg.prepared_stmt import PreparedStatement

from muster_chassis.connection import AnyConnection
from muster_chassis.sending import COLUMNS

PASS_ROWS: Final = 1000
PASS_BYTES: Final = 8 << 20
"""Kafka has to acknowledge the rows of a topic within 5 s (sending.py), also where it is slow."""


def bounded(rows: str, most: str) -> str:
    """Return the statement for the first rows of a query on the outbox.

    rows: the query, with a limit and in the order of `id`. most: its parameter for the largest number of bytes, such as
    "$5". The statement detoasts only the values that it returns.
    """
    return f"""
SELECT {COLUMNS}, found FROM (
    SELECT *, count(*) OVER () AS found, sum(size) OVER (ORDER BY id) AS total FROM (
        SELECT *,
            coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + coalesce(octet_length(headers), 0)
                AS size
        FROM ({rows}) AS limited) AS sized) AS summed
WHERE total <= {most}::bigint OR total = size
ORDER BY id
"""  # noqa: S608 - constants only


_AFTER: Final = bounded(
    "SELECT * FROM outbox WHERE lane = $1 AND id > $2 AND topic <> ALL($4::text[]) ORDER BY id LIMIT $3", "$5"
)
_OF_TOPIC: Final = bounded(
    "SELECT * FROM outbox WHERE lane = $1 AND id > $2 AND id <= $4 AND topic = $5 ORDER BY id LIMIT $3", "$6"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of the outbox. more: whether there may be others behind them."""

    rows: Sequence[Any]
    more: bool

    @classmethod
    def of(cls, rows: Sequence[Any], limit: int) -> Rows:
        """Return what a bounded statement with this limit has read."""
        return cls(rows, bool(rows) and (len(rows) == limit or rows[0]["found"] > len(rows)))


class OutboxRows:
    """The rows of one lane, read on one connection. limit: rows of a pass."""

    def __init__(self, lane: int, limit: int, after: PreparedStatement[Any], of_topic: PreparedStatement[Any]) -> None:
        self._lane = lane
        self._limit = limit
        self._after = after
        self._of_topic = of_topic

    @classmethod
    async def prepare(cls, connection: AnyConnection, lane: int, limit: int) -> OutboxRows:
        """Prepare the statements."""
        return cls(lane, limit, await connection.prepare(_AFTER), await connection.prepare(_OF_TOPIC))

    async def after(self, last: int, waiting: Sequence[str]) -> Rows:
        """Return the rows after `last`, without those of waiting topics."""
        rows = await self._after.fetch(self._lane, last, self._limit, waiting, PASS_BYTES)
        return Rows.of(rows, self._limit)

    async def of_topic(self, topic: str, last: int, upto: int) -> Rows:
        """Return the rows of one topic after `last` and up to `upto`."""
        rows = await self._of_topic.fetch(self._lane, last, self._limit, upto, topic, PASS_BYTES)
        return Rows.of(rows, self._limit)
