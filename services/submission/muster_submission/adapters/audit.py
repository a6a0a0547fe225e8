"""The audit as people read it, newest first; and the refusals, which no transaction of a change carries.

Holds: a refusal is written within a fraction of a second; of a flood the first thousand are written and the rest
counted in one line, so that nobody fills the disk by knocking.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from muster_chassis import logs
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.errors import NotFound, PermissionDenied
from muster_chassis.rpc import Caller
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Answer, Place, Verb

_log = logs.get(__name__)
_MOST: Final = 1000
_PAUSE: Final = 0.2
_PAGE: Final = """
SELECT x.id, x.at, x.issuer, x.subject, x.verb, x.target, x.project, x.outcome, x.channel, x.peer, x.detail,
       coalesce(a.name, '') AS subject_name
FROM audit x LEFT JOIN applications a ON a.id::text = x.subject
WHERE ($1::timestamptz IS NULL OR x.at >= $1) AND ($2::timestamptz IS NULL OR x.at < $2)
  AND ($3 = '' OR x.subject = $3 OR a.name = $3) AND ($4 = '' OR x.verb = $4 OR starts_with(x.verb, $4 || '.'))
  AND ($5 = '' OR x.project = $5) AND ($6::text[] IS NULL OR x.project = ANY ($6))
  AND ($7::bigint IS NULL OR x.id < $7) AND ($8::boolean IS NULL OR (x.outcome IN ('done', 'asked')) = $8)
ORDER BY x.id DESC LIMIT $9 OFFSET $10
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines. Empty members take everything; `within`: only these projects, None is every line."""

    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    what: str = ""
    project: str = ""
    within: Collection[str] | None = None
    success: bool | None = None


class PostgresAudit:
    """The audit, read."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def page(self, wanted: Wanted, size: int, before: int | None = None, offset: int = 0) -> Sequence[Any]:
        """The newest lines older than the one with that number."""
        within = None if wanted.within is None else sorted(wanted.within)
        found: Sequence[Any] = await self._pool.fetch(
            _PAGE,
            wanted.since,
            wanted.until,
            wanted.who,
            wanted.what,
            wanted.project,
            within,
            before,
            wanted.success,
            size,
            offset,
        )
        return found


class Refusals:
    """Collects refusals and writes them, a batch at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[tuple[Caller, Entry]] = deque()
        self._more = 0
        self._come = asyncio.Event()

    def note(self, who: Caller, verb: Verb, place: Place, answer: Answer) -> None:
        """Takes one refusal in. Called in the middle of a call, so it neither waits nor fails."""
        if len(self._waiting) >= _MOST:
            self._more += 1
        else:
            reason = PermissionDenied.reason if answer is Answer.FORBIDDEN else NotFound.reason
            self._waiting.append((who, Entry(verb, _target(place), place.project, outcome=reason)))
        self._come.set()

    async def run(self) -> None:
        """Writes what comes. An eternal task."""
        while True:
            await self._come.wait()
            self._come.clear()
            try:
                await self.flush()
            except (*TRANSIENT, asyncpg.PostgresError, TimeoutError) as error:
                _log.warning("refusals could not be written, tried again", error=repr(error))
                self._come.set()
            await asyncio.sleep(_PAUSE)

    async def flush(self) -> None:
        """Writes what has come so far."""
        batch, more = list(self._waiting), self._more
        if not batch:
            return
        async with self._database.unit() as unit:
            for who, entries in _by_caller(batch):
                await audit(unit, *entries, who=who)
            if more:
                line = Entry(batch[-1][1].verb, "", outcome=PermissionDenied.reason, detail=f"and {more} refusals more")
                await audit(unit, line, who=batch[-1][0])
        for _ in batch:
            self._waiting.popleft()
        self._more -= more


def _by_caller(batch: Iterable[tuple[Caller, Entry]]) -> list[tuple[Caller, list[Entry]]]:
    """The entries of each caller, apart by the door and the address: two calls of one person are equal otherwise."""
    found: dict[tuple[Caller, str, str], list[Entry]] = {}
    for who, entry in batch:
        found.setdefault((who, who.channel, who.peer), []).append(entry)
    return [
        (Caller(who.subject, who.groups, who.issuer, who.credential, *at), some) for (who, *at), some in found.items()
    ]


def _target(place: Place) -> str:
    if place.project:
        return f"project/{place.project}"
    if place.department:
        return f"department/{place.department}"
    return f"cluster/{place.cluster}" if place.cluster else "tenant"
