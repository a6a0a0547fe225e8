"""Verbs about usage and dead letters."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from muster.api.v1.dead_letters_pb2 import RepublishResponse, ResumeConsumerResponse
from muster_client.calls import new_key
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, note, say
from muster_client.cli.printable import one_line
from muster_client.cli.render import tables
from muster_client.cli.render.amounts import age
from muster_client.errors import InvalidInput
from muster_client.muster import Muster

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
                [
                    f"{answer.handled} handled, {answer.failed} failed again",
                    *(f"  {one_line(each)}" for each in answer.reasons),
                ]
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
        said += [f"  {one_line(each)}" for each in answer.reasons]
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


async def resume_consumer(
    service: str,
    *,
    topic: str = "",
    count: int = 0,
    until_quiet: Annotated[bool, Parameter(negative="")] = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Lets a consumer go on that stopped because too much was rejected.

    Args:
        service: The service.
        topic: The topic; left out: every stopped one of the service.
        count: Take in so many records before it may stop again, and wait for them.
        until_quiet: Take in all records until at most half of them are rejected or no more come, and wait for that.
        common: Connection.
    """
    if count < 0 or (count and until_quiet):
        raise InvalidInput(f"--count {count}: a number of records from 1, and not with --until-quiet")
    async with common.muster() as muster:
        answer = await muster.dead_letters.resume(service, topic=topic, count=count, until_quiet=until_quiet)
        while (count or until_quiet) and not answer.finished:
            note(f"{answer.passed:,} records passed so far")
            answer = await muster.dead_letters.resume(service, topic=topic, count=count, until_quiet=until_quiet)
    if common.json:
        emit(
            {
                "service": service,
                "topics": list(answer.topics),
                "passed": answer.passed,
                "rejected": answer.rejected,
            }
        )
    else:
        say(_resumed(service, answer, counted=bool(count or until_quiet)))
    return Exit.OK


def _resumed(service: str, answer: ResumeConsumerResponse, *, counted: bool) -> str:
    if not answer.topics:
        return f"{service}: no consumer was stopped"
    text = f"{service} goes on with {', '.join(answer.topics)}"
    return f"{text}: {answer.passed:,} records passed, {answer.rejected:,} became dead letters" if counted else text


async def list_gaps(*, service: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists where versions are missing, so that later records wait; `republish` closes gaps.

    Args:
        service: Only this service's, such as submission.
        common: Connection.
    """
    async with common.muster() as muster:
        answer = await muster.dead_letters.gaps(service=service)
    if common.json:
        emit(answer.gaps)
    else:
        say(tables.gaps(answer.gaps, datetime.now(UTC)) if answer.gaps else "no gaps")
    if (more := answer.total - len(answer.gaps)) > 0:
        note(f"{more} more")
    if answer.unanswered:
        note(f"no answer from {', '.join(answer.unanswered)}")
    return Exit.OK


async def republish(*, topic: str, key: str = "", common: Common = _NO_OPTIONS) -> int:
    """Publish again what the owner has of a topic, under the same versions; consumers drop what they have.

    Without --key, gaps of the topic that remain are closed one by one: where the owner has removed old events, it
    publishes the state of that workload instead.

    Args:
        topic: Which, such as muster.decisions.
        key: Only what is about this, such as the id of a workload.
        common: Connection.
    """
    async with common.muster() as muster:
        answer = await _republished(muster, topic, key)
        states = 0
        if not key:
            listed = await muster.dead_letters.gaps()
            for gap in listed.gaps:
                if gap.topic == topic:
                    states += (await _republished(muster, topic, gap.aggregate)).snapshot
            if (unlisted := listed.total - len(listed.gaps)) > 0:
                note(f"{unlisted} more gaps were not listed: repeat this command once these are closed")
    if common.json:
        emit({"topic": topic, "key": key, "records": answer.sent, "snapshot": answer.snapshot, "states": states})
    elif answer.snapshot:
        say(f"{topic}: the state of {one_line(key)} was published; its older events are not kept any more")
    else:
        more = f"; of {states} workloads the state, since older events are not kept any more" if states else ""
        say(f"{topic}: {answer.sent:,} records were published again{more}")
    return Exit.OK


async def _republished(muster: Muster, topic: str, key: str) -> RepublishResponse:
    """Ask for one republication and wait until it is finished."""
    asked = new_key()
    while True:
        answer = await muster.dead_letters.republish(topic, aggregate=key, key=asked)
        if answer.finished:
            return answer
        note(f"{answer.sent:,} records so far")


async def list_quarantine(
    *, trace: Annotated[bool, Parameter(negative="")] = False, common: Common = _NO_OPTIONS
) -> int:
    """List what the scheduler failed on and has set aside: workloads, node pools, clusters. The rest is decided.

    Args:
        trace: Also where each failure was raised.
        common: Connection.
    """
    async with common.muster() as muster:
        found = list(await muster.quarantine.list())
    if common.json:
        emit(found)
        return Exit.OK
    if not found:
        say("nothing is set aside")
    for one in found:
        since = age(one.at.ToDatetime(UTC), datetime.now(UTC))
        say(f"{one.workload_id}  {one.place or f'{one.project}/{one.name}'}  {since} ago\n  {one.error}")
        if trace:
            say("\n".join(f"    {line}" for line in one.trace.splitlines()))
    return Exit.OK


async def release_quarantine(
    *ids: str, every: Annotated[bool, Parameter(name="--all", negative="")] = False, common: Common = _NO_OPTIONS
) -> int:
    """Let in again what was set aside. What fails again is set aside again.

    Args:
        ids: Which, by id; node pools and clusters by pool/NAME and cluster/NAME.
        every: All of them.
        common: Connection.
    """
    if bool(ids) == every:
        raise InvalidInput("name them by id as `muster quarantine list` shows them, or all with --all")
    async with common.muster() as muster:
        count = await muster.quarantine.release(ids)
    if common.json:
        emit({"released": count})
    else:
        say(f"{count} let in again")
    return Exit.OK
