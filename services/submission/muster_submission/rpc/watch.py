"""WatchWorkloads: a snapshot, its end, then every change, each with the cursor at which a watch goes on.

A watch without a cursor begins with a snapshot; one with a cursor goes on after it, or is told to list again.
Holds: between the snapshot's end and the end of the stream every change in view is shown once, in commit order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc.caller import caller
from muster_chassis.rpc.limits import counted_as
from muster_chassis.text import clean
from muster_submission.adapters.feed import Change, Feed
from muster_submission.adapters.reading import Reading
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import BadToken, TooOld, go_on, read_cursor
from muster_submission.domain.filters import Filter
from muster_submission.domain.others import filled
from muster_submission.domain.snapshots import Shown
from muster_submission.errors import BadQuestion, CursorTooOld, Stopping
from muster_submission.handlers.access import Rights
from muster_submission.handlers.turns import Turns
from muster_submission.rpc.naming import name_other, name_others
from muster_submission.rpc.reading import filter_of, find

_PAGE: Final = 500
_BREATH: Final = 1.0  # seconds after which a quiet watch looks by itself, should a wake-up have been missed


class Watching:
    """Serves watches."""

    def __init__(self, reading: Reading, feed: Feed) -> None:
        self._reading = reading
        self._feed = feed
        self._turns = Turns()

    async def watch(
        self, request: api.WatchWorkloadsRequest, rights: Callable[[], Awaitable[Rights]]
    ) -> AsyncGenerator[api.WatchWorkloadsResponse]:
        """The items of one watch. Raises BadQuestion, NoSuchWorkload, CursorTooOld, Stopping, and Unauthenticated.

        rights: those of the caller as they are now; asked anew for each stretch of changes, so that what is taken from
        someone ends in their open watches too.
        """
        wanted = await self._filter(request, await rights())
        with self._feed:
            shown = Shown()
            if request.cursor:
                position = await self._after(request.cursor)
            else:
                async with aclosing(self._snapshot(wanted, shown)) as snapshot:
                    async for item in snapshot:
                        yield item
                position = shown.start
                yield api.WatchWorkloadsResponse(kind=api.WATCH_ITEM_KIND_SNAPSHOT_END, cursor=str(position))
            mine = self._turns.of(counted_as(caller()))
            async with aclosing(self._changes(position, rights, mine)) as changes:
                async for change, scope in changes:
                    taken = replace(wanted, scope=scope).takes(change.subject, change.before, change.after)
                    if taken and not shown.has(change.subject.workload_id, change.seq):
                        yield _item(change, scope)

    async def _filter(self, request: api.WatchWorkloadsRequest, rights: Rights) -> Filter:
        wanted = await filter_of(self._reading, request.filter, rights)
        if fields := wanted.unwatchable():
            raise BadQuestion(
                f"a watch cannot filter by {', '.join(fields)}, which changes while it runs: filter by the phase and "
                "by what never changes, or list"
            )
        if not request.HasField("workload"):
            return wanted
        return replace(wanted, workload_id=(await find(self._reading, request.workload, rights)).id)

    async def _after(self, cursor: str) -> int:
        try:
            position = read_cursor(cursor)
        except BadToken as error:
            raise BadQuestion(clean(str(error), 300)) from error
        found = go_on(position, await self._reading.reach())
        if isinstance(found, TooOld):
            raise CursorTooOld(found.why)
        return found

    async def _snapshot(self, wanted: Filter, shown: Shown) -> AsyncGenerator[api.WatchWorkloadsResponse]:
        after = ""
        while True:
            page = await self._reading.page(wanted, _PAGE, after)
            shown.add(page.last if page.full else "", page.head)
            await name_others(self._reading, page.workloads, wanted.scope)
            for workload in page.workloads:
                yield api.WatchWorkloadsResponse(
                    kind=api.WATCH_ITEM_KIND_SNAPSHOT, workload=workload, cursor=str(shown.start)
                )
            if not page.full:
                return
            after = page.last

    async def _changes(
        self, position: int, rights: Callable[[], Awaitable[Rights]], mine: asyncio.Lock
    ) -> AsyncGenerator[tuple[Change, frozenset[str] | None]]:
        while not self._feed.closed:
            await self._turns.wait(mine)
            news = await self._feed.after(position)
            scope = (await rights()).projects(Verb.WORKLOADS_READ)
            for change in news:
                yield change, scope
            if news:
                position = news[-1].seq
            else:
                await self._feed.moved(position, _BREATH)
        raise Stopping("this instance stops: watch again with the last cursor", retry_after=1.0)


def _item(change: Change, scope: frozenset[str] | None) -> api.WatchWorkloadsResponse:
    """A change for one watcher; the change itself is shared with the others."""
    workload = change.workload
    if change.other is not None:
        workload = wl.Workload()
        workload.CopyFrom(change.workload)
        name_other(workload.reason, change.other, scope)
    return api.WatchWorkloadsResponse(
        kind=api.WATCH_ITEM_KIND_CHANGE,
        workload=workload,
        cursor=str(change.seq),
        event=change.event,
        text=filled(change.text, change.other, scope),
    )
