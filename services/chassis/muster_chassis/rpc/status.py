"""Errors on the wire: google.rpc.Status with the details that programs need.

The interceptor turns what a method raised into a status; the client turns it back. What nobody expected becomes
INTERNAL with the trace to look for, and never shows its own text to a caller.
"""

from __future__ import annotations

from typing import Final

import asyncpg
import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from muster_chassis import tracing
from muster_chassis.database import OutcomeUnknown, transient
from muster_chassis.errors import DeadlineExceeded, InvalidArgument, ServiceError, Unavailable, Violation
from muster_chassis.events import Reject
from muster_chassis.lease import Deposed
from muster_chassis.text import clean

DOMAIN: Final = "muster"
_MESSAGE: Final = 8192  # metadata of an answer has room for little more


def as_service_error(error: BaseException) -> ServiceError | None:
    """What a caller may know about `error`; None where nobody expected it."""
    match error:
        case ServiceError():
            return error
        case TimeoutError() | asyncpg.QueryCanceledError():
            return DeadlineExceeded("the answer took longer than the deadline of this call allows")
        case OutcomeUnknown():
            return Unavailable(
                "it is not known whether this was done; repeat the call with the same idempotency key", retry_after=1.0
            )
        case Deposed():
            return Unavailable("this instance no longer leads; repeat the call", retry_after=1.0)
        case Reject():
            return InvalidArgument(error.reason)
        case _ if transient(error) or isinstance(error, OSError):
            return Unavailable("the service's database does not answer; repeat the call", retry_after=1.0)
        case _:
            return None


def status_of(error: ServiceError) -> Status:
    """The status with its details: ErrorInfo always, BadRequest and RetryInfo where they say something."""
    details: list[Message] = [ErrorInfo(reason=error.error_reason, domain=DOMAIN, metadata=error.metadata)]
    if error.violations:
        violations = [
            BadRequest.FieldViolation(field=clean(one.field, 200), description=clean(one.description, 1000))
            for one in error.violations[:100]
        ]
        details.append(BadRequest(field_violations=violations))
    if error.retry_after is not None:
        delay = Duration()
        delay.FromMilliseconds(int(error.retry_after * 1000))
        details.append(RetryInfo(retry_delay=delay))
    details.extend(error.details)
    status = Status(code=int(error.code.value[0]), message=clean(error.message, _MESSAGE))
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def passed_on(service: str, error: grpc.aio.AioRpcError) -> ServiceError:
    """What a caller is told when another service of ours answered our own call with `error`.

    A refusal keeps its code, words and details. A service that does not answer is named, in words and in the
    metadata of ErrorInfo, so that the caller knows which one is down.
    """
    code = error.code()
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
        kind = DeadlineExceeded if code is grpc.StatusCode.DEADLINE_EXCEEDED else Unavailable
        return kind(
            f"{service} does not answer; repeat the call with the same idempotency key",
            metadata={"service": service},
            retry_after=1.0,
        )
    known = next((kind for kind in ServiceError.__subclasses__() if kind.code is code), None)
    if known is None:
        return Unavailable(f"{service} failed: {error.details()}", metadata={"service": service})
    return _with_details(known(error.details() or f"{service} refused"), error)


def _with_details(answer: ServiceError, error: grpc.aio.AioRpcError) -> ServiceError:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            _read_details(answer, Status.FromString(value))
    return answer


def _read_details(answer: ServiceError, status: Status) -> None:
    info, bad, retry = ErrorInfo(), BadRequest(), RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            answer.error_reason, answer.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad):
            answer.violations = tuple(Violation(one.field, one.description) for one in bad.field_violations)
        elif detail.Unpack(retry):
            answer.retry_after = retry.retry_delay.ToMilliseconds() / 1000


def internal(traceparent: str) -> Status:
    """What nobody expected: the trace leads to the log line with the rest."""
    trace = tracing.trace_id(traceparent)
    info = AnyMessage()
    info.Pack(ErrorInfo(reason="INTERNAL", domain=DOMAIN, metadata={"trace": trace}))
    return Status(
        code=int(grpc.StatusCode.INTERNAL.value[0]),
        message=f"an unexpected error; the service's log has it under trace {trace}",
        details=[info],
    )
