"""The change log in memory, for everyone who watches: read once, shown to all.

A watcher has nothing but its position. Near the end it is served from the ring; one that fell behind reads the log in
PostgreSQL until it has caught up, so that a slow watcher costs memory to nobody.
Holds: the ring is a gapless stretch of the log, up to `head`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from operator import attrgetter
from typing import Any, Final, Self

import asyncpg

from muster.workload.v1.workload_pb2 import Workload
from muster_chassis import logs, metrics
from muster_chassis.database import TRANSIENT, transient
from muster_submission.adapters import views
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.views import ChangeRow
from muster_submission.domain.filters import Subject
from muster_submission.domain.others import Other

_log = logs.get(__name__)
_RING: Final = 5_000
_READ: Final = 500
_POLL: Final = 0.5  # for changes that another instance has written
_PAUSE: Final = 0.2
_seq: Final = attrgetter("seq")

WATCHERS = metrics.gauge(
    "muster_watchers",
    unit="streams",
    meaning="Watches that are open.",
    action="Grows without end: a client opens watches and leaves them.",
)


@dataclass(frozen=True, slots=True)
class Change:
    """One entry, with the workload as it is after it. other: the workload that its text and reason are about."""

    seq: int
    subject: Subject
    before: int
    after: int
    event: str
    text: str
    workload: Workload
    other: Other | None


class Feed:
    """The ring, and the task that fills it while somebody watches."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._ring: deque[Change] = deque(maxlen=_RING)
        self._floor = 0  # the ring holds what comes after it
        self._head = 0
        self._watchers = 0
        self._poked = asyncio.Event()
        self._moved = asyncio.Event()
        self.closed = False
        """The process stops: whoever watches ends."""

    def close(self) -> None:
        """Wakes every watcher, so that it ends by itself: open watches would hold up a stop until they are cut."""
        self.closed = True
        self._moved.set()

    def poke(self) -> None:
        """Something was committed."""
        self._poked.set()

    def __enter__(self) -> Self:
        self._watchers += 1
        WATCHERS.inc()
        self._poked.set()
        return self

    def __exit__(self, *_: object) -> None:
        self._watchers -= 1
        WATCHERS.dec()

    async def run(self) -> None:
        """Follows the log while there is a watcher. An eternal task."""
        while True:
            await self._wait()
            if not self._watchers:
                self._ring.clear()
                self._floor = self._head = 0
                continue
            try:
                await self._advance()
            except (*TRANSIENT, asyncpg.QueryCanceledError, TimeoutError) as error:
                if isinstance(error, asyncpg.InterfaceError) and not transient(error):
                    raise
                _log.warning("the change log cannot be read, it is tried again", error=repr(error))
                await asyncio.sleep(_PAUSE)

    async def after(self, position: int) -> Sequence[Change]:
        """The entries after `position`, some hundred at most; empty where there are none yet."""
        if self._ring and position >= self._floor:
            skip = bisect_right(self._ring, position, key=_seq)
            return [self._ring[at] for at in range(skip, min(skip + _READ, len(self._ring)))]
        if self._head and position >= self._head:
            return ()
        return await self._load(position)

    async def moved(self, position: int, seconds: float) -> None:
        """Returns when the ring reaches beyond `position`, or after that time."""
        waiting = self._moved
        if self._head > position or self.closed:
            return
        try:
            async with asyncio.timeout(seconds):
                await waiting.wait()
        except TimeoutError:
            return

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_POLL if self._watchers else None):
                await self._poked.wait()
        except TimeoutError:
            return
        finally:
            self._poked.clear()

    async def _advance(self) -> None:
        if not self._head:
            self._head = self._floor = (await self._reading.reach()).head
        while True:
            news = await self._load(self._head)
            if news:
                self._take(news)
            if len(news) < _READ:
                return

    def _take(self, news: Sequence[Change]) -> None:
        overflow = len(self._ring) + len(news) - _RING
        if overflow > 0:
            self._floor = self._ring[overflow - 1].seq  # a stretch is shorter than the ring, so the entry is there
        self._ring.extend(news)
        self._head = news[-1].seq
        self._moved.set()
        if not self.closed:
            self._moved = asyncio.Event()

    async def _load(self, position: int) -> list[Change]:
        rows = await self._reading.changes(position, _READ)
        whole = await self._reading.by_ids({row.workload_id for row in rows}) if rows else {}
        return [_change(row, whole[row.workload_id]) for row in rows if row.workload_id in whole]


def _change(entry: ChangeRow, whole: Workload) -> Change:
    row: Any = entry.row
    shown = Workload()
    shown.CopyFrom(whole)
    views.moment(shown, row)
    return Change(
        seq=entry.seq,
        subject=Subject(
            entry.workload_id,
            row["project"],
            row["name"],
            row["kind"],
            whole.owner.subject,
            whole.created_at.ToDatetime(UTC),
        ),
        before=row["previous"],
        after=row["phase"],
        event=row["event"],
        text=row["text"],
        workload=shown,
        other=views.other(row),
    )
