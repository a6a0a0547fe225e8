"""Verbs that go on until somebody stops them: logs and watch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from muster_client.cli.exits import Exit
from muster_client.cli.moments import moment
from muster_client.cli.options import Common
from muster_client.cli.output import emit_line, say, write
from muster_client.cli.printable import one_line
from muster_client.cli.render.logs import Lines
from muster_client.cli.render.plain import plain
from muster_client.errors import InvalidInput
from muster_client.watching import WatchItem
from muster_client.words import phase_word

_NO_OPTIONS = Common()


async def logs(
    workload: str,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    replica: str = "",
    tail: int = 0,
    since: str = "",
    raw: Annotated[bool, Parameter(negative="")] = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Prints what a workload's replicas wrote.

    Colours stay; other control sequences are dropped or shown as escapes, since a log may come from anybody.

    Args:
        workload: Its name or id.
        follow: Go on as they write, until the workload ends.
        replica: Only this replica, such as worker-0.
        tail: Only this many of the last lines of each replica to begin with; 0: everything.
        since: Only what they wrote since then: 30s, 5m, 12h, 7d, or a time such as 2026-01-31T12:00.
        raw: The bytes as the replicas wrote them, control sequences included.
        common: Connection.
    """
    if tail < 0:
        raise InvalidInput(f"--tail {tail}: expected 0 (everything) or how many of the last lines")
    begin = moment(since, datetime.now(UTC)) if since else None
    lines = Lines(alone=bool(replica), raw=raw)
    async with common.muster() as muster:
        found = await common.id_of(muster, workload)
        async for piece in muster.logs(found, replica=replica, follow=follow, tail=tail, since=begin):
            if common.json:
                emit_line({"replica": piece.replica, "text": piece.data.decode(errors="replace")})
            else:
                write(lines.take(piece.replica, piece.data))
    write(lines.rest())
    return Exit.OK


async def watch(workload: str = "", *, common: Common = _NO_OPTIONS) -> int:
    """Shows workloads as they are, then every change as it happens, until Ctrl-C.

    Args:
        workload: Only this one, by name or id; it ends when the workload is deleted.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await common.id_of(muster, workload) if workload else None
        async for item in muster.watch(project=common.project or "", workload=found):
            if common.json:
                emit_line(_item(item))
            elif item.workload is not None:
                say(_line(item))
            if found and item.workload is not None and phase_word(item.workload.phase) == "Deleted":
                return Exit.OK
    return Exit.OK


def _item(item: WatchItem) -> dict[str, object]:
    told: dict[str, object] = {"kind": item.kind, "cursor": item.cursor, "event": item.event, "text": item.text}
    if item.workload is not None:
        told["workload"] = plain(item.workload)
    return told


def _line(item: WatchItem) -> str:
    if item.workload is None:
        return ""
    now = datetime.now(UTC).strftime("%H:%M:%S")
    what = one_line(item.text or item.event or item.workload.reason.message)
    return f"{now}  {one_line(item.workload.name):<24}  {phase_word(item.workload.phase):<12}  {what}".rstrip()
