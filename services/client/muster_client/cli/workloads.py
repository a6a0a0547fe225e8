"""Verbs about workloads that are there already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from muster.workload.v1 import workload_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.printable import one_line
from muster_client.cli.render import tables, wide
from muster_client.cli.render.describe import describe as described
from muster_client.cli.render.why import why_text
from muster_client.cli.selecting import Selectors, in_order, selected, selectors
from muster_client.errors import InvalidInput
from muster_client.muster import Muster
from muster_client.phases import Phase
from muster_client.words import phase_of, phase_word

_NO_OPTIONS = Common()


@dataclass(frozen=True, slots=True)
class _Wish:
    """What can be asked of a workload. `goal`: the phase in which it is granted."""

    noun: str
    ask: Callable[[Muster, str], Awaitable[workload_pb2.Workload]]
    goal: Phase


_SUSPEND: Final = _Wish("suspension", lambda muster, found: muster.suspend(found), Phase.STOPPED)
_RESUME: Final = _Wish("resumption", lambda muster, found: muster.resume(found), Phase.RUNNING)


async def list_workloads(
    prefix: str = "",
    *,
    phase: Annotated[list[str] | None, Parameter(negative="")] = None,
    selector: Selectors = None,
    sort: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    output: Annotated[Literal["table", "wide", "name", "json"], Parameter(name=["--output", "-o"])] = "table",
    deleted: Annotated[bool, Parameter(negative="")] = False,
    limit: int = 0,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lists workloads, newest first.

    Args:
        prefix: Only names that begin so.
        phase: Only workloads in this phase, such as Running. May be given several times.
        selector: Only workloads with these labels: key=value, key!=value, key; several by commas.
        sort: By name, project, kind, phase, place, owner or age; with a minus before it (--sort=-age) downwards.
        output: A table, one with more columns (wide), one name a line, or JSON.
        deleted: Also deleted ones.
        limit: At most this many; 0: all.
        common: Connection.
    """
    if limit < 0:
        raise InvalidInput(f"--limit {limit}: expected 0 (all) or how many at most")
    phases = [_phase(word) for word in phase or ()]
    labels = selectors(selector)
    in_order((), sort or "name")  # a column that does not exist is said before anything is asked
    found: list[workload_pb2.Workload] = []
    async with common.muster() as muster:
        wanted = muster.list(project=common.project or "", phases=phases, name_prefix=prefix, include_deleted=deleted)
        async for each in wanted:
            if selected(each, labels):
                found.append(each)
            if limit and len(found) >= limit:
                break
    filtered = bool(prefix or phases or labels)
    _show(in_order(found, sort) if sort else found, "json" if common.json else output, filtered=filtered)
    return Exit.OK


def _show(found: list[workload_pb2.Workload], output: str, *, filtered: bool) -> None:
    now = datetime.now(UTC)
    match output:
        case "json":
            emit(found)
        case "name":
            say("\n".join(one_line(each.name) for each in found))
        case _ if not found:
            say("no workload matches" if filtered else "no workloads; `muster submit -f FILE` makes one")
        case "wide":
            say(wide.workloads(found, now), wide=True)
        case _:
            say(tables.workloads(found, now))
    if output in {"table", "wide"} and (told := tables.troubles(found)):
        say("\n" + "\n".join(told))


def _phase(word: str) -> Phase:
    found = next((phase for phase in Phase if phase.word.lower() == word.lower()), None)
    if found is None:
        raise InvalidInput(f"--phase {word}: no such phase; they are {', '.join(phase.word for phase in Phase)}")
    return found


async def get(
    workload: str,
    *,
    output: Annotated[Literal["table", "yaml", "json"], Parameter(name=["--output", "-o"])] = "table",
    common: Common = _NO_OPTIONS,
) -> int:
    """Shows one workload, by name or id.

    Args:
        workload: Its name or id.
        output: A table, the document it was made from (yaml), or everything (json).
        common: Connection.
    """
    async with common.muster() as muster:
        found = await common.id_of(muster, workload)
        if output == "yaml" and not common.json:
            say((await muster.get_yaml(found)).rstrip("\n"))
            return Exit.OK
        shown = await muster.get(found)
    if output == "json" or common.json:
        emit(shown)
    else:
        say(tables.workloads([shown], datetime.now(UTC)))
    return Exit.OK


async def describe(workload: str, *, common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one workload: how it is and why, where it runs, how to reach it.

    Args:
        workload: Its name or id.
        common: Connection.
    """
    async with common.muster() as muster:
        shown = await muster.get(await common.id_of(muster, workload))
    if common.json:
        emit(shown)
    else:
        say(described(shown, datetime.now(UTC)))
    return Exit.OK


async def why(workload: str, *, common: Common = _NO_OPTIONS) -> int:
    """Says why a workload waits, and what would let it start; or why it runs with fewer replicas than it would have.

    Args:
        workload: Its name or id.
        common: Connection.
    """
    async with common.muster() as muster:
        told = await muster.why(await common.id_of(muster, workload))
    if common.json:
        emit(told)
    else:
        say(why_text(told, datetime.now(UTC)))
    return Exit.OK


async def suspend(
    workload: str, *, wait: bool = False, timeout: float | None = None, common: Common = _NO_OPTIONS
) -> int:
    """Stops a workload and keeps its place in the books.

    Args:
        workload: Its name or id.
        wait: Wait until nothing of it runs any more.
        timeout: Seconds to wait at most; exit 4 afterwards.
        common: Connection.
    """
    return await _act(workload, _SUSPEND, wait=wait, timeout=timeout, common=common)


async def resume(
    workload: str, *, wait: bool = False, timeout: float | None = None, common: Common = _NO_OPTIONS
) -> int:
    """Lets a suspended workload run again.

    Args:
        workload: Its name or id.
        wait: Wait until it runs.
        timeout: Seconds to wait at most; exit 4 afterwards.
        common: Connection.
    """
    return await _act(workload, _RESUME, wait=wait, timeout=timeout, common=common)


async def _act(workload: str, wish: _Wish, *, wait: bool, timeout: float | None, common: Common) -> int:
    """Asks for something, waits for it where that is wanted, and says how the workload is then."""
    async with common.muster() as muster:
        shown = await wish.ask(muster, await common.id_of(muster, workload))
        if wait:
            shown = await muster.wait(shown.id, phases={wish.goal}, timeout=timeout)
    reached = phase_of(shown) is wish.goal
    if common.json:
        emit(shown)
    else:
        phase = phase_word(shown.phase)
        say(f"{shown.name}: {phase if wait or reached else f'{wish.noun} requested (it is {phase})'}")
    return Exit.OK if reached or not wait else Exit.FAILED
