"""The calls that this service refused, counted by caller until submission writes them into the audit.

Written by the gate (`services.py`), read by submission over gRPC. Holds: however many calls are refused, a batch has at
most `MOST` entries and there is at most one batch a minute, so that no caller can fill the audit or this memory.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from muster.api.v1 import refused_calls_pb2 as pb
from muster.api.v1 import refused_calls_pb2_grpc

MOST: Final = 100
"""Entries of a batch with an address of their own; further addresses are counted together."""
OTHER: Final = "other"
_MINUTE: Final = 60.0
_Key = tuple[str, str, str, str]


class RefusedCalls:
    """The ledger of one process. Times are seconds of the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock()
        self._counts: dict[_Key, int] = {}
        self._sent = pb.TakeRefusedCallsResponse()

    def note(self, method: str, caller: str, peer: str, reason: str) -> None:
        """Count one refused call. Neither waits nor fails."""
        key = (method, caller, _host(peer), reason)
        if key not in self._counts and len(self._counts) >= MOST:
            # Of methods, callers and reasons there are few: the table of callers, the services, the codes.
            key = (method, caller, OTHER, reason)
        self._counts[key] = self._counts.get(key, 0) + 1

    def take(self, acknowledged: str) -> pb.TakeRefusedCallsResponse:
        """Return the batch that is not acknowledged yet, or a new one where the minute of the last is over."""
        if self._sent.batch and self._sent.batch != acknowledged:
            return self._sent
        self._sent = pb.TakeRefusedCallsResponse()
        if self._counts and self._clock() >= self._next:
            self._next = self._clock() + _MINUTE
            counts, self._counts = self._counts, {}
            self._sent = pb.TakeRefusedCallsResponse(batch=str(uuid.uuid4()), calls=map(_entry, counts.items()))
        return self._sent


class RefusedCallsServicer(refused_calls_pb2_grpc.RefusedCallsServiceServicer):
    """Serves the ledger."""

    def __init__(self, ledger: RefusedCalls) -> None:
        self._ledger = ledger

    async def TakeRefusedCalls(self, request: pb.TakeRefusedCallsRequest, context: Any) -> pb.TakeRefusedCallsResponse:
        """Return a batch."""
        return self._ledger.take(request.acknowledged)


def _entry(counted: tuple[_Key, int]) -> pb.RefusedCalls:
    (method, caller, address, reason), count = counted
    return pb.RefusedCalls(method=method, caller=caller, address=address, reason=reason, count=count)


def _host(peer: str) -> str:
    """The peer of a call without its port, which differs with each connection: `ipv4:127.0.0.1`."""
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer
