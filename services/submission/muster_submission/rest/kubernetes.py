"""Errors as Kubernetes' clients read them: metav1.Status, with a cause for each thing that is wrong.

Called by the edge for everything under /apis, since its errors may come before any operation is found.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from muster_chassis.errors import ServiceError
from muster_chassis.text import clean
from muster_submission.rest import answers
from muster_submission.rest.operation import Shape

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    501: "NotAcceptable",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_MOST: Final = 100
STATUS: Final = Shape(
    "Status",
    {
        "type": "object",
        "description": "metav1.Status: what came of a request, with a cause for each thing that is wrong.",
        "required": ["kind", "apiVersion", "status"],
        "properties": {
            "kind": {"const": "Status"},
            "apiVersion": {"const": "v1"},
            "metadata": {"type": "object"},
            "status": {"enum": ["Success", "Failure"]},
            "message": {"type": "string"},
            "reason": {"type": "string"},
            "code": {"type": "integer"},
            "details": {"type": "object"},
        },
    },
)


def speaks(path: str) -> bool:
    """Whether this path is one of Kubernetes' way in."""
    return path.startswith("/apis/")


def refused(error: ServiceError) -> Response:
    """An expected error. What breaks the language's rules is Invalid, with the fields as causes."""
    status = answers.status_of(error)
    if error.violations and status == answers.BAD:
        status = 422
    causes = [
        {"reason": "FieldValueInvalid", "field": clean(one.field, 200), "message": clean(one.description, 1000)}
        for one in error.violations[:_MOST]
    ]
    reason = _REASONS.get(status, "Conflict")
    if error.reason == "NAME_TAKEN":
        reason = "AlreadyExists"
    details: dict[str, Any] = {"causes": causes} if causes else {}
    return _status(status, reason, clean(error.message, 8192), details, answers.headers_of(error))


def failed(trace: str) -> Response:
    """What nobody expected."""
    message = f"an unexpected error; the service's log has it under trace {trace}"
    return _status(500, "InternalError", message, {}, {})


def _status(code: int, reason: str, message: str, details: dict[str, Any], headers: dict[str, str]) -> Response:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if details:
        body["details"] = details
    return answers.answer(body, code, headers)
