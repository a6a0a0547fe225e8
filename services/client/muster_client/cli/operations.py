"""Verbs about usage and dead letters."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.render import tables
from muster_client.errors import InvalidInput

_NO_OPTIONS = Common()
_MOST = 500


async def usage(*, common: Common = _NO_OPTIONS) -> int:
    """Shows the GPU time that projects and workloads have held."""
    async with common.muster() as muster:
        found = list(await muster.usage(project=common.project or ""))
    if common.json:
        emit(found)
    else:
        say(tables.usage(found) if found else "no usage yet: nothing has held a GPU")
    return Exit.OK


async def list_dead_letters(
    *,
    service: str = "",
    done: Annotated[bool, Parameter(negative="")] = False,
    limit: int = 50,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lists what services could not handle, newest first.

    Args:
        service: Only this service's, such as scheduler.
        done: Also those that have been handled since.
        limit: At most this many, up to 500.
        common: Connection.
    """
    if not 1 <= limit <= _MOST:
        raise InvalidInput(f"--limit {limit}: 1 to {_MOST}")
    async with common.muster() as muster:
        answer = await muster.dead_letters.list(service=service, include_done=done, limit=limit)
    if common.json:
        emit(answer.dead_letters)
    else:
        say(tables.dead_letters(answer.dead_letters, datetime.now(UTC)) if answer.dead_letters else "no dead letters")
    if (more := answer.total - len(answer.dead_letters)) > 0:
        note(f"{more} more: --limit, up to {_MOST}, or --service shows others")
    if answer.unanswered:
        note(f"no answer from {', '.join(answer.unanswered)}")
    return Exit.OK


async def redrive(*ids: str, service: str = "", common: Common = _NO_OPTIONS) -> int:
    """Hands dead letters to their handler again, with what was parked behind them.

    Args:
        ids: Which; none: all of --service.
        service: The service that has them.
        common: Connection.
    """
    if not ids and not service:
        raise InvalidInput("name dead letters by id, or all of a service with --service")
    _check(ids)
    async with common.muster() as muster:
        answer = await muster.dead_letters.redrive(ids, service=service)
    if common.json:
        emit(answer)
    else:
        say(
            "\n".join(
                [f"{answer.handled} handled, {answer.failed} failed again", *(f"  {each}" for each in answer.reasons)]
            )
        )
    return Exit.FAILED if answer.failed or answer.reasons else Exit.OK


async def discard(*ids: str, service: str = "", common: Common = _NO_OPTIONS) -> int:
    """Gives dead letters up for good: they are never handled, and what waits behind them goes on.

    Args:
        ids: Which.
        service: The service that has them; left out: whichever has.
        common: Connection.
    """
    if not ids:
        raise InvalidInput("name the dead letters to give up by id: `muster dead-letters list` shows them")
    _check(ids)
    async with common.muster() as muster:
        answer = await muster.dead_letters.discard(ids, service=service)
    if common.json:
        emit(answer)
    else:
        said = [f"{answer.discarded} given up, {answer.released} waited behind and may go on"]
        said += [f"  {each}" for each in answer.reasons]
        said += [f"  {each}: no dead letter waits under this id" for each in answer.missing]
        say("\n".join(said))
    return Exit.FAILED if answer.reasons or answer.missing else Exit.OK


def _check(ids: Iterable[str]) -> None:
    """Raises InvalidInput for what can be no id, before anything is asked."""
    for text in ids:
        try:
            uuid.UUID(text)
        except ValueError:
            raise InvalidInput(
                f"{text!r} is no id of a dead letter: expected a UUID as `muster dead-letters list` shows it"
            ) from None


async def resume_consumer(service: str, *, topic: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lets a consumer go on that stopped because too much was rejected.

    Args:
        service: The service.
        topic: The topic; left out: every stopped one of the service.
        common: Connection.
    """
    async with common.muster() as muster:
        topics = list(await muster.dead_letters.resume(service, topic=topic))
    if common.json:
        emit({"service": service, "topics": topics})
    else:
        say(f"{service} goes on with {', '.join(topics)}" if topics else f"{service}: no consumer was stopped")
    return Exit.OK
