"""`muster events`: what happened to a workload, the oldest first, and with --follow what happens next.

Holds: every event is shown once; of a watch only the moment is used, and the events themselves are asked for by number.
"""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from muster.api.v1 import workloads_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, emit_line, say
from muster_client.cli.render.events import event_lines, heading
from muster_client.errors import InvalidInput
from muster_client.muster import Muster
from muster_client.words import phase_word

_NO_OPTIONS = Common()
_LAST: Final = 50


async def events(
    workload: str,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    limit: int = _LAST,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lists what happened to a workload, the oldest first.

    Args:
        workload: Its name or id.
        follow: Go on as more happens, until the workload is deleted; with --json one object a line.
        limit: Only so many of the last events to begin with; 0: all.
        common: Connection.
    """
    if limit < 0:
        raise InvalidInput(f"--limit {limit}: expected 0 (all) or how many of the last events")
    async with common.muster() as muster:
        found = await common.id_of(muster, workload)
        first = await _after(muster, found, -1, limit)
        if not follow:
            _show(first, common, heading())
            return Exit.OK
        return await _follow(muster, found, first, common)


async def _follow(muster: Muster, workload: str, shown: list[workloads_pb2.WorkloadEvent], common: Common) -> int:
    last = -1
    async for item in muster.watch(workload=workload):
        _tell(shown, common, heading() if last < 0 else "")
        last = max([last, *(each.number for each in shown)])
        if item.workload is not None and phase_word(item.workload.phase) == "Deleted":
            return Exit.OK
        shown = await _after(muster, workload, last, 0)
    return Exit.OK


async def _after(muster: Muster, workload: str, number: int, limit: int) -> list[workloads_pb2.WorkloadEvent]:
    """The events after that number, the oldest first; limit: only so many of the last, 0: all."""
    found: list[workloads_pb2.WorkloadEvent] = []
    async for each in muster.events(workload, page_size=limit or _LAST):
        if each.number <= number or (limit and len(found) == limit):
            break
        found.append(each)
    return found[::-1]


def _show(found: list[workloads_pb2.WorkloadEvent], common: Common, first: str) -> None:
    if common.json:
        emit(found)
    else:
        say("\n".join([first, *event_lines(found)]))


def _tell(found: list[workloads_pb2.WorkloadEvent], common: Common, first: str) -> None:
    if common.json:
        for each in found:
            emit_line(each)
    elif found:
        say("\n".join([*([first] if first else []), *event_lines(found)]))
