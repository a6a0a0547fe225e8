"""What the control plane of a test knows, and how each of its services takes a call.

Used by the `*_plane.py` beside it, and by tests to say what is there and what fails.
Holds: calls are kept as they came, with their idempotency keys; the first `failures` calls of a method are answered
with an error before it does what was asked, or after (an answer that was lost on the way).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from muster.api.v1 import dead_letters_pb2, explain_pb2, triggers_pb2, usage_pb2, workloads_pb2
from muster.api.v1 import fleet_pb2 as fleet_api_pb2
from muster.events.v1 import scheduler_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.support.access_plane import AccessPlane
from tests.support.policy_shelf import Shelf

WORKLOAD_ID = "01900000-0000-7000-8000-00000000000"


@dataclass(slots=True)
class Failure:
    """An error that a method answers with. `after`: it does what was asked first."""

    code: int
    message: str
    details: Sequence[Message] = ()
    after: bool = False


@dataclass
class World:
    """What the control plane knows, and what it was asked."""

    workloads: dict[str, workload_pb2.Workload] = field(default_factory=dict)
    archived: list[workload_pb2.Workload] = field(default_factory=list)
    projects: list[str] = field(default_factory=lambda: ["team-a"])
    documents: dict[str, str] = field(default_factory=dict)
    """What `get -o yaml` answers, by the name of the workload; else a document with its name alone."""
    records: dict[str, Any] = field(default_factory=dict)
    """Departments, projects and node pools that were made, by name."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    watches: list[list[workloads_pb2.WatchWorkloadsResponse | Failure]] = field(default_factory=list)
    log: list[tuple[str, bytes]] = field(default_factory=list)
    explanation: scheduler_pb2.Explanation = field(default_factory=scheduler_pb2.Explanation)
    prospects: explain_pb2.WhatIfResponse = field(default_factory=explain_pb2.WhatIfResponse)
    usage: list[usage_pb2.WorkloadUsage] = field(default_factory=list)
    clusters: list[fleet_pb2.Cluster] = field(default_factory=list)
    nodes: list[fleet_pb2.NodeView] = field(default_factory=list)
    accounts: list[fleet_pb2.Account] = field(default_factory=list)
    quarantine: fleet_api_pb2.ListQuarantineResponse = field(default_factory=fleet_api_pb2.ListQuarantineResponse)
    dead_letters: list[dead_letters_pb2.DeadLetter] = field(default_factory=list)
    triggers: dict[str, triggers_pb2.Trigger] = field(default_factory=dict)
    firings: list[triggers_pb2.Firing] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)
    lazy: bool = False
    """Requests are taken, and nothing has come of them when they are answered."""

    def __post_init__(self) -> None:
        """Who may do what stands apart."""
        self.access = AccessPlane(self.calls)

    def asked(self, method: str) -> list[Any]:
        """The requests that a method got."""
        return [request for name, request in self.calls if name == method]

    def add(self, name: str, **fields: Any) -> workload_pb2.Workload:
        """A workload that is there."""
        number = len(self.workloads) + 1
        fields.setdefault("project", "team-a")
        fields.setdefault("phase", workload_pb2.PHASE_PENDING)
        workload = workload_pb2.Workload(id=f"{WORKLOAD_ID}{number}", name=name, generation=1, attempt=1, **fields)
        if not workload.spec.kind:
            workload.spec.kind = options_pb2.KIND_TRAINING
        self.workloads[workload.id] = workload
        return workload

    def fail(self, method: str, failure: Failure, *, times: int = 1) -> None:
        """Lets a method answer with an error so many times."""
        self.failures.setdefault(method, []).extend([failure] * times)


def error_status(failure: Failure) -> Any:
    """A failure as gRPC sends it."""
    packed = []
    for detail in failure.details:
        each = Packed()
        each.Pack(detail)
        packed.append(each)
    return rpc_status.to_status(status_pb2.Status(code=failure.code, message=failure.message, details=packed))


def bad_request(*violations: tuple[str, str]) -> error_details_pb2.BadRequest:
    """The detail that names fields."""
    kind = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(
        field_violations=[kind(field=path, description=text) for path, text in violations]
    )


class PlaneService:
    """One entrance: keeps calls, fails where it is told to, and answers a repeated key with the first answer."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def _tell(self, method: str, request: Any, context: Any, answer: Message) -> Any:
        """Takes a call that changes nothing: the answer stands already."""

        async def act(_: Any, __: Any) -> Any:
            return answer

        return await self._do(method, request, context, act)

    async def _do(self, method: str, request: Any, context: Any, act: Any) -> Any:
        world = self._world
        world.calls.append((method, request))
        failure = world.failures[method].pop(0) if world.failures.get(method) else None
        if failure is not None and not failure.after:
            await context.abort_with_status(error_status(failure))
        key = getattr(request, "idempotency_key", "")
        if key and key in world.answers:
            answer = world.answers[key]
        else:
            answer = await act(request, context)
            if key:
                world.answers[key] = answer
        if failure is not None:
            await context.abort_with_status(error_status(failure))
        return answer
