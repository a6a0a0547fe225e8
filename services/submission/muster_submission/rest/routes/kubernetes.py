"""Kubernetes' way in: the YAML kinds as objects under /apis, created, read and deleted one at a time.

Holds: what is refused is a metav1.Status with a cause for each field; an object's uid is its workload's id; a namespace
is a project's. There is no watch, no patch and no discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from muster.api.v1 import workloads_pb2 as api
from muster.tenancy.v1.tenancy_pb2 import Project
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_language import Kind, write
from muster_language.spec import kind_of
from muster_submission.domain import phases
from muster_submission.domain.access import Verb
from muster_submission.domain.problems import Problem
from muster_submission.domain.requests import Request
from muster_submission.errors import BadQuestion, DraftRefused, NoSuchWorkload
from muster_submission.handlers.apply import object_name
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.rest.answers import answer
from muster_submission.rest.bodies import as_document
from muster_submission.rest.kubernetes import STATUS
from muster_submission.rest.operation import Answer, Body, Operation, Parameter, Shape
from muster_submission.rest.parts import Parts
from muster_submission.rest.workload_rows import time
from muster_submission.rpc.applying import creating
from muster_submission.rpc.reading import find, owner

_RUN_AI: Final = "run.ai/v2alpha1"
_TENSORSTACK: Final = "batch.tensorstack.dev/v1beta1"
_MEDIA: Final = ("application/json", "application/yaml")
_OBJECT: Final = Shape(
    "KubernetesObject",
    {
        "type": "object",
        "description": "An object of one of the kinds; `muster explain` and the CRDs say what each takes.",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"enum": [_RUN_AI, _TENSORSTACK]},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "uid": {"type": "string"}}},
            "spec": {"type": "object"},
            "masterSpec": {"type": "object"},
            "status": {"type": "object"},
        },
    },
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as its path has it."""

    api: str
    plural: str
    kind: Kind
    word: str
    colossal: bool = False

    def holds(self, spec: wl.WorkloadSpec) -> bool:
        """Whether a spec is of this kind."""
        return kind_of(spec) is self.kind and spec.HasField("colossal") == self.colossal


RESOURCES: Final = (
    *(Resource(_RUN_AI, f"{kind.document.lower()}s", kind, kind.document) for kind in Kind),
    Resource(_TENSORSTACK, "colossalaijobs", Kind.DISTRIBUTED, "ColossalAIJob", colossal=True),
)


def operations(parts: Parts) -> list[Operation]:
    """Create, get and delete of each kind."""
    return [one for resource in RESOURCES for one in _Routes(parts, resource).operations()]


