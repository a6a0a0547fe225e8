"""Workloads by kind: create, get, delete, suspend, resume.

Holds: a workload of another kind is not there under this kind's path, and one that is gone is not there at all; the
answer to a create is policy's verdict where it comes within five seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import LONGEST_KEY, caller
from muster_chassis.text import clean
from muster_language import Kind
from muster_language.spec import kind_of
from muster_submission.domain.access import Verb
from muster_submission.domain.requests import Request
from muster_submission.errors import NoSuchWorkload
from muster_submission.rest import shapes
from muster_submission.rest.answers import accepted, answer, nothing
from muster_submission.rest.bodies import read_object
from muster_submission.rest.creating import Creation
from muster_submission.rest.envelope import Envelopes
from muster_submission.rest.operation import Answer, Body, Handler, Operation, Parameter, path_id, refusal
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import own_key
from muster_submission.rpc.reading import find

_MUSTER: Final = "muster"
_ID: Final = path_id("workloadId", "The id of the workload.")
_KEY: Final = Parameter(
    "Idempotency-Key",
    "One text for one request, however often it is sent within 24 hours. Without it a body that repeats within two "
    "minutes is the same request.",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    "header",
)
_VERBS: Final = {
    Request.SUSPEND: Verb.WORKLOADS_CHANGE,
    Request.RESUME: Verb.WORKLOADS_CHANGE,
    Request.DELETE: Verb.WORKLOADS_DELETE,
}


@dataclass(frozen=True, slots=True)
class Group:
    """A kind as its paths and operations call it."""

    kind: Kind
    path: str
    name: str
    tag: str
    steering_since: str


GROUPS: Final = (
    Group(Kind.WORKSPACE, "workspaces", "workspace", "Workspaces", "2.18"),
    Group(Kind.TRAINING, "trainings", "training", "Trainings", "2.18"),
    Group(Kind.DISTRIBUTED, "distributed", "distributed", "Distributed", _MUSTER),
    Group(Kind.INFERENCE, "inferences", "inference", "Inferences", _MUSTER),
)


def operations(parts: Parts) -> list[Operation]:
    """Five operations for each of the four kinds."""
    creation, envelopes = Creation(parts), Envelopes(parts.tenancy)
    return [one for group in GROUPS for one in _Routes(group, parts, creation, envelopes).operations()]


class _Routes:
    """The handlers of one kind."""

    def __init__(self, group: Group, parts: Parts, creation: Creation, envelopes: Envelopes) -> None:
        self._group = group
        self._parts = parts
        self._creation = creation
        self._envelopes = envelopes

    def operations(self) -> Sequence[Operation]:
        """What is served for this kind."""
        group, base = self._group, f"/api/v1/workloads/{self._group.path}"
        shown = shapes.workload(group.kind)
        return [
            Operation(
                "POST",
                base,
                f"create_{group.name}",
                group.tag,
                f"Create a {group.name} workload",
                self.create,
                {
                    200: Answer("The workload: admitted, or still Creating.", shown),
                    400: Answer("The body breaks a rule, or policy refuses the workload.", shapes.SUBMISSION_ERROR),
                    409: refusal("The name is taken."),
                },
                parameters=[_KEY],
                body=Body(shapes.create(group.kind)),
            ),
            Operation(
                "GET",
                f"{base}/{{workloadId}}",
                f"get_{group.name}",
                group.tag,
                f"One {group.name} workload",
                self.get,
                {200: Answer("The workload.", shown)},
                parameters=[_ID],
            ),
            Operation(
                "DELETE",
                f"{base}/{{workloadId}}",
                f"delete_{group.name}",
                group.tag,
                f"Delete a {group.name} workload",
                self.delete,
                {204: Answer("It goes away."), 409: refusal("Its phase does not allow it.")},
                parameters=[_ID],
            ),
            self._steering("suspend", self.suspend),
            self._steering("resume", self.resume),
        ]

    def _steering(self, verb: str, handler: Handler) -> Operation:
        group = self._group
        return Operation(
            "POST",
            f"/api/v1/workloads/{group.path}/{{workloadId}}/{verb}",
            f"{verb}_{group.name}",
            group.tag,
            f"{verb.capitalize()} a {group.name} workload",
            handler,
            {202: Answer("It is asked for.", shapes.ACCEPTED), 409: refusal("Its phase does not allow it.")},
            parameters=[_ID],
            since=group.steering_since,
        )

    async def create(self, request: HttpRequest) -> Response:
        """Makes a workload."""
        body = await read_object(request)
        made, warnings = await self._creation.create(self._group.kind, body, own_key(request))
        return answer(await self._envelopes.of(made, warnings=warnings))

    async def get(self, request: HttpRequest) -> Response:
        """Shows a workload."""
        return answer(await self._envelopes.of(await self._found(request, Verb.WORKLOADS_READ)))

    async def delete(self, request: HttpRequest) -> Response:
        """Asks that a workload goes away."""
        await self._ask(request, Request.DELETE)
        return nothing()

    async def suspend(self, request: HttpRequest) -> Response:
        """Asks that a workload is suspended."""
        await self._ask(request, Request.SUSPEND)
        return accepted()

    async def resume(self, request: HttpRequest) -> Response:
        """Asks that a suspended workload runs again."""
        await self._ask(request, Request.RESUME)
        return accepted()

    async def _ask(self, request: HttpRequest, wish: Request) -> None:
        found = await self._found(request, _VERBS[wish])
        async with self._parts.database.unit() as unit:
            await self._parts.intents.ask(unit, wish, found.id, clean(caller().subject, 500))

    async def _found(self, request: HttpRequest, verb: Verb) -> wl.Workload:
        ref = api.WorkloadRef(id=request.path_params["workloadId"])
        found = await find(self._parts.reading, ref, await self._parts.access.rights(caller()), verb)
        if kind_of(found.spec) is not self._group.kind or found.phase == wl.PHASE_DELETED:
            raise NoSuchWorkload(f"workload {found.id} does not exist; GET /api/v1/workloads lists what does")
        return found
