"""How many calls may be under way: for each kind of call, in all and for each caller, with a reserve.

The interceptor asks before a call's request is decoded, REST's edge before its handler runs. Streams are counted apart
from calls that answer once, and agents apart from everyone, so that a thousand watches of one caller keep no other from
asking, and no caller keeps agents out. Where a kind is nearly full, only callers with privileges get what is left.
Holds: who has no token to be told apart by (the open stack) is counted by connection; what was admitted is given back
exactly once. A call waits only for its caller's fair share of the loop (`shares.py`), and is counted meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeVar

import grpc

from muster_chassis import metrics
from muster_chassis.errors import ResourceExhausted
from muster_chassis.rpc.caller import LOCAL, NOBODY, Caller
from muster_chassis.rpc.shares import Meter, Shares, metered
from muster_chassis.rpc.status import as_service_error
from muster_chassis.settings import CallKind, CallLimit

T = TypeVar("T")
_SHARED: Final = frozenset({CallKind.UNARY, CallKind.REST})
_OWN_FAULT: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED})

UNDER_WAY: Final = metrics.gauge(
    "muster_calls_under_way",
    unit="calls",
    meaning="Calls under way, by kind.",
    action="Near the limit of its kind: the log's refusals name who has how many; raise MUSTER_CALL_LIMITS.",
    labels=("kind",),
)
OVER: Final = metrics.counter(
    "muster_calls_over_limit_total",
    unit="calls",
    meaning="Calls refused because too many of their kind were under way, for the caller or in all.",
    action="limit=caller: one caller opens too many at once; limit=all: the instance is full, add one.",
    labels=("kind", "limit"),
)


LIMITS: Final[Mapping[CallKind, CallLimit]] = MappingProxyType(
    {
        CallKind.UNARY: CallLimit(most=1000, caller=500, reserve=100),
        CallKind.WATCH: CallLimit(most=1000, caller=100, reserve=100),
        CallKind.LOG: CallLimit(most=500, caller=50, reserve=50),
        CallKind.AGENT: CallLimit(most=2000, caller=20),
        CallKind.OPEN: CallLimit(most=200, caller=20),
        CallKind.OPEN_STREAM: CallLimit(most=50, caller=5),
        CallKind.REST: CallLimit(most=1000, caller=500, reserve=100),
    }
)
"""Of a service that people call."""
INTERNAL: Final[Mapping[CallKind, CallLimit]] = MappingProxyType(
    {
        kind: limit if kind in (CallKind.OPEN, CallKind.OPEN_STREAM) else CallLimit(most=limit.most)
        for kind, limit in LIMITS.items()
    }
)
"""Of a service that only other services call, each for many callers of its own."""

Privileged = Callable[[CallKind, Caller], Awaitable[bool]]
"""Whether a caller may use the reserve of a kind; of agents: whether no limit of its own applies."""


async def nobody_is_privileged(_kind: CallKind, _who: Caller) -> bool:
    """Where there are no roles."""
    return False


class Limiter:
    """Counts the calls of one process. shares: of the loop; None where each caller calls for many others."""

    def __init__(
        self,
        limits: Mapping[CallKind, CallLimit] = LIMITS,
        privileged: Privileged = nobody_is_privileged,
        *,
        shares: Shares | None = None,
    ) -> None:
        self._limits = limits
        self._privileged = privileged
        self._shares = shares
        self._in_all: Counter[CallKind] = Counter()
        self._of_caller: Counter[tuple[CallKind, str]] = Counter()

    @property
    def most(self) -> int:
        """Calls of all kinds at most."""
        return sum(limit.most for limit in self._limits.values())

    @asynccontextmanager
    async def admitted(self, kind: CallKind, who: Caller, connection: str = "") -> AsyncIterator[None]:
        """Counts a call of `who` for the length of the block. Raises ResourceExhausted.

        connection: by which a caller is counted whom no token tells apart; the caller's peer where it is left out.
        """
        key = (kind, counted_as(who, connection))
        await self._check(kind, who, key)
        self._change(kind, key, 1)
        try:
            yield
        finally:
            self._change(kind, key, -1)

    async def served(self, kind: CallKind, who: Caller, work: Coroutine[Any, Any, T], connection: str = "") -> T:
        """The result of an admitted call, begun in its caller's turn and charged to it."""
        if self._shares is None or kind not in _SHARED:
            return await work
        name, meter = counted_as(who, connection), Meter()
        try:
            charged = await self._shares.turn(name)
        except BaseException:
            work.close()
            raise
        try:
            return await metered(work, meter)
        except Exception as error:
            known = as_service_error(error)
            meter.refused = known is not None and known.code in _OWN_FAULT
            raise
        finally:
            self._shares.charge(name, charged, meter)

    async def _check(self, kind: CallKind, who: Caller, key: tuple[CallKind, str]) -> None:
        limit, free = self._limits[kind], self._limits[kind].most - self._in_all[kind]
        held = self._of_caller[key]
        over = bool(limit.caller) and held >= limit.caller
        if not over and free > limit.reserve:
            return
        privileged = await self._privileged(kind, who)
        # What was free before the question may be taken after it.
        free = limit.most - self._in_all[kind]
        if over and not (privileged and kind is CallKind.AGENT):
            raise self._refused(kind, "caller", limit.caller, f"{key[1]} has {held} of them")
        if free <= (0 if privileged else limit.reserve):
            reserve = f", {limit.reserve} of them kept for administrators" if limit.reserve else ""
            raise self._refused(kind, "all", limit.most, f"all callers together have {limit.most - free}{reserve}")

    def _refused(self, kind: CallKind, which: str, value: int, told: str) -> ResourceExhausted:
        OVER.labels(kind, which).inc()
        whose = "of one caller" if which == "caller" else "in all"
        return ResourceExhausted(
            f"too many calls of the kind {kind} are under way: at most {value} {whose}, and {told}; end some, or call "
            "again later",
            reason="TOO_MANY_CALLS",
            metadata={"kind": kind, "limit": which, "most": str(value)},
            retry_after=1.0,
        )

    def _change(self, kind: CallKind, key: tuple[CallKind, str], by: int) -> None:
        self._in_all[kind] += by
        self._of_caller[key] += by
        if not self._of_caller[key]:
            del self._of_caller[key]
        UNDER_WAY.labels(kind).set(self._in_all[kind])


def counted_as(who: Caller, connection: str = "") -> str:
    """What a caller is counted by, and called in a refusal."""
    if who in (LOCAL, NOBODY):
        return f"the connection {connection or who.peer}"
    return f"{who.subject} of {who.issuer}" if who.issuer else who.subject
