"""The audit: who did what, when, from where, and what came of it. Written in the transaction of the change itself.

Called by handlers, next to what they change, with as many entries as the change has: they go out in one statement.
Holds: an entry names things and never quotes them, so that nothing secret can stand in it; rows are only added.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from muster_chassis.database import Database
from muster_chassis.errors import ServiceError
from muster_chassis.rpc import Caller, caller
from muster_chassis.text import clean
from muster_chassis.unit import Unit

DONE: Final = "done"
ASKED: Final = "asked"
_LONGEST: Final = 500
_WRITE: Final = """
INSERT INTO audit (at, issuer, subject, verb, target, project, outcome, channel, peer, detail)
SELECT $1, $2, $3, e.verb, e.target, e.project, e.outcome, $4, $5, e.detail
FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
     WITH ORDINALITY AS e(verb, target, project, outcome, detail, n)
ORDER BY e.n
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what was done or tried, about what, in which project, and what came of it."""

    verb: str
    """One of domain/access.py, or a word for what needs no right, such as tokens.issue."""
    target: str
    """KIND/NAME, or a workload's id."""
    project: str = ""
    outcome: str = DONE
    """`done`, `asked` of another service, or the reason code of a refusal."""
    detail: str = ""


Answer = TypeVar("Answer")


async def passed_on(database: Database, entry: Entry, work: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of another service to what is asked of it, with a line before it, and one more where it refuses.

    There is no common transaction with that service: the line stands before anything can have happened there.
    """
    async with database.unit() as unit:
        await audit(unit, replace(entry, outcome=ASKED))
    try:
        return await work()
    except ServiceError as error:
        async with database.unit() as unit:
            await audit(unit, replace(entry, outcome=error.error_reason))
        raise


async def audit(unit: Unit, *entries: Entry, who: Caller | None = None) -> None:
    """Writes entries of one caller: whoever makes this call, or `who` where something acts for somebody."""
    if not entries:
        return
    who = who or caller()
    await unit.connection.execute(
        _WRITE,
        unit.now,
        clean(who.issuer, _LONGEST),
        clean(who.subject, _LONGEST),
        who.channel,
        clean(who.peer, _LONGEST),
        [str(entry.verb) for entry in entries],
        [clean(entry.target, _LONGEST) for entry in entries],
        [clean(entry.project, _LONGEST) for entry in entries],
        [entry.outcome for entry in entries],
        [clean(entry.detail, _LONGEST) for entry in entries],
    )
