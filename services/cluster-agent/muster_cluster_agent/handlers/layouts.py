"""MIG layouts that the scheduler wants nodes to have: what was asked, and what came of it.

Used by the agent, which hands records over, and run by `app.py` as an eternal task.
Holds: of a node the record with the highest (epoch, revision) counts, and a tombstone ends every record up to its own;
an answer is told again until the tombstone of its record comes.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from muster_cluster_agent.domain.layouts import LayoutAnswer, NodeWish, WishEnd
from muster_cluster_agent.ports import Backend, LayoutReport, Reporter

PATIENCE_SECONDS: Final = 600.0
"""How long a layout may take; counted anew after a restart of the agent."""
_LOOK_SECONDS: Final = 2.0
_REMEMBERED: Final = 4_000  # ends of wishes; of older ones a copy of the wish would be obeyed again

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Wanted:
    """A layout that is wanted. since: by `clock`. answer: what was told of it."""

    wish: NodeWish
    since: float
    answer: LayoutAnswer | None = None


class Layouts:
    """One agent's layouts. clock: seconds that only grow."""

    def __init__(self, backend: Backend, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._reporter = reporter
        self._clock = clock
        self._wanted: dict[str, _Wanted] = {}
        self._ended: OrderedDict[str, tuple[int, int]] = OrderedDict()  # by node: (epoch, revision) of the tombstone
        self._work = asyncio.Event()
        self._held_up = True

    @property
    def held_up(self) -> bool:
        """Whether nothing is done for now: the records have not been read to their end."""
        return self._held_up

    @held_up.setter
    def held_up(self, value: bool) -> None:
        self._held_up = value
        self._work.set()

    def take(self, record: NodeWish | WishEnd) -> bool:
        """Take a record of a node; False for one that is older than what is known."""
        known = self._wanted.get(record.node)
        newest = max(self._ended.get(record.node, (0, 0)), known.wish.rank if known is not None else (0, 0))
        if record.rank < newest:
            return False
        if isinstance(record, WishEnd):
            self._wanted.pop(record.node, None)
            self._ended.pop(record.node, None)
            self._ended[record.node] = record.rank
            if len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)
            return True
        if record.rank == self._ended.get(record.node):
            return False  # a copy of the record that the tombstone has ended
        goes_on = known is not None and known.wish.revision == record.revision
        since = known.since if known is not None and goes_on else self._clock()
        wanted = self._wanted[record.node] = _Wanted(record, since)
        if known is not None and goes_on and known.answer is not None and known.answer.failure:
            self._answer(wanted, known.answer)
        self._work.set()
        return True

    def tell_again(self) -> None:
        """Tell every answer again: one may have been lost.

        A success is looked at again, so that it has the node as it is then. A failure is final: the scheduler may have
        opened the node since, so that nothing may be tried there any more.
        """
        for wanted in self._wanted.values():
            if wanted.answer is not None and wanted.answer.failure:
                self._answer(wanted, wanted.answer)
            else:
                wanted.answer = None
        self._work.set()

    async def run(self) -> None:
        """Work on what is wanted, for ever."""
        while True:
            await self._work.wait()
            try:
                await self.look()
            except Exception:  # an odd node must not end the agent: said, and looked at again
                log.exception("layouts_not_looked_at")
            if self._held_up or all(wanted.answer is not None for wanted in self._wanted.values()):
                self._work.clear()
            else:
                await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Take each layout that has no answer a step further."""
        for wanted in [*self._wanted.values()]:
            if self._held_up or wanted.answer is not None:
                continue
            wish = wanted.wish
            answer = await self._backend.lay_out(wish.node, wish.layout)
            if self._wanted.get(wish.node) is not wanted:
                continue  # a record came meanwhile
            if answer is None and self._clock() - wanted.since > PATIENCE_SECONDS:
                answer = LayoutAnswer(None, _too_late(wish))
            if answer is not None:
                self._answer(wanted, answer)

    def _answer(self, wanted: _Wanted, answer: LayoutAnswer) -> None:
        wanted.answer = answer
        self._reporter.tell(LayoutReport(wanted.wish.node, wanted.wish.revision, answer))


def _too_late(wish: NodeWish) -> str:
    return (
        f"the mig-manager did not report `success` for {wish.layout} within {PATIENCE_SECONDS:.0f} s; look at the log "
        "of its pod on the node and at the label nvidia.com/mig.config.state"
    )
