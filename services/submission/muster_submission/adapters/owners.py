"""Asking the service that owns an answer, with a deadline below the caller's; one that is silent is named.

Called by the rpc files that pass questions on. Where a service has two addresses (a leader and its standby), the one
that answered last is asked first, and whoever says UNAVAILABLE is followed by the other.
Holds: an error of the owner reaches the caller as it was, details included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from muster_chassis import errors, logs
from muster_chassis.errors import ServiceError, Violation
from muster_chassis.rpc import ServiceIdentity, channel, outgoing, remaining
from muster_submission.errors import OwnerSilent

_log = logs.get(__name__)
_LONGEST: Final = 25.0  # seconds for one question: to register a cluster is to create topics
_LEAST: Final = 0.05
_DETAILS: Final = "grpc-status-details-bin"
_CODES: Final[dict[grpc.StatusCode, type[ServiceError]]] = {
    one.code: one
    for one in (
        errors.InvalidArgument,
        errors.NotFound,
        errors.AlreadyExists,
        errors.FailedPrecondition,
        errors.ResourceExhausted,
        errors.Aborted,
        errors.Unimplemented,
        errors.Unauthenticated,
        errors.PermissionDenied,
        errors.DeadlineExceeded,
    )
}
_SILENT: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_REFUSED: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)

Answer = TypeVar("Answer", bound=Message)
Stub = Callable[[grpc.aio.Channel], Any]


class Owner:
    """One service behind this one."""

    def __init__(self, name: str, where: Sequence[str], identity: ServiceIdentity) -> None:
        """identity: shown with each call; the service behind judges us, and we judge the caller."""
        self.name = name
        self._identity = identity
        self.where = tuple(where)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._first = 0

    async def ask(self, stub: Stub, method: str, request: Message, answer: type[Answer], context: Any) -> Answer:
        """The owner's answer. Raises OwnerSilent, or the owner's own error."""
        if not self.where:
            raise OwnerSilent(self.name, ["no address"], f"MUSTER_{self.name.upper()}_ADDRESS is not set")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + remaining(context, _LONGEST)
        last = "no answer in time"
        for turn in range(len(self.where)):
            at = (self._first + turn) % len(self.where)
            # The last one may take all that is left; before it, half is kept for those that follow.
            share = 1.0 if turn == len(self.where) - 1 else 0.5
            seconds = max(_LEAST, (deadline - loop.time()) * share)
            try:
                found = await self._call(self.where[at], stub, method, request, seconds)
            except grpc.aio.AioRpcError as error:
                if error.code() in _REFUSED:
                    # Of us, not of the caller: who may ask what was judged before the call.
                    _log.error(
                        "a service refuses our identity", service=self.name, where=self.where[at], why=error.details()
                    )
                    last = f"it refuses this service's identity ({error.details()}); `muster keys list` shows the keys"
                    continue
                if error.code() not in _SILENT:
                    self._first = at
                    raise as_it_was(error) from error
                last = f"{error.code().name}: {error.details() or 'no reason given'}"
                continue
            self._first = at
            return cast("Answer", found)  # the generated stub answers with its own type
        _log.warning("a service does not answer", service=self.name, where=self.where, why=last)
        raise OwnerSilent(self.name, self.where, last)

    def at(self, address: str) -> Owner:
        """The same service at one address alone."""
        return Owner(self.name, [address], self._identity)

    async def close(self) -> None:
        """Closes the channels."""
        for one in self._channels.values():
            await one.close()

    async def _call(self, address: str, stub: Stub, method: str, request: Message, seconds: float) -> Message:
        if address not in self._channels:
            self._channels[address] = channel(address)
        behaviour = getattr(stub(self._channels[address]), method)
        answer: Message = await behaviour(
            request, timeout=seconds, metadata=[*outgoing(), *self._identity.metadata(self.name)]
        )
        return answer


def as_it_was(error: grpc.aio.AioRpcError) -> ServiceError:
    """The error of a call that was made in turn, for the caller."""
    made = _CODES.get(error.code(), errors.Unavailable)
    reason, metadata, found = None, {}, list[Violation]()
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS or not isinstance(value, bytes):
            continue
        for packed in Status.FromString(value).details:
            info, bad = ErrorInfo(), BadRequest()
            if packed.Unpack(info):
                reason, metadata = info.reason, dict(info.metadata)
            elif packed.Unpack(bad):
                found = [Violation(one.field, one.description) for one in bad.field_violations]
    return made(error.details() or error.code().name, reason=reason, metadata=metadata, violations=found)
