"""`muster what-if`: what would become of the workloads of files, decided by the control plane and taken back.

Holds: nothing is made, whatever the answer is; a file with an error in any document asks nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from muster.api.v1 import explain_pb2
from muster.api.v1.workloads_pb2 import WorkloadDraft
from muster_client.cli.documents import Files, Piece, read_files, refused, warn
from muster_client.cli.exits import Exit
from muster_client.cli.issues import in_document
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render.prospects import displaced_text, prospect_text
from muster_client.drafts import draft_of
from muster_client.errors import AlreadyExists, InvalidInput, MusterError, NotFound
from muster_client.muster import Muster

_NO_OPTIONS = Common()
_MOST = 100
_DONE = "nothing was asked"
T = TypeVar("T")


async def what_if(*, file: Files, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Says where the workloads of files would go now, what they would displace, or why they would wait.

    The scheduler tries them together, in order, on its live state and takes everything back. Exit 1 where policy
    refuses one.

    Args:
        file: A file of documents; - reads standard input. May be given several times.
        cluster: The only cluster in which they may run.
        common: Connection.
    """
    pieces = read_files(file, done=_DONE)
    if not common.json:
        warn(pieces)
    answer = await _asked(pieces, cluster, common)
    if common.json:
        emit(answer)
    else:
        _show(answer, pieces)
    failed = any(each.outlook == explain_pb2.OUTLOOK_REFUSED for each in answer.prospects)
    return Exit.FAILED if failed else Exit.OK


async def _asked(pieces: list[Piece], cluster: str, common: Common) -> explain_pb2.WhatIfResponse:
    async with common.muster() as muster:
        drafts = await drafts_of(muster, pieces, cluster, common)
        return await asked_together(muster.what_if, pieces, drafts)


async def drafts_of(muster: Muster, pieces: Sequence[Piece], cluster: str, common: Common) -> list[WorkloadDraft]:
    """The documents as questions take them, each with its project. Raises InvalidInput where there are too many."""
    if len(pieces) > _MOST:
        raise InvalidInput(f"{len(pieces)} documents in one question; 1 to {_MOST} are allowed: ask in several")
    return [draft_of(each.text, await common.project_for(muster, each.document.namespace), cluster) for each in pieces]


async def asked_together(
    ask: Callable[[Sequence[WorkloadDraft]], Awaitable[T]], pieces: Sequence[Piece], drafts: Sequence[WorkloadDraft]
) -> T:
    """The answer about all drafts. A refusal of all does not say whose it is: each is asked about alone to name it."""
    try:
        return await ask(drafts)
    except (AlreadyExists, InvalidInput, NotFound) as problem:
        raise await _refused_one(ask, pieces, drafts) or problem from None


async def _refused_one(
    ask: Callable[[Sequence[WorkloadDraft]], Awaitable[object]],
    pieces: Sequence[Piece],
    drafts: Sequence[WorkloadDraft],
) -> MusterError | None:
    """The refusal of the first document that is refused alone."""
    for piece, draft in zip(pieces, drafts, strict=True):
        try:
            await ask([draft])
        except MusterError as problem:
            return refused(piece, problem, done=_DONE)
    return None


def _show(answer: explain_pb2.WhatIfResponse, pieces: list[Piece]) -> None:
    for piece, prospect in zip(pieces, answer.prospects, strict=True):
        issues = in_document(piece, [f"{issue.path}: {issue.details}" for issue in prospect.issues])
        say(prospect_text(prospect, issues, datetime.now(UTC)))
    if answer.displaced:
        say(displaced_text(answer))
    if answer.unfinished:
        say("The scheduler did not look at everything within one question: what waits here might start.")