class _Routes:
    """The handlers of one kind."""

    def __init__(self, parts: Parts, resource: Resource) -> None:
        self._parts = parts
        self._resource = resource

    def operations(self) -> list[Operation]:
        """What is served for this kind."""
        resource = self._resource
        base = f"/apis/{resource.api}/namespaces/{{namespace}}/{resource.plural}"
        word, refused = resource.word.lower(), Answer("Refused.", STATUS)
        errors = dict.fromkeys((400, 401, 403, 404, 413, 415, 429, 500, 503, 504), refused)
        dry_run = Parameter("dryRun", "Not offered: it has to be left out.", {"maxLength": 0, "type": "string"})
        made = {201: Answer("The object.", _OBJECT), 409: refused, 422: refused}
        gone = {200: Answer("It goes away.", STATUS), 409: refused}
        more: dict[str, Any] = {"tag": "Kubernetes", "since": "muster"}
        return [
            Operation(
                "POST",
                base,
                f"create_kubernetes_{word}",
                summary=f"Create a {resource.word}",
                handler=self.create,
                answers=errors | made,
                parameters=[dry_run],
                body=Body(_OBJECT, _MEDIA),
                **more,
            ),
            Operation(
                "GET",
                f"{base}/{{name}}",
                f"get_kubernetes_{word}",
                summary=f"One {resource.word}",
                handler=self.get,
                answers=errors | {200: Answer("The object.", _OBJECT)},
                **more,
            ),
            Operation(
                "DELETE",
                f"{base}/{{name}}",
                f"delete_kubernetes_{word}",
                summary=f"Delete a {resource.word}",
                handler=self.delete,
                answers=errors | gone,
                **more,
            ),
        ]

    async def create(self, request: HttpRequest) -> Response:
        """Makes the workload of an object."""
        if request.query_params.get("dryRun"):
            raise BadQuestion("dryRun is not offered: `muster validate` checks a file without making anything")
        text = await as_document(request)
        project = await self._project(request)
        draft = api.WorkloadDraft(project=project.name, yaml=text)
        (checked,) = await self._parts.drafts.check([draft], await self._parts.access.rights(caller()))
        if isinstance(checked, Refusal):
            raise checked.error()
        if not self._resource.holds(checked.spec):
            raise DraftRefused("the object", [Problem("kind", f"this path takes {self._resource.word}s")])
        return answer(self._object(await self._make(checked), project.namespace, object_name("", checked)), 201)

    async def _make(self, checked: Checked) -> wl.Workload:
        who = owner()
        async with self._parts.database.unit() as unit:
            made = await self._parts.objects.create(unit, checked, object_name("", checked), who)
            return creating(unit, made, checked, who)

    async def get(self, request: HttpRequest) -> Response:
        """Shows an object."""
        shown, project = await self._found(request, Verb.WORKLOADS_READ)
        return answer(self._object(shown, project.namespace, request.path_params["name"]))

    async def delete(self, request: HttpRequest) -> Response:
        """Asks that an object goes away."""
        shown, _ = await self._found(request, Verb.WORKLOADS_DELETE)
        async with self._parts.database.unit() as unit:
            await self._parts.intents.ask(unit, Request.DELETE, shown.id, clean(caller().subject, 500))
        details = {"name": request.path_params["name"], "kind": self._resource.plural, "uid": shown.id}
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return answer(body)

    async def _project(self, request: HttpRequest) -> Project:
        namespace = request.path_params["namespace"]
        found = None if "\x00" in namespace else await self._parts.tenancy.project_of_namespace(namespace)
        if found is None:
            raise NoSuchWorkload(f"namespace {clean(namespace, 80)!r} is that of no project that you may see")
        rights = await self._parts.access.rights(caller())
        absent = NoSuchWorkload(f"namespace {clean(namespace, 80)!r} is that of no project that you may see")
        rights.require(Verb.WORKLOADS_READ, project=found.name, absent=absent)
        return found

    async def _found(self, request: HttpRequest, verb: Verb) -> tuple[wl.Workload, Project]:
        project, name = await self._project(request), request.path_params["name"]
        absent = NoSuchWorkload(f"{self._resource.plural} {clean(name, 80)!r} not found")
        known = None if "\x00" in name else await self._parts.known.find(project.name, int(self._resource.kind), name)
        if known is None:
            raise absent
        rights = await self._parts.access.rights(caller())
        shown = await find(self._parts.reading, api.WorkloadRef(id=known), rights, verb)
        if shown.phase == wl.PHASE_DELETED or not self._resource.holds(shown.spec):
            raise absent
        return shown, project

    def _object(self, shown: wl.Workload, namespace: str, name: str) -> dict[str, Any]:
        made: dict[str, Any] = yaml.load(write(shown.spec), Loader=yaml.CSafeLoader)
        made["metadata"] = {
            "name": name,
            "namespace": namespace,
            "uid": shown.id,
            "generation": shown.generation,
            "creationTimestamp": time(shown.created_at),
        }
        phase = phases.phase(shown.phase)
        status: dict[str, Any] = {"phase": str(phase) if phase else "Unknown", "workloadName": shown.name}
        if shown.reason.message:
            status["message"] = shown.reason.message
        return made | {"status": status}
