"""Tokens: a JWT of a known issuer, with everything that can be checked checked.

Called at the edge of every channel for each call. Holds: which key, which algorithms and which audience a token must
have follows from its issuer and our settings; nothing in the token chooses them, so a public key cannot be passed off
as an HMAC secret and an issuer cannot sign for another.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import jwt

from muster_chassis import metrics
from muster_chassis.errors import Unauthenticated
from muster_chassis.rpc.caller import LOCAL, Caller
from muster_chassis.rpc.keys import FetchedKeys, Keys, OneKey
from muster_chassis.settings import AuthMode, IssuerSettings, RpcSettings

CREDENTIAL: Final = "credential"
"""The claim with the version of an application's secret, in tokens of our own."""
_LEEWAY: Final = 30.0  # seconds by which clocks may differ
_LONGEST: Final = 16 << 10
_MOST_REMEMBERED: Final = 10_000
_REMEMBERED_SECONDS: Final = 60.0  # for which a verified token is not verified again: a key that went counts no longer
_LONGEST_NAME: Final = 500
_MOST_GROUPS: Final = 500

REFUSED = metrics.counter(
    "muster_unauthenticated_total",
    unit="calls",
    meaning="Calls without a token, or with one that does not hold.",
    action="Goes on: somebody's token has ended or their clock is off; many at once: somebody is trying.",
)

Authenticator = Callable[[str | None], Awaitable[Caller]]
"""Says who calls, from the header or metadata `authorization`. Raises Unauthenticated, and Unavailable while an
issuer's keys cannot be had."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """Someone whose tokens count, and what they must look like."""

    name: str
    audience: str
    algorithms: tuple[str, ...]
    keys: Keys
    groups_claim: str = ""
    """The claim with the groups of the subject; empty: its tokens give none."""
    applications: bool = False
    """Its subjects are applications of ours, whose tokens say with which secret they were made."""


async def everyone_is_local(_authorization: str | None) -> Caller:
    """Authentication switched off: the embedded stack on the loopback."""
    return LOCAL


class TokenAuthenticator:
    """Verifies signature, issuer, audience and times."""

    def __init__(
        self, issuers: Iterable[Issuer], *, required: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        """required: whether a call without a token is refused; one that has a token is verified in any case.

        clock: seconds since 1970, by which what was verified is remembered.

        Raises ValueError for two issuers of one name.
        """
        listed = list(issuers)
        self._issuers = {issuer.name: issuer for issuer in listed}
        if len(self._issuers) < len(listed):
            # One of them would sign for the other.
            raise ValueError(f"two issuers have one name: {sorted(issuer.name for issuer in listed)}")
        self._required = required
        self._clock = clock
        self._seen: dict[bytes, tuple[Caller, float]] = {}

    async def __call__(self, authorization: str | None) -> Caller:
        """The token's subject and groups."""
        try:
            return await self._judged(authorization)
        except Unauthenticated:
            REFUSED.inc()
            raise

    async def _judged(self, authorization: str | None) -> Caller:
        if not authorization and not self._required:
            return LOCAL
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated("this call needs 'authorization: Bearer TOKEN'; `muster` takes it from MUSTER_TOKEN")
        if len(token) > _LONGEST:
            raise Unauthenticated(f"the token is not accepted: it is longer than {_LONGEST} characters")
        # Half a millisecond of arithmetic for each call of a program that makes hundreds a second.
        digest, now = hashlib.sha256(token.encode(errors="replace")).digest(), self._clock()
        known = self._seen.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        try:
            who, ends = await self._verify(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise Unauthenticated(f"the token is not accepted: {error}") from error
        self._remember(digest, who, min(ends, now + _REMEMBERED_SECONDS))
        return who

    def _remember(self, digest: bytes, who: Caller, until: float) -> None:
        self._seen.pop(digest, None)
        self._seen[digest] = (who, until)
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]

    async def _verify(self, token: str) -> tuple[Caller, float]:
        """Who calls, and when the token ends."""
        header = jwt.get_unverified_header(token)
        issuer = self._issuer(token)
        if header.get("alg") not in issuer.algorithms:
            raise Unauthenticated(f"the token is not accepted: {issuer.name} signs with {', '.join(issuer.algorithms)}")
        if "crit" in header:
            raise Unauthenticated("the token is not accepted: it has critical extensions, and none is known here")
        key = await issuer.keys.find(header.get("kid"))
        if key is None:
            raise Unauthenticated("the token is not accepted: its issuer has no such key")
        claims = jwt.decode(
            token,
            key,
            algorithms=list(issuer.algorithms),
            issuer=issuer.name,
            audience=issuer.audience,
            leeway=_LEEWAY,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        return _caller(issuer, claims), float(claims["exp"])

    def _issuer(self, token: str) -> Issuer:
        """Whose token it says it is; the signature then has to be that issuer's."""
        claims = jwt.decode(token, options={"verify_signature": False})
        name = claims.get("iss")
        known = self._issuers.get(name) if isinstance(name, str) else None
        if known is None:
            raise Unauthenticated("Issuer is not familiar.")
        return known


def authenticator(settings: RpcSettings, *own: Issuer) -> Authenticator:
    """What the settings ask for, and issuers of the service's own. Raises ValueError and OSError for unusable keys."""
    required = settings.auth is AuthMode.JWT
    issuers = [*own, *(_issuer(one) for one in settings.auth_issuers)]
    if not issuers and not required:
        return everyone_is_local
    return TokenAuthenticator(issuers, required=required)


def _issuer(settings: IssuerSettings) -> Issuer:
    keys: Keys = FetchedKeys(settings.jwks_url) if settings.jwks_url else OneKey(settings.key())
    return Issuer(settings.issuer, settings.audience, tuple(settings.algorithms), keys, settings.groups_claim)


def _caller(issuer: Issuer, claims: dict[str, Any]) -> Caller:
    subject = claims["sub"]
    if not isinstance(subject, str) or not 1 <= len(subject) <= _LONGEST_NAME or "\x00" in subject:
        raise Unauthenticated(f"the token is not accepted: its subject is no text of 1 to {_LONGEST_NAME} characters")
    credential = claims.get(CREDENTIAL) if issuer.applications else None
    if issuer.applications and (isinstance(credential, bool) or not isinstance(credential, int)):
        raise Unauthenticated("the token is not accepted: it does not say with which secret it was made")
    groups = _groups(claims.get(issuer.groups_claim)) if issuer.groups_claim else ()
    return Caller(subject, groups, issuer.name, credential)


def _groups(claim: Any) -> tuple[str, ...]:
    if not isinstance(claim, list):
        return ()
    named = [one for one in claim if isinstance(one, str) and 1 <= len(one) <= _LONGEST_NAME and "\x00" not in one]
    return tuple(sorted(set(named))[:_MOST_GROUPS])
