"""`muster archive list`: workloads that have been over for so long that `muster list` has them no more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from muster.workload.v1 import workload_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.moments import moment
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.printable import one_line
from muster_client.cli.render import tables
from muster_client.errors import InvalidInput

_NO_OPTIONS = Common()
_MOST: Final = 100


async def list_archived(
    name: str = "",
    *,
    since: str = "",
    before: str = "",
    output: Annotated[Literal["table", "name", "json"], Parameter(name=["--output", "-o"])] = "table",
    deleted: Annotated[bool, Parameter(negative="")] = False,
    limit: int = _MOST,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lists archived workloads; what ended last comes first. `muster describe ID` and `muster events ID` show one.

    Args:
        name: Only those of exactly this name.
        since: Only what ended since then: a time, or how long ago (30d).
        before: Only what ended before that.
        output: A table, one id a line (name), or JSON.
        deleted: Also deleted ones.
        limit: At most this many; 0: all.
        common: Connection.
    """
    if limit < 0:
        raise InvalidInput(f"--limit {limit}: expected 0 (all) or how many at most")
    now = datetime.now(UTC)
    found: list[workload_pb2.Workload] = []
    async with common.muster() as muster:
        wanted = muster.archived(
            project=common.project or "",
            name=name,
            since=moment(since, now) if since else None,
            before=moment(before, now, "--before") if before else None,
            include_deleted=deleted,
        )
        async for each in wanted:
            found.append(each)
            if limit and len(found) >= limit:
                break
    match "json" if common.json else output:
        case "json":
            emit(found)
        case "name":
            say("\n".join(one_line(each.id) for each in found))
        case _ if not found:
            say("no archived workload matches; `muster list` shows what ended within the last days")
        case _:
            say(tables.workloads(found, now))
    return Exit.OK
