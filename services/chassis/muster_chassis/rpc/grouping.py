"""Mutating calls that come at once, done in one transaction: what a commit costs is paid once for all of them.

A method makes one `Together` and calls it instead of `once`; its task runs for ever. While one group commits the next
one gathers, so that a lone call waits for nobody and thirty-two share a write to the disk. Holds: as rule 4 has it, a
call is done once for its key; a call that fails leaves no trace and no other call with it fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import asyncpg
from google.protobuf.message import Message

from muster_chassis import logs
from muster_chassis.database import Database
from muster_chassis.errors import ServiceError, Unavailable
from muster_chassis.rpc.caller import caller
from muster_chassis.rpc.idempotency import KeyReused, bytes_of, check_key
from muster_chassis.text import clean
from muster_chassis.unit import Unit

_log = logs.get(__name__)
_MOST: Final = 200
_TAKE: Final = """
INSERT INTO idempotency AS i (caller, method, key, body, at)
SELECT g.caller, $2, g.key, g.body, $5 FROM unnest($1::text[], $3::text[], $4::bytea[]) AS g (caller, key, body)
ORDER BY g.caller, g.key  -- one order for all: two groups with the same keys wait for each other in turn
ON CONFLICT (caller, method, key) DO UPDATE SET body = excluded.body, response = NULL, at = excluded.at
    WHERE i.at < excluded.at - interval '24 hours'
RETURNING caller, key
"""
_STORED: Final = """
SELECT i.caller, i.key, i.body, i.response
FROM unnest($1::text[], $3::text[]) AS g (caller, key)
JOIN idempotency i ON i.caller = g.caller AND i.method = $2 AND i.key = g.key
"""
_KEEP: Final = """
UPDATE idempotency i SET response = g.response
FROM unnest($1::text[], $3::text[], $4::bytea[]) AS g (caller, key, response)
WHERE i.caller = g.caller AND i.method = $2 AND i.key = g.key
"""
_DROP: Final = """
DELETE FROM idempotency i USING unnest($1::text[], $3::text[]) AS g (caller, key)
WHERE i.caller = g.caller AND i.method = $2 AND i.key = g.key
"""

Item = TypeVar("Item")
Response = TypeVar("Response", bound=Message)


@dataclass(slots=True)
class _Call(Generic[Item, Response]):
    """One call that waits for its group."""

    who: str
    key: str
    content: bytes
    item: Item
    answer: asyncio.Future[Response] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def name(self) -> tuple[str, str]:
        """What makes it one call."""
        return self.who, self.key

    def end(self, outcome: Response | BaseException) -> None:
        """Answers it, unless its caller has gone."""
        if self.answer.done():
            return
        if isinstance(outcome, BaseException):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)


class Together(Generic[Item, Response]):
    """One method's calls. `work` does new ones, in order, and answers each with a response or its refusal."""

    def __init__(
        self,
        database: Database,
        method: str,
        response: type[Response],
        work: Callable[[Unit, Sequence[Item]], Awaitable[Sequence[Response | ServiceError]]],
    ) -> None:
        self._database = database
        self._method = method
        self._response = response
        self._work = work
        self._waiting: deque[_Call[Item, Response]] = deque()
        self._poked = asyncio.Event()
        self._ended = False

    async def once(self, request: Message, item: Item, *, key: str) -> Response:
        """The answer to a call, done at most once for (caller, method, key) within 24 hours.

        Raises InvalidArgument for a missing key, KeyReused where it came with another body, Unavailable once `run` has
        ended, and its refusal.
        """
        check_key(key)
        call: _Call[Item, Response] = _Call(clean(caller().key, 1000), key, bytes_of(request), item)
        self._waiting.append(call)
        if self._ended:
            self._stopped(self._waiting)
        self._poked.set()
        return await call.answer

    async def run(self) -> None:
        """Does what waits, group by group. An eternal task."""
        self._ended = False
        try:
            while True:
                await self._poked.wait()
                self._poked.clear()
                while self._waiting:
                    await self._group(self._next())
        finally:
            self._ended = True
            self._stopped(self._waiting)

    def _stopped(self, calls: Iterable[_Call[Item, Response]]) -> None:
        for call in calls:
            call.end(Unavailable("this instance stops; repeat the call with the same key", retry_after=1.0))

    def _next(self) -> list[_Call[Item, Response]]:
        """The next calls, no two under one key: a twin waits for the first one's answer."""
        found: dict[tuple[str, str], _Call[Item, Response]] = {}
        later = []
        while self._waiting and len(found) < _MOST:
            call = self._waiting.popleft()
            if call.answer.done():
                continue
            if call.name in found:
                later.append(call)
            else:
                found[call.name] = call
        self._waiting.extendleft(reversed(later))
        return list(found.values())

    async def _group(self, calls: Sequence[_Call[Item, Response]]) -> None:
        if not calls:
            return
        try:
            outcomes = await self._done(calls)
        except asyncio.CancelledError:
            self._stopped(calls)
            raise
        except Exception as error:  # noqa: BLE001 - whatever fails is the answer of its call
            if len(calls) == 1:
                calls[0].end(error)
                return
            # One of them may be the cause: each by itself, so that only that one fails.
            _log.warning("a group of calls failed, they are done one by one", method=self._method, error=repr(error))
            try:
                for call in calls:
                    await self._group([call])
            finally:
                self._stopped(calls)  # a stop in between leaves those that have not had their turn
            return
        for call, outcome in zip(calls, outcomes, strict=True):
            call.end(outcome)

    async def _done(self, calls: Sequence[_Call[Item, Response]]) -> Sequence[Response | ServiceError]:
        outcomes: dict[tuple[str, str], Response | ServiceError] = {}
        async with self._database.unit() as unit:
            connection = unit.connection
            keys = [call.who for call in calls], self._method, [call.key for call in calls]
            bodies = [self._database.fingerprints.of(call.content) for call in calls]
            taken = await connection.fetch(_TAKE, *keys, bodies, unit.now)
            mine = {(row["caller"], row["key"]) for row in taken}
            if len(mine) < len(calls):
                stored = {(row["caller"], row["key"]): row for row in await connection.fetch(_STORED, *keys)}
                outcomes |= {call.name: self._earlier(call, stored) for call in calls if call.name not in mine}
            new = [call for call in calls if call.name in mine]
            if new:
                answers = await self._work(unit, [call.item for call in new])
                outcomes |= dict(zip((call.name for call in new), answers, strict=True))
                await self._keep(connection, new, outcomes)
        return [outcomes[call.name] for call in calls]

    def _earlier(self, call: _Call[Item, Response], stored: dict[tuple[str, str], Any]) -> Response | ServiceError:
        row = stored[call.name]
        same = self._database.fingerprints.same(row["body"], call.content)
        return self._response.FromString(row["response"]) if same else KeyReused(call.key)

    async def _keep(
        self,
        connection: asyncpg.Connection,
        new: Sequence[_Call[Item, Response]],
        outcomes: dict[tuple[str, str], Response | ServiceError],
    ) -> None:
        kept: list[tuple[str, str, bytes]] = []
        dropped: list[tuple[str, str]] = []
        for call in new:
            outcome = outcomes[call.name]
            if isinstance(outcome, ServiceError):
                dropped.append(call.name)
            else:
                kept.append((call.who, call.key, outcome.SerializeToString()))
        if kept:
            whos, keys, answers = zip(*kept, strict=True)
            await connection.execute(_KEEP, whos, self._method, keys, answers)
        if dropped:
            whos, keys = zip(*dropped, strict=True)
            await connection.execute(_DROP, whos, self._method, keys)
