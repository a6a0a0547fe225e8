"""Access rules and applications in PostgreSQL, and the state that decides about calls in memory.

Holds: a state is at most half a second old when it is handed out, on every instance: it is asked for its version then,
and read anew where that has grown. Where PostgreSQL does not answer there is no state, and so no call is let in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import asyncpg

from muster.tenancy.v1.tenancy_pb2 import Project
from muster_submission.domain.access import Binding, Role, Scope, ScopeKind
from muster_submission.domain.bindings import Holder, HolderKind, Rule, State, by_holder

FRESH: Final = 0.5
"""Seconds for which a state counts without asking."""
_NEVER: Final = float("-inf")
_VERSION: Final = "SELECT version FROM access_version"
_RULES: Final = "SELECT holder_kind, holder, issuer, role, scope_kind, scope FROM access_rules"
_CREDENTIALS: Final = "SELECT id::text AS id, credential FROM applications WHERE enabled AND NOT ended"
_PROJECTS: Final = "SELECT name, record FROM projects"


class PostgresAccess:
    """The state of access, followed."""

    def __init__(self, pool: asyncpg.Pool, *, clock: Callable[[], float] = monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._state: State | None = None
        self._asked = _NEVER
        self._asking = asyncio.Lock()
        self._changes = 0

    def stale(self) -> None:
        """Makes the next question read: this process has changed something itself."""
        self._changes += 1
        self._asked = _NEVER

    async def version(self) -> int:
        """The version of the state: whoever keeps what follows from it reads anew where it has grown."""
        return (await self.state()).version

    async def state(self) -> State:
        """Everything that decides about calls, at most half a second old."""
        if self._state is not None and self._clock() - self._asked < FRESH:
            return self._state
        async with self._asking:
            if self._state is None or self._clock() - self._asked >= FRESH:
                # The clock is read before the question: an answer that took long is as old as its question.
                asked, changes = self._clock(), self._changes
                self._state = await self._read(self._state)
                self._asked = asked if changes == self._changes else _NEVER
            return self._state

    async def _read(self, known: State | None) -> State:
        version = await self._pool.fetchval(_VERSION)
        if known is not None and known.version == version:
            return known
        async with self._pool.acquire() as connection, connection.transaction(isolation="repeatable_read"):
            # Read again inside: what follows is of this very version.
            version = await connection.fetchval(_VERSION)
            rules = [_rule(row) for row in await connection.fetch(_RULES)]
            credentials = {row["id"]: row["credential"] for row in await connection.fetch(_CREDENTIALS)}
            projects = [Project.FromString(row["record"]) for row in await connection.fetch(_PROJECTS)]
        departments = {project.name: project.department for project in projects}
        return State(version, by_holder(rules), departments, credentials)


def _rule(row: Any) -> Rule:
    holder = Holder(HolderKind(row["holder_kind"]), row["holder"], row["issuer"])
    return Rule(holder, Binding(Role(row["role"]), Scope(ScopeKind(row["scope_kind"]), row["scope"])))
