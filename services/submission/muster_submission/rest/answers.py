"""What goes out: JSON, and every error in the form that the asked path speaks.

Called by the edge and by the routes. Holds: an error has the words of the 2.18 API for its status as `message`, and
Muster's own sentence as `details`; nothing that nobody expected shows its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import grpc
import msgspec
from starlette.responses import Response

from muster_chassis.errors import ServiceError, Violation
from muster_chassis.text import clean
from muster_submission.rest.paths import rest_path

STATUS: Final[dict[grpc.StatusCode, int]] = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
_MESSAGES: Final[dict[int, str]] = {
    400: "Bad request.",
    401: "Issuer is not familiar.",
    403: "You do not have sufficient permissions.",
    404: "Resource id not found.",
    405: "Method not allowed.",
    413: "Request body is too large.",
    415: "Unsupported media type.",
    429: "Too many requests.",
    500: "Something went wrong.",
    501: "Not implemented.",
    503: "Please try again in few minutes.",
    504: "The request took too long.",
}
_TAKEN: Final = "Resource with this name already exists"
_CONFLICT: Final = "The resource's state does not allow it."
_LONGEST: Final = 8192
_MOST: Final = 100  # violations in one answer
JSON: Final = "application/json"
BAD: Final = 400


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`body` as JSON."""
    return Response(msgspec.json.encode(body), status, headers, media_type=JSON)


def nothing(status: int = 204) -> Response:
    """An answer without a body."""
    return Response(status_code=status)


def accepted(status: int = 202) -> Response:
    """What 2.18 says where something is asked for and happens later."""
    return answer({"code": status, "message": "Request has been accepted."}, status)


def status_of(error: ServiceError) -> int:
    """The HTTP status of an error."""
    return int(getattr(error, "status", STATUS.get(error.code, 500)))


def message_of(error: ServiceError) -> str:
    """The API's words for it."""
    status = status_of(error)
    if said := getattr(error, "said", ""):
        return str(said)
    if status == STATUS[grpc.StatusCode.ALREADY_EXISTS]:
        return _TAKEN if error.code is grpc.StatusCode.ALREADY_EXISTS else _CONFLICT
    return _MESSAGES.get(status, "Something went wrong.")


def refused(error: ServiceError) -> Response:
    """`{code, message, details, violations?}` of an error that was expected."""
    status = status_of(error)
    body: dict[str, Any] = {"code": status, "message": message_of(error), "details": clean(_details(error), _LONGEST)}
    if error.violations:
        body["violations"] = [_violation(one) for one in error.violations[:_MOST]]
    return answer(body | getattr(error, "members", {}), status, headers_of(error))


def headers_of(error: ServiceError) -> dict[str, str]:
    """When to try again, what else is allowed, how to authenticate."""
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    if allowed := getattr(error, "allowed", ""):
        headers["Allow"] = allowed
    if error.code is grpc.StatusCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def failed(trace: str) -> Response:
    """What nobody expected: the trace leads to the log line with the rest."""
    details = f"an unexpected error; the service's log has it under trace {trace}"
    return answer({"code": 500, "message": _MESSAGES[500], "details": details}, 500)


def _details(error: ServiceError) -> str:
    """The sentence, with the paths that its violations have here."""
    said = error.message
    for one in error.violations[:_MOST]:
        said = said.replace(f"{one.field}: {one.description}", f"{rest_path(one.field)}: {one.description}")
    return said


def _violation(one: Violation) -> dict[str, str]:
    return {"field": clean(rest_path(one.field), 200), "message": clean(one.description, 1000)}
