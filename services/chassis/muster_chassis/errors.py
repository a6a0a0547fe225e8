"""What can go wrong in a service, and which gRPC code each becomes.

    ServiceError
      InvalidArgument      INVALID_ARGUMENT     the request can never work; names every field
      Unauthenticated      UNAUTHENTICATED      no token, or one that does not verify
      PermissionDenied     PERMISSION_DENIED    known, and not allowed
      NotFound             NOT_FOUND
      AlreadyExists        ALREADY_EXISTS
      FailedPrecondition   FAILED_PRECONDITION  the phase does not allow it
      ResourceExhausted    RESOURCE_EXHAUSTED   a limit; says when to try again
      Aborted              ABORTED              stale epoch or version
      Unavailable          UNAVAILABLE          try again with the same idempotency key
      DeadlineExceeded     DEADLINE_EXCEEDED
      Unimplemented        UNIMPLEMENTED

Services derive their own trees from these. A message says what is wrong, where, what was given, what is allowed and
what to do next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import grpc
from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that is wrong: its path as the caller wrote it, and what is allowed there."""

    field: str
    description: str


class ServiceError(Exception):
    """An answer to a caller that is not a success. `reason` is UPPER_SNAKE for programs, the message is for people."""

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN
    reason: ClassVar[str] = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        violations: Sequence[Violation] = (),
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
        details: Sequence[Message] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_reason = reason or self.reason
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})
        self.details = tuple(details)
        """Further details for programs, packed into the status as they are."""
        self.retry_after = retry_after
        """Seconds after which trying again makes sense; None where it never does or is up to the caller."""


class InvalidArgument(ServiceError):
    """The request can never work as it is."""

    code = grpc.StatusCode.INVALID_ARGUMENT
    reason = "INVALID_ARGUMENT"


class Unauthenticated(ServiceError):
    """Nobody knows who calls."""

    code = grpc.StatusCode.UNAUTHENTICATED
    reason = "UNAUTHENTICATED"


class PermissionDenied(ServiceError):
    """The caller is known and may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED
    reason = "PERMISSION_DENIED"


class NotFound(ServiceError):
    """What was named does not exist."""

    code = grpc.StatusCode.NOT_FOUND
    reason = "NOT_FOUND"


class AlreadyExists(ServiceError):
    """What was to be made is there already."""

    code = grpc.StatusCode.ALREADY_EXISTS
    reason = "ALREADY_EXISTS"


class FailedPrecondition(ServiceError):
    """The state does not allow it now."""

    code = grpc.StatusCode.FAILED_PRECONDITION
    reason = "FAILED_PRECONDITION"


class ResourceExhausted(ServiceError):
    """A rate, a queue or a size is at its limit."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    reason = "RESOURCE_EXHAUSTED"


class Aborted(ServiceError):
    """Someone else was first: a stale epoch or version."""

    code = grpc.StatusCode.ABORTED
    reason = "ABORTED"


class Unavailable(ServiceError):
    """Something behind the service does not answer; the same call may work later."""

    code = grpc.StatusCode.UNAVAILABLE
    reason = "UNAVAILABLE"


class DeadlineExceeded(ServiceError):
    """The caller's time, or the longest that the server allows, is over."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED
    reason = "DEADLINE_EXCEEDED"


class Unimplemented(ServiceError):
    """The server knows the method and does not offer it."""

    code = grpc.StatusCode.UNIMPLEMENTED
    reason = "UNIMPLEMENTED"
