"""The audit: /api/v1/audit, and the path that the vendor's client knows for it."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import caller
from muster_kernel.ids import is_uuid
from muster_submission.adapters.audit import Wanted
from muster_submission.audit import ASKED, DONE
from muster_submission.domain.access import Verb
from muster_submission.rest import iam_shapes as iam
from muster_submission.rest.answers import answer
from muster_submission.rest.operation import Answer, Operation, Parameter, refusal
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import bad, moment, one_of, whole, whole_schema

_LONGEST: Final = 500
_LIMIT: Final = 50
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
    Parameter("limit", "How many lines.", whole_schema(1, _LARGEST_LIMIT, _LIMIT)),
    Parameter("offset", "How many to pass over.", whole_schema(0, _LARGEST_OFFSET, 0)),
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
        success = one_of(request, "success", ["true", "false", ""])
        wanted = Wanted(
            since=moment(request, "start"),
            until=moment(request, "end"),
            who=_text(request, "sourceId") or _text(request, "sourceName"),
            what=_text(request, "action"),
            project=project,
            within=rights.projects(Verb.AUDIT_READ),
            success=None if not success else success == "true",
        )
        limit = whole(request, "limit", 1, _LARGEST_LIMIT, _LIMIT)
        offset = whole(request, "offset", 0, _LARGEST_OFFSET, 0)
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
        raise bad(name, f"{name} is a text of at most {_LONGEST} characters without NUL")
    return given
