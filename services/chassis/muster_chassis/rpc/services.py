"""Calls between services: who calls is shown by a short token that the caller signs with its own key.

Called by the composition roots of the services behind submission (`ServiceGate`), and by submission for its calls
(`ServiceIdentity`). Holds: a token is for one service and counts for a minute; a key speaks for the one service that
the trust file gives it to; a method that CALLERS does not list has no caller; every refusal is logged, counted and
kept for the audit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import jwt

from muster_chassis import logs, metrics
from muster_chassis.errors import PermissionDenied, ServiceError
from muster_chassis.key_files import PrivateKey, Purpose, TrustFile
from muster_chassis.rpc.auth import Issuer, TokenAuthenticator
from muster_chassis.rpc.caller import Caller
from muster_chassis.rpc.refused_calls import OTHER, RefusedCalls

_log = logs.get(__name__)
_ALGORITHM: Final = "EdDSA"
_SECONDS: Final = 60.0
_RENEWED: Final = 30.0  # seconds for which a token is sent again before a new one is made
_LOGGED: Final = 100  # refusals a minute that get a line each; the rest are counted
_MINUTE: Final = 60.0
_CALLER: Final = "caller"  # the member of a refusal's metadata that names the calling service

REFUSED = metrics.counter(
    "muster_refused_calls_total",
    unit="calls",
    meaning="Calls to this service without the identity of a service that may make them, by method.",
    action="Not 0: the log names the address. A local process tries the services behind submission, or keys differ.",
    labels=("method",),
)


class ServiceName(StrEnum):
    """The services that have an identity."""

    SUBMISSION = "submission"
    POLICY = "policy"
    SCHEDULER = "scheduler"
    TELEMETRY = "telemetry"


_BY_SUBMISSION: Final = frozenset({ServiceName.SUBMISSION})
_METHODS: Final = {
    "ExplainService": ("WhatIf", "Why"),
    "FleetService": (
        "AdoptCluster",
        "ForceGoneNode",
        "LeaveCluster",
        "ListAccounts",
        "ListClusters",
        "ListNodes",
        "ListQuarantine",
        "OrderNode",
        "RegisterCluster",
        "ReleaseQuarantine",
        "SetNodeLayout",
    ),
    "PoliciesService": (
        "ApplyPolicies",
        "DeletePolicy",
        "GetEffectivePolicy",
        "GetPolicy",
        "JudgeWorkloads",
        "ListPolicies",
        "ListPolicyVersions",
        "RollbackPolicy",
    ),
    "RefusedCallsService": ("TakeRefusedCalls",),
    "DeadLettersService": (
        "DiscardDeadLetters",
        "ListDeadLetters",
        "ListGaps",
        "RedriveDeadLetters",
        "Republish",
        "ResumeConsumer",
    ),
}
CALLERS: Final[Mapping[str, frozenset[ServiceName]]] = {
    f"/muster.api.v1.{service}/{method}": _BY_SUBMISSION for service, methods in _METHODS.items() for method in methods
}
"""Who may call each method of the services behind submission. People and agents call submission alone."""


class ServiceIdentity:
    """What a service shows when it calls another one."""

    def __init__(self, name: ServiceName, key: PrivateKey, clock: Callable[[], float] = time.time) -> None:
        self._name = name
        self._key = key
        self._clock = clock
        self._made: dict[str, tuple[str, str, float]] = {}  # by audience: key's id, token, until when it is sent

    def metadata(self, audience: str) -> list[tuple[str, str]]:
        """The metadata of a call to the service of that name."""
        return [("authorization", f"Bearer {self._token(audience)}")]

    def _token(self, audience: str) -> str:
        key, now = self._key.get(), self._clock()
        made = self._made.get(audience)
        if made is not None and made[0] == key.kid and now < made[2]:
            return made[1]
        claims = {
            "iss": _issuer(self._name),
            "sub": self._name.value,
            "aud": _audience(audience),
            "iat": int(now),
            "exp": int(now + _SECONDS),
        }
        token = jwt.encode(claims, key.private, algorithm=_ALGORITHM, headers={"kid": key.kid})
        self._made[audience] = key.kid, token, now + _RENEWED
        return token


@dataclass(frozen=True, slots=True)
class _KeysOf:
    """The keys of one service in the trust file."""

    trust: TrustFile
    service: str

    async def find(self, kid: str | None) -> Any | None:
        return self.trust.find(self.service, Purpose.CALLS, kid)


class ServiceGate:
    """Judges calls to one service: the authenticator and the table of callers."""

    def __init__(
        self,
        name: ServiceName,
        trust: TrustFile,
        callers: Mapping[str, frozenset[ServiceName]] = CALLERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._callers = callers
        self._clock = clock
        self._until, self._lines = 0.0, 0
        self.refused_calls = RefusedCalls()
        """What submission asks for, to write it into the audit."""
        self.authenticate = TokenAuthenticator(
            [Issuer(_issuer(of), _audience(name), (_ALGORITHM,), _KeysOf(trust, of)) for of in ServiceName],
            clock=clock,
        )
        """Says which service calls."""

    def check(self, methods: Iterable[str]) -> None:
        """Raises ValueError for methods that the table does not list: no service could call them."""
        missing = sorted(set(methods) - set(self._callers))
        if missing:
            raise ValueError(f"no caller is listed for {', '.join(missing)}: add them to CALLERS")

    def admit(self, method: str, who: Caller) -> None:
        """Raises PermissionDenied where that service may not call the method."""
        allowed = self._callers.get(method, frozenset())
        if who.subject not in allowed:
            raise PermissionDenied(
                f"{method} of {self._name} is called by {' or '.join(sorted(allowed)) or 'nobody'}, not by "
                f"{who.subject}; people and agents call submission",
                metadata={_CALLER: who.subject},
            )

    def refused(self, method: str, peer: str, error: ServiceError) -> None:
        """Note a refused call: the counter, the ledger for the audit, and up to a bound a line of the log."""
        known = method if method in self._callers else OTHER
        REFUSED.labels(known).inc()
        self.refused_calls.note(known, error.metadata.get(_CALLER, ""), peer, error.error_reason)
        now = self._clock()
        if now >= self._until:
            self._until, self._lines = now + _MINUTE, 0
        self._lines += 1
        if self._lines <= _LOGGED:
            _log.warning(
                "a call was refused",
                audit=True,
                method=method,
                peer=peer,
                outcome=error.error_reason,
                why=error.message,
            )


def _issuer(service: str) -> str:
    return f"muster/service/{service}"


def _audience(service: str) -> str:
    return f"muster/service/{service}"
