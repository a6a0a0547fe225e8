"""A watch that does not end.

What is there, then every change, over broken connections and restarts of the control plane.
Called by `Muster.watch` and `Muster.wait`. Holds: an item is given once, unless the control plane has forgotten the
cursor; then everything comes again as a snapshot, which its reader can tell by the item's kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Literal

from muster.api.v1 import workloads_pb2, workloads_pb2_grpc
from muster.workload.v1 import workload_pb2
from muster_client.calls import Calls
from muster_client.errors import CursorTooOld, NotFound, NotNow, Unavailable, WaitTimedOut
from muster_client.phases import Phase, as_phase
from muster_client.words import TERMINAL, phase_of, phase_word

_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 2.0

Kind = Literal["snapshot", "snapshot-end", "change"]
_KINDS: Final[dict[int, Kind]] = {
    workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT: "snapshot",
    workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END: "snapshot-end",
    workloads_pb2.WATCH_ITEM_KIND_CHANGE: "change",
}


@dataclass(frozen=True, slots=True)
class WatchItem:
    """One item. `workload` is None at the snapshot's end only; `cursor` is where a later watch goes on after it."""

    kind: Kind
    workload: workload_pb2.Workload | None
    cursor: str
    event: str
    text: str


class Watcher:
    """Opens watches and mends them."""

    def __init__(self, calls: Calls, stub: workloads_pb2_grpc.WorkloadsServiceStub) -> None:
        self._calls = calls
        self._stub = stub

    async def items(
        self,
        wanted: workloads_pb2.WorkloadFilter,
        workload: workloads_pb2.WorkloadRef | None,
        cursor: str,
    ) -> AsyncIterator[WatchItem]:
        """Items without an end.

        Raises CursorTooOld for the caller's own cursor, and whatever is not a broken connection.
        """
        ours, wait = False, _FIRST_WAIT
        while True:
            request = workloads_pb2.WatchWorkloadsRequest(filter=wanted, workload=workload, cursor=cursor)
            try:
                async for message in self._calls.stream(self._stub.WatchWorkloads, request):
                    item = _item(message)
                    if item.kind != "snapshot":
                        # A cursor taken inside a snapshot would skip the rest of it after a reconnection.
                        cursor, ours = item.cursor, True
                    wait = _FIRST_WAIT
                    yield item
            except Unavailable as problem:
                self._calls.told(problem)
            except NotNow as problem:
                if not cursor:
                    raise
                if not ours:
                    raise CursorTooOld(problem.message, detail=problem.detail) from None
                cursor = ""
            # A stream may also end in good order, when its server stops: the same as a broken one.
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)


def _item(message: workloads_pb2.WatchWorkloadsResponse) -> WatchItem:
    return WatchItem(
        kind=_KINDS.get(message.kind, "change"),
        workload=message.workload if message.HasField("workload") else None,
        cursor=message.cursor,
        event=message.event,
        text=message.text,
    )


async def until(
    items: AsyncIterator[WatchItem],
    phases: frozenset[Phase],
    name: str,
    timeout: float | None,
    tell: Callable[[WatchItem], None] | None = None,
) -> workload_pb2.Workload:
    """The first workload seen in one of `phases` or in a final one; `tell` hears of every item on the way.

    timeout: seconds. Raises NotFound for an empty snapshot, WaitTimedOut.
    """
    last: workload_pb2.Workload | None = None
    phases = frozenset(map(as_phase, phases))  # a word among them would never be met
    try:
        async with asyncio.timeout(timeout):
            async for item in items:
                if item.workload is None:
                    if last is None:
                        raise NotFound(f"{name}: no such workload")
                    continue
                last = item.workload
                if tell is not None:
                    tell(item)
                if phase_of(last) in phases | TERMINAL:
                    return last
    except TimeoutError:
        was = phase_word(last.phase) if last is not None else "never seen"
        wanted = ", ".join(sorted(phase.word for phase in phases))
        raise WaitTimedOut(f"{name} did not become {wanted} within {timeout:g} s: it is {was}", phase=was) from None
    raise AssertionError("a watch does not end by itself")
