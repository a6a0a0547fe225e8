"""The audit: /api/v1/audit, and the path that the vendor's client knows for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.errors import Violation
from muster_chassis.rpc import caller
from muster_kernel.ids import is_uuid
from muster_submission.adapters.audit import Wanted
from muster_submission.audit import ASKED, DONE
from muster_submission.domain.access import Verb
from muster_submission.rest import iam_shapes as iam
from muster_submission.rest.answers import answer
from muster_submission.rest.errors import BadBody
from muster_submission.rest.operation import Answer, Operation, Parameter, refusal
from muster_submission.rest.parts import Parts

_LONGEST: Final = 500
_LARGEST_LIMIT: Final = 500
_LARGEST_OFFSET: Final = 100_000
_PARAMETERS: Final = (
    Parameter("start", "Only what came then or later.", {"type": "string", "format": "date-time"}),
    Parameter("end", "Only what came before.", {"type": "string", "format": "date-time"}),
    Parameter("action", "Only this verb, or all that begin so, such as workloads."),
    Parameter("sourceId", "Only what this subject did."),
    Parameter("sourceName", "Only what the subject or application of this name did."),
    Parameter("project", "Only this project, by name."),
    Parameter("success", "true: only what was done; false: only what was refused.", {"enum": ["true", "false"]}),
    Parameter("limit", "How many lines.", {"type": "integer", "minimum": 1, "maximum": _LARGEST_LIMIT, "default": 50}),
    Parameter(
        "offset", "How many to pass over.", {"type": "integer", "minimum": 0, "maximum": _LARGEST_OFFSET, "default": 0}
    ),
)


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    here, hidden = Audit(parts), refusal("The project does not exist, or not for the caller.")
    lines = {200: Answer("Lines, newest first.", iam.AUDIT), 404: hidden}
    return [
        Operation("GET", "/api/v1/audit", "get_audit", "Audit", "The audit", here.page, lines, _PARAMETERS),
        Operation(
            "GET",
            "/v1/k8s/audit",
            "get_audit_logs",
            "Audit",
            "The audit, by its older path",
            here.page,
            lines,
            _PARAMETERS,
        ),
    ]


class Audit:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def page(self, request: Request) -> Response:
        """The newest lines that the caller may see."""
        rights = await self._parts.access.rights(caller())
        project = _text(request, "project")
        if project or not rights.anywhere(Verb.AUDIT_READ):
            rights.require(Verb.AUDIT_READ, project=project)
        success = _text(request, "success").lower()
        if success not in {"", "true", "false"}:
            raise _wrong("success", "is true or false")
        wanted = Wanted(
            since=_time(request, "start"),
            until=_time(request, "end"),
            who=_text(request, "sourceId") or _text(request, "sourceName"),
            what=_text(request, "action"),
            project=project,
            within=rights.projects(Verb.AUDIT_READ),
            success=None if not success else success == "true",
        )
        limit, offset = (
            _whole(request, "limit", 1, _LARGEST_LIMIT, 50),
            _whole(request, "offset", 0, _LARGEST_OFFSET, 0),
        )
        rows = await self._parts.gates.audit.page(wanted, limit, offset=offset)
        return answer([self._shown(row) for row in rows])

    def _shown(self, row: Any) -> dict[str, Any]:
        kind, _, name = row["target"].rpartition("/")
        return {
            "id": row["id"],
            "tenantId": self._parts.tenant_id,
            "happenedAt": row["at"].isoformat(),
            "action": row["verb"],
            "version": "1",
            "entityType": kind or row["verb"].partition(".")[0].removesuffix("s"),
            "entityId": name,
            "entityName": name,
            "sourceType": "Application" if row["subject_name"] or is_uuid(row["subject"]) else "User",
            "sourceId": row["subject"],
            "sourceName": row["subject_name"] or row["subject"],
            "error": None if row["outcome"] in (DONE, ASKED) else row["outcome"],
            "context": {
                "project": row["project"],
                "channel": row["channel"],
                "peer": row["peer"],
                "issuer": row["issuer"],
                "detail": row["detail"],
            },
        }


def _text(request: Request, name: str) -> str:
    given = str(request.query_params.get(name, ""))
    if len(given) > _LONGEST or "\x00" in given:
        raise _wrong(name, f"is a text of at most {_LONGEST} characters without NUL")
    return given


def _whole(request: Request, name: str, low: int, high: int, otherwise: int) -> int:
    given = request.query_params.get(name)
    if given is None:
        return otherwise
    if given.isascii() and given.isdigit() and len(given) <= len(str(high)) and low <= int(given) <= high:
        return int(given)
    raise _wrong(name, f"is {given[:40]!r}; it is a whole number from {low} to {high}")


def _time(request: Request, name: str) -> datetime | None:
    given = _text(request, name)
    if not given:
        return None
    try:
        read = datetime.fromisoformat(given.replace(" ", "+"))
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise _wrong(name, f"is {given[:40]!r}; a time such as 2026-01-31T12:00:00Z is expected") from None


def _wrong(name: str, why: str) -> BadBody:
    return BadBody(f"{name} {why}", violations=[Violation(name, why)])
