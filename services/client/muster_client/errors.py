"""What can go wrong for a caller, and how an answer of the control plane becomes one of these.

    MusterError
      InvalidInput        INVALID_ARGUMENT     can never work as it is; `violations` names every field
      Unauthenticated     UNAUTHENTICATED      no token, or one that does not verify
      NotAllowed          PERMISSION_DENIED    known, and not allowed
      NotFound            NOT_FOUND
      AlreadyExists       ALREADY_EXISTS       the name is taken
      NotNow              FAILED_PRECONDITION  the state does not allow it, OUT_OF_RANGE
        CursorTooOld      a watch has to begin anew
      LimitReached        RESOURCE_EXHAUSTED   a rate or a queue is full; `retry_after` says when to try again
      Conflict            ABORTED              somebody else was first
      Unavailable         UNAVAILABLE          nobody answers; `service` names who
        TimedOut          DEADLINE_EXCEEDED    no answer in time
      NotOffered          UNIMPLEMENTED        the other side does not know this call
      Broken              every other code     a fault of the control plane
      WaitTimedOut        not an answer: a workload did not get there within the time given to `wait`

Called by the call layer with every `grpc.aio.AioRpcError`; the command line turns them into exit codes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from muster.api.v1 import workloads_pb2

STATUS_METADATA: Final = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """One wrong field.

    `path` is as the user wrote it; `line` and `column` count from 1, 0 where there is no document. `file`: of the
    document, where a call is about several files.
    """

    path: str
    message: str
    line: int = 0
    column: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class Detail:
    """What an answer says beside its code and its sentence. `retry_after` is in seconds."""

    violations: tuple[Violation, ...] = ()
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None


class MusterError(Exception):
    """The root. Its text is for people: what is wrong, what was given, what is allowed, what to do next."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, *, detail: Detail | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail or Detail()
        self.source = ""
        """The file that it is about, where the command line read one."""

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Every field that is wrong, in the order of the document."""
        return self.detail.violations

    @property
    def retry_after(self) -> float | None:
        """Seconds after which trying again makes sense, where the control plane said so."""
        return self.detail.retry_after


class InvalidInput(MusterError):
    """It can never work as it is."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class Unauthenticated(MusterError):
    """The control plane does not know who calls."""

    code = grpc.StatusCode.UNAUTHENTICATED


class NotAllowed(MusterError):
    """The caller is known and may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class NotFound(MusterError):
    """What was named does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(MusterError):
    """What was to be made is there already."""

    code = grpc.StatusCode.ALREADY_EXISTS


class NotNow(MusterError):
    """The state of things does not allow it."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class CursorTooOld(NotNow):
    """A watch cannot go on from here: list again."""


class LimitReached(MusterError):
    """A rate, a queue or a size is at its limit."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Conflict(MusterError):
    """Somebody else was first."""

    code = grpc.StatusCode.ABORTED


class Unavailable(MusterError):
    """Nobody answers now; the same call may work later."""

    code = grpc.StatusCode.UNAVAILABLE

    @property
    def service(self) -> str:
        """Which service does not answer; empty: the control plane itself."""
        return self.detail.metadata.get("service", "")


class TimedOut(Unavailable):
    """No answer came in time; whether it was done is not known until the same call is made again."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class NotOffered(MusterError):
    """The other side does not know this call."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Broken(MusterError):
    """A fault of the control plane."""

    code = grpc.StatusCode.INTERNAL


class WaitTimedOut(MusterError, TimeoutError):
    """A workload did not reach the phase that was waited for. `phase` is the one it was last seen in."""

    def __init__(self, message: str, *, phase: str) -> None:
        super().__init__(message)
        self.phase = phase


_KINDS: Final[tuple[type[MusterError], ...]] = (
    InvalidInput,
    Unauthenticated,
    NotAllowed,
    NotFound,
    AlreadyExists,
    NotNow,
    LimitReached,
    Conflict,
    Unavailable,
    TimedOut,
    NotOffered,
)
_BY_CODE: Final = {kind.code: kind for kind in _KINDS} | {grpc.StatusCode.OUT_OF_RANGE: NotNow}

# Tried again with the same idempotency key, so that what has worked already is answered and not done twice.
TRANSIENT: Final = (Unavailable, LimitReached)


def error_of(problem: grpc.aio.AioRpcError) -> MusterError:
    """The error that an answer of the control plane stands for."""
    detail = _detail(_status(problem))
    kind = _BY_CODE.get(problem.code(), Broken)
    if kind is NotNow and "CURSOR" in detail.reason:
        kind = CursorTooOld
    return kind(problem.details() or problem.code().name, detail=detail)


def error_of_code(code: int, message: str, violations: Iterable[Violation] = ()) -> MusterError:
    """The error of one item in a bulk answer, where the gRPC code is a number."""
    found = next((status for status in grpc.StatusCode if status.value[0] == code), grpc.StatusCode.UNKNOWN)
    return _BY_CODE.get(found, Broken)(message, detail=Detail(violations=tuple(violations)))


def _status(problem: grpc.aio.AioRpcError) -> status_pb2.Status:
    status = status_pb2.Status()
    for key, value in problem.trailing_metadata() or ():
        if key == STATUS_METADATA and isinstance(value, bytes):
            try:
                status.ParseFromString(value)
            except DecodeError:  # a proxy between us and the control plane may put anything here; the code still counts
                return status_pb2.Status()
    return status


def _detail(status: status_pb2.Status) -> Detail:
    plain: list[Violation] = []
    located: list[Violation] = []
    reason, metadata, retry_after = "", dict[str, str](), None
    bad, info, retry = error_details_pb2.BadRequest(), error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    exact = workloads_pb2.Violation()
    for packed in status.details:
        if packed.Unpack(bad):
            plain += [Violation(each.field, each.description) for each in bad.field_violations]
        elif packed.Unpack(exact):
            located.append(violation_of(exact))
        elif packed.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif packed.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return Detail(tuple(located or plain), reason, metadata, retry_after)


def violation_of(message: workloads_pb2.Violation) -> Violation:
    """A violation as the API spells it."""
    return Violation(message.path, message.message, message.line, message.column)
