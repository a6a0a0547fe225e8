"""Applications: made, given new secrets, ended; and their tokens.

Called by the rpc and the REST routes. Holds: a secret is shown once and kept as SHA-256 only; an unknown id and a wrong
secret get one answer after the same work; every token and every refusal has its line in the audit.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Final

from muster_chassis import identity
from muster_chassis.database import Database
from muster_chassis.errors import NotFound, ResourceExhausted, ServiceError, Unauthenticated
from muster_chassis.rpc import Caller
from muster_chassis.unit import Unit
from muster_kernel.ids import is_uuid
from muster_submission.access_ports import Application, ApplicationBooks, RefreshBooks, TokenMaker
from muster_submission.audit import DONE, Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.problems import Problem
from muster_submission.domain.rates import Rates
from muster_submission.domain.refreshing import LIFETIME as REFRESHABLE
from muster_submission.domain.refreshing import Again, RefreshToken, Reused, Rotate, judge
from muster_submission.errors import DraftRefused, NameTaken

LIFETIME: Final = 3600
"""Seconds for which a token counts."""
REUSED: Final = "the refresh token was used before or has ended, and with it all that follow from the same login"
TOKEN: Final = "tokens.issue"  # noqa: S105 - what the audit calls it
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,98}")
_NOBODYS: Final = hashlib.sha256(b"").digest()  # what the secret of an unknown application is compared with
_DEAR: Final = 5.0  # tries that a wrong secret costs beside its own


@dataclass(frozen=True, slots=True)
class Issued:
    """A token, and one that is good for another."""

    access: str
    refresh: str


class Applications:
    """Changes applications. changed: called after a commit, so that this process counts by it at once."""

    def __init__(self, books: ApplicationBooks, changed: Callable[[], None]) -> None:
        self._books = books
        self._changed = changed

    async def create(self, unit: Unit, name: str, by: str) -> tuple[Application, str]:
        """An application and its secret. Raises DraftRefused and NameTaken."""
        if not _NAME.fullmatch(name) or is_uuid(name.lower()):
            allowed = "1 to 99 letters, digits, spaces and ._@-, beginning with a letter or digit, and no UUID"
            raise DraftRefused("the application", [Problem("name", f"{name[:120]!r} is no name: {allowed}")])
        secret = secrets.token_urlsafe(32)
        made = await self._books.add(unit, identity.event_id(), name, digest(secret), by)
        if made is None:
            raise NameTaken(f"an application {name!r} exists: choose another name, or give that one a new secret")
        await self._note(unit, made, "created")
        return made, secret

    async def rotate(self, unit: Unit, ref: str) -> tuple[Application, str]:
        """The application with a new secret. Raises NotFound."""
        found = await self._found(unit, ref)
        secret = secrets.token_urlsafe(32)
        await self._books.new_secret(unit, found.id, digest(secret))
        await self._note(unit, found, "new secret")
        return replace(found, credential=found.credential + 1), secret

    async def enable(self, unit: Unit, ref: str, *, enabled: bool) -> Application:
        """Switches an application on or off. Raises NotFound."""
        found = await self._found(unit, ref)
        await self._books.enable(unit, found.id, enabled)
        await self._note(unit, found, "enabled" if enabled else "disabled")
        return replace(found, enabled=enabled, updated_at=unit.now)

    async def end(self, unit: Unit, ref: str) -> Application:
        """Ends an application for good. Raises NotFound."""
        found = await self._found(unit, ref)
        await self._books.end(unit, found.id)
        await self._note(unit, found, "revoked")
        return replace(found, enabled=False, updated_at=unit.now)

    async def _found(self, unit: Unit, ref: str) -> Application:
        found = await self._books.find(ref, unit)
        if found is None:
            raise no_application(ref)
        return found

    async def _note(self, unit: Unit, application: Application, what: str) -> None:
        detail = f"{what}: {application.name}"
        await audit(unit, Entry(Verb.APPLICATIONS_WRITE, f"application/{application.id}", detail=detail))
        unit.after_commit(self._changed)


class Exchange:
    """Gives tokens for secrets.

    Holds: what others try from the same address never keeps out a caller whose secret is right. A secret has 256 bits,
    so that tries without end find none; the bucket of an address bounds what wrong ones may cost.
    """

    def __init__(
        self, database: Database, books: ApplicationBooks, refreshing: RefreshBooks, tokens: TokenMaker, issuer: str
    ) -> None:
        self._database = database
        self._books = books
        self._refreshing = refreshing
        self._tokens = tokens
        self._issuer = issuer
        self._rates = Rates(size=60.0, refill=2.0)

    async def by_secret(self, ref: str, secret: str, who: Caller) -> Issued:
        """A token for an application's id (or name) and secret. Raises Unauthenticated and ResourceExhausted."""
        found = await self._books.find(ref)
        right = hmac.compare_digest(digest(secret), found.secret if found else _NOBODYS)
        if found is None or not right or not found.enabled:
            raise await self._refused(found, who, "the application's id or its secret is wrong")
        async with self._database.unit() as unit:
            first = RefreshToken(identity.event_id(), identity.event_id(), unit.now)
            await self._refreshing.add(unit, first, unit.now + REFRESHABLE)
            await self._used(unit, found, who)
        return await self._issued(found, first, unit.now)

    async def by_refresh(self, token: str, who: Caller) -> Issued:
        """A token for a refresh token, which gets a successor. Raises Unauthenticated and ResourceExhausted."""
        try:
            said, number = await self._tokens.read_refresh(token)
        except Unauthenticated as error:
            raise await self._refused(None, who, error.message) from error
        found = await self._books.find(said.subject)
        if found is None or not found.enabled or found.credential != said.credential:
            raise await self._refused(found, who, "the application was revoked or has a new secret")
        async with self._database.unit() as unit:
            successor = await self._successor(unit, number)
            if successor is None:
                await self._note(unit, found, who, Unauthenticated.reason, "refresh token used again")
            else:
                await self._used(unit, found, who)
        if successor is None:
            self._rates.charge(_address(who), monotonic(), _DEAR)
            raise Unauthenticated(f"{REUSED}: log in with the application's secret")
        return await self._issued(found, successor, unit.now)

    async def _successor(self, unit: Unit, number: str) -> RefreshToken | None:
        """The token that follows; None where there is none, and then the whole family has ended."""
        known = await self._refreshing.lock(unit, number)
        if known is None:
            return None
        match judge(known, unit.now):
            case Rotate():
                fresh = RefreshToken(identity.event_id(), known.family, unit.now)
                await self._refreshing.rotate(unit, known.id, fresh, unit.now + REFRESHABLE)
                return fresh
            case Again(successor=successor, made_at=made_at):
                return RefreshToken(successor, known.family, made_at)
            case Reused():
                await self._refreshing.end(unit, known.family)
                return None

    async def _issued(self, found: Application, refresh: RefreshToken, now: datetime) -> Issued:
        access = await self._tokens.access(found.id, found.credential, now)
        return Issued(access, await self._tokens.refresh(found.id, found.credential, refresh))

    async def _used(self, unit: Unit, found: Application, who: Caller) -> None:
        await self._books.used(unit, found.id)
        await self._note(unit, found, who)

    async def _note(
        self, unit: Unit, found: Application | None, who: Caller, outcome: str = DONE, detail: str = ""
    ) -> None:
        # An unknown id is not written down: people paste secrets into the wrong field.
        target = f"application/{found.id}" if found else "application/unknown"
        await audit(unit, Entry(TOKEN, target, outcome=outcome, detail=detail), who=self._as(found, who))

    async def _refused(self, found: Application | None, who: Caller, why: str) -> ServiceError:
        wait = self._rates.take(_address(who), monotonic())
        if wait:
            return ResourceExhausted("too many wrong token requests from this address: wait a while", retry_after=wait)
        self._rates.charge(_address(who), monotonic(), _DEAR)
        async with self._database.unit() as unit:
            await self._note(unit, found, who, Unauthenticated.reason)
        return Unauthenticated(why)

    def _as(self, found: Application | None, who: Caller) -> Caller:
        return replace(who, subject=found.id if found else "", issuer=self._issuer)


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def no_application(ref: str) -> NotFound:
    """The error for an application that does not exist."""
    named = repr(ref[:100])
    return NotFound(f"application {named} does not exist; `muster applications list` shows those that do")


def _address(who: Caller) -> str:
    """The peer without the port that gRPC tells with it: each connection has another one."""
    return who.peer.rpartition(":")[0] if who.channel == "grpc" else who.peer
