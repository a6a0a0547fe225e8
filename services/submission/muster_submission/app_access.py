"""The part of the composition root that is about access: rights, applications, tokens, the audit.

Called by app.py alone. Beside it because the root would be too long to read in one go.
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.api.v1 import access_pb2, access_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.rpc import LIMITS, Caller, Limiter, Service, Shares, authenticator, service
from muster_chassis.settings import AuthMode, CallKind
from muster_chassis.unit import Unit
from muster_submission.adapters.access import PostgresAccess
from muster_submission.adapters.access_rules import PostgresRules
from muster_submission.adapters.applications import PostgresApplications
from muster_submission.adapters.audit import PostgresAudit, Refusals
from muster_submission.adapters.refresh_tokens import PostgresRefreshTokens
from muster_submission.adapters.signing import PostgresSigning
from muster_submission.adapters.tokens import Tokens
from muster_submission.domain.access import Verb
from muster_submission.handlers.access import Access
from muster_submission.handlers.applications import Applications, Exchange
from muster_submission.handlers.bootstrap import ensure_first, read_first
from muster_submission.handlers.grants import Grants
from muster_submission.ports import Tenancy
from muster_submission.rest.parts import Gates
from muster_submission.rpc.access import AccessRoom
from muster_submission.rpc.tokens import TokenRoom
from muster_submission.settings import SubmissionSettings


class AccessParts:
    """Everything that decides about calls, wired."""

    def __init__(self, settings: SubmissionSettings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.books = PostgresAccess(database.pool)
        self.refusals = Refusals(database)
        self.access = Access(
            self.books,
            own_issuer=settings.auth_own_issuer,
            everyone_is_admin=settings.auth is AuthMode.OFF,
            note=self.refusals.note,
        )
        self.rules = PostgresRules(database.pool)
        self.application_books = PostgresApplications(database.pool)
        self.applications = Applications(self.application_books, self.books.stale)
        self.signing = PostgresSigning(database.pool, self.books.version)
        self.tokens = Tokens(settings.auth_own_issuer, self.signing)
        self.refreshing = PostgresRefreshTokens()
        self.exchange = Exchange(
            database, self.application_books, self.refreshing, self.tokens, settings.auth_own_issuer
        )
        self.authenticate = authenticator(settings, self.tokens.issuer)
        self.audit = PostgresAudit(database.pool)
        self.limiter = Limiter(dict(LIMITS) | settings.call_limits, self._privileged, shares=Shares())

    async def _privileged(self, kind: CallKind, who: Caller) -> bool:
        """Agents have no limit of their own, and the reserve is kept for administrators of the tenant."""
        rights = await self.access.rights(who)
        return rights.anywhere(Verb.AGENTS_CONNECT) if kind is CallKind.AGENT else rights.allows(Verb.ACCESS_WRITE)

    def grants(self, tenancy: Tenancy) -> Grants:
        """What gives and takes roles; it looks up the places that rules name."""
        return Grants(self.rules, self.application_books, tenancy, self.books.stale)

    def gates(self, grants: Grants) -> Gates:
        """What the REST routes need."""
        return Gates(
            grants=grants,
            rules=self.rules,
            applications=self.applications,
            application_books=self.application_books,
            exchange=self.exchange,
            signing=self.signing,
            audit=self.audit,
        )

    def services(self, grants: Grants) -> Sequence[Service]:
        """What is served."""
        room = AccessRoom(
            self.database, self.access, grants, self.rules, self.applications, self.application_books, self.audit
        )
        return [
            service(
                access_pb2.DESCRIPTOR.services_by_name["AccessService"],
                access_pb2_grpc.add_AccessServiceServicer_to_server,
                room,
            ),
            service(
                access_pb2.DESCRIPTOR.services_by_name["TokenService"],
                access_pb2_grpc.add_TokenServiceServicer_to_server,
                TokenRoom(self.exchange),
            ),
        ]

    async def begin(self, unit: Unit) -> None:
        """Makes the first key and the first applications. Raises ValueError and OSError for unusable files."""
        await self.signing.renew(unit)
        for path in self.settings.auth_first_applications:
            await ensure_first(unit, path.stem, read_first(path), self.application_books, self.rules)
        unit.after_commit(self.books.stale)

    async def renew(self) -> None:
        """Makes a new signing key when the newest is old. Called now and then."""
        async with self.database.unit() as unit:
            if await self.signing.renew(unit):
                unit.after_commit(self.books.stale)

    async def forget(self, at_most: int) -> bool:
        """Remove at most `at_most` refresh tokens that ended; return whether there may be more."""
        async with self.database.unit() as unit:
            return await self.refreshing.forget(unit, unit.now, at_most)
