"""What happened, as the control plane's own watch told it: the evidence for the checks and the source of the screen.

One task reads the watch; acts wait on it. Holds: phases are kept in the order in which they came, once each time they
change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase, WatchItem, phase_of, phase_word


class DidNotHappen(Exception):
    """What an act waited for did not come; the text says what it was and how things stood."""


@dataclass(slots=True)
class Entry:
    """One workload's story so far. `events`: their names; `text`: the last thing said about it."""

    workload: workload_pb2.Workload
    phases: list[Phase] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    text: str = ""
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def phase(self) -> str:
        """The phase now."""
        return phase_word(self.workload.phase)

    def passed(self, *wanted: Phase) -> bool:
        """Whether these phases came in this order, others between them or not."""
        remaining = iter(self.phases)
        return all(phase in remaining for phase in wanted)


class Diary:
    """The stories of all workloads, by id."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.lines: list[str] = []
        self.explanations: list[str] = []  # as `muster why` gave them
        self._changed = asyncio.Condition()

    async def keep(self, muster: Muster) -> None:
        """Reads the watch for ever."""
        async for item in muster.watch():
            if item.workload is not None:
                async with self._changed:
                    self._note(item, item.workload)
                    self._changed.notify_all()

    def _note(self, item: WatchItem, workload: workload_pb2.Workload) -> None:
        entry = self.entries.setdefault(workload.id, Entry(workload))
        entry.workload = workload
        phase = phase_of(workload)
        if phase is not None and entry.phases[-1:] != [phase]:
            entry.phases.append(phase)
            self.lines.append(f"{workload.name}: {phase.word}")
        if phase in {Phase.COMPLETED, Phase.FAILED, Phase.DELETED}:
            entry.ended = entry.ended or time.monotonic()
        if item.event:
            entry.events.append(item.event)
        entry.text = item.text or workload.reason.message or entry.text

    async def until(self, workload: str, met: Callable[[Entry], bool], *, seconds: float, what: str) -> Entry:
        """The workload's story once `met` holds of it. Raises DidNotHappen after `seconds`."""
        return await self.find(lambda entry: entry.workload.id == workload and met(entry), seconds=seconds, what=what)

    async def find(self, met: Callable[[Entry], bool], *, seconds: float, what: str) -> Entry:
        """The first story of which `met` holds. Raises DidNotHappen after `seconds`."""

        def first() -> Entry | None:
            return next((entry for entry in self.entries.values() if met(entry)), None)

        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: first() is not None)
        except TimeoutError:
            raise DidNotHappen(f"{what}: not within {seconds:g} s") from None
        found = first()
        if found is None:
            raise DidNotHappen(what)
        return found

    async def becomes(self, workload: str, phase: Phase, *, seconds: float, again: bool = False) -> Entry:
        """Its story once it is in `phase`; `again`: was in it before, left it, and came back.

        Raises DidNotHappen, also at once where it failed on the way.
        """

        def met(entry: Entry) -> bool:
            if entry.phases[-1:] == [Phase.FAILED] and phase is not Phase.FAILED:
                return True
            return entry.phases.count(phase) > int(again)

        name = self.entries[workload].workload.name if workload in self.entries else workload
        entry = await self.until(workload, met, seconds=seconds, what=f"{name} becomes {phase.word}")
        if entry.phases.count(phase) <= int(again):
            raise DidNotHappen(f"{name} failed: {entry.workload.reason.message or entry.text}")
        return entry
