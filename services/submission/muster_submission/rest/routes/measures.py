"""/api/v1/workloads/{workloadId}/metrics, those of its pods, and /telemetry: numbers about workloads.

What is told is what Muster knows by itself: what a workload asks for, what it holds and since when. What would take a
meter on the node (utilisation, memory in use, requests served) has no values, and the answer is 207 for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import identity
from muster_submission.adapters.lists import Measure
from muster_submission.adapters.places import Directory
from muster_submission.adapters.reading import Listed
from muster_submission.domain.fields import GPU_UNITS, KIND_WORDS
from muster_submission.domain.listing import Order, question
from muster_submission.domain.terms import Points, Term
from muster_submission.errors import NoSuchWorkload
from muster_submission.rest import list_shapes, requests
from muster_submission.rest.answers import answer
from muster_submission.rest.operation import Answer, Handler, Operation, Parameter, path_id
from muster_submission.rest.parts import Parts
from muster_submission.rest.pod_rows import pod_id
from muster_submission.rest.routes.lists import PATH, TAG, WORKLOAD_ID
from muster_submission.rest.seen import Seeing
from muster_submission.rest.workload_rows import cluster_of, requests_of, time

MOST_SAMPLES: Final = 1000
_SAMPLES: Final = 20
_MOST_TYPES: Final = 50
_PARTIAL: Final = 207
_Requests = list[wl.ResourceRequest]
_KNOWN: Final[Mapping[str, Callable[[_Requests], float]]] = {
    "GPU_ALLOCATION": lambda asked: sum(one.gpu_charge * one.count for one in asked) / GPU_UNITS,
    "GPU_MEMORY_REQUEST_BYTES": lambda asked: sum(one.gpu_memory_bytes * one.gpu_devices * one.count for one in asked),
    "CPU_REQUEST_CORES": lambda asked: sum(one.cpu_milli * one.count for one in asked) / 1000,
    "CPU_MEMORY_REQUEST_BYTES": lambda asked: sum(one.memory_bytes * one.count for one in asked),
    "POD_COUNT": lambda asked: sum(one.count for one in asked),
    "RUNNING_POD_COUNT": lambda asked: sum(one.count for one in asked),
}
_UNKNOWN: Final = (
    "GPU_UTILIZATION",
    "GPU_MEMORY_USAGE_BYTES",
    "CPU_USAGE_CORES",
    "CPU_LIMIT_CORES",
    "CPU_MEMORY_USAGE_BYTES",
    "CPU_MEMORY_LIMIT_BYTES",
)
WORKLOAD_TYPES: Final = (*_KNOWN, *_UNKNOWN)
INFERENCE_TYPES: Final = ("THROUGHPUT", "LATENCY")
_PER_GPU: Final = (
    "GPU_UTILIZATION_PER_GPU",
    "GPU_MEMORY_USAGE_BYTES_PER_GPU",
    "GPU_GRAPHICS_ENGINE_ACTIVITY_PER_GPU",
    "GPU_SM_ACTIVITY_PER_GPU",
    "GPU_SM_OCCUPANCY_PER_GPU",
    "GPU_TENSOR_ACTIVITY_PER_GPU",
    "GPU_FP64_ENGINE_ACTIVITY_PER_GPU",
    "GPU_FP32_ENGINE_ACTIVITY_PER_GPU",
    "GPU_FP16_ENGINE_ACTIVITY_PER_GPU",
    "GPU_MEMORY_BANDWIDTH_UTILIZATION_PER_GPU",
    "GPU_NVLINK_TRANSMITTED_BANDWIDTH_PER_GPU",
    "GPU_NVLINK_RECEIVED_BANDWIDTH_PER_GPU",
    "GPU_PCIE_TRANSMITTED_BANDWIDTH_PER_GPU",
    "GPU_PCIE_RECEIVED_BANDWIDTH_PER_GPU",
)
POD_TYPES: Final = (*_UNKNOWN[:3], "CPU_MEMORY_USAGE_BYTES", *_PER_GPU)
GROUPS: Final[Mapping[str, str]] = {
    "clusterId": "cluster",
    "nodepool": "node_pool",
    "departmentId": "project",
    "projectId": "project",
    "type": "kind",
}
_TELEMETRY: Final = {"WORKLOADS_COUNT": Measure.COUNT, "GPU_ALLOCATION": Measure.GPUS}
_MOST_GROUPS: Final = 2


def operations(parts: Parts) -> list[Operation]:
    """What is served."""
    routes = Measures(parts)
    at, pod = f"{PATH}/{{workloadId}}", path_id("podId", "The pod's id.")
    inference = f"{PATH}/inferences/{{workloadId}}"
    answers = {
        200: Answer("Every kind that was asked for has its samples.", list_shapes.MEASUREMENTS),
        207: Answer("Some kinds are not measured and have no samples.", list_shapes.MEASUREMENTS),
    }
    told = {200: Answer("The numbers.", list_shapes.TELEMETRY)}

    def metrics(
        path: str, name: str, summary: str, handler: Handler, types: tuple[str, ...], *more: Parameter
    ) -> Operation:
        return Operation("GET", path, name, TAG, summary, handler, answers, [WORKLOAD_ID, *more, *_window(types)])

    return [
        metrics(f"{at}/metrics", "get_workload_metrics", "Samples of a workload", routes.workload, WORKLOAD_TYPES),
        metrics(
            f"{at}/pods/{{podId}}/metrics", "get_workload_pod_metrics", "Samples of a pod", routes.pod, POD_TYPES, pod
        ),
        metrics(
            f"{inference}/metrics", "get_inference_metrics", "Samples of a service", routes.inference, INFERENCE_TYPES
        ),
        metrics(
            f"{inference}/pods/{{podId}}/metrics",
            "get_inference_pod_metrics",
            "Samples of a service's pod",
            routes.inference_pod,
            INFERENCE_TYPES,
            pod,
        ),
        Operation(
            "GET",
            f"{PATH}/telemetry",
            "get_workloads_telemetry",
            TAG,
            "Numbers about all workloads",
            routes.telemetry,
            told,
            _telemetry_parameters(),
        ),
    ]


class Measures:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seeing = Seeing(parts)

    async def workload(self, request: Request) -> Response:
        """Samples of a workload."""
        return await self._samples(request, WORKLOAD_TYPES)

    async def inference(self, request: Request) -> Response:
        """Samples of a service."""
        return await self._samples(request, INFERENCE_TYPES)

    async def pod(self, request: Request) -> Response:
        """Samples of a pod."""
        return await self._samples(request, POD_TYPES)

    async def inference_pod(self, request: Request) -> Response:
        """Samples of a service's pod."""
        return await self._samples(request, INFERENCE_TYPES)

    async def telemetry(self, request: Request) -> Response:
        """One number a group."""
        kind = requests.one_of(request, "telemetryType", list(_TELEMETRY))
        grouped = requests.words(request, "groupBy", list(GROUPS), least=0, most=_MOST_GROUPS)
        directory = await self._parts.reading.directory.now()
        asked = question(await self._terms(request, directory), Order())
        columns = list(dict.fromkeys(GROUPS[one] for one in grouped))
        measure = _TELEMETRY[kind]
        sums: dict[tuple[tuple[str, str, str], ...], int] = {}
        for value, *shared in await self._parts.reading.lists.groups(asked, columns, measure):
            row = dict(zip(columns, shared, strict=True))
            key = tuple(_group(one, row[GROUPS[one]], directory) for one in grouped)
            sums[key] = sums.get(key, 0) + value
        scale = GPU_UNITS if measure is Measure.GPUS else 1
        values = [
            {
                "value": _plain(total / scale),
                "groups": [{"key": key, "value": value, "name": name} for key, value, name in groups],
            }
            for groups, total in sums.items()
        ]
        return answer({"type": kind, "timestamp": time(identity.now()), "values": values})

    async def _samples(self, request: Request, types: tuple[str, ...]) -> Response:
        asked = requests.words(request, "metricType", types, least=1, most=_MOST_TYPES)
        begin, end = requests.stretch_of_time(request)
        count = requests.whole(request, "numberOfSamples", 1, MOST_SAMPLES, _SAMPLES)
        listed = await self._seeing.listed(request)
        if types is INFERENCE_TYPES and listed.workload.spec.kind != options_pb2.KIND_INFERENCE:
            raise NoSuchWorkload(f"workload {listed.workload.id} is no inference service")
        wanted = request.path_params.get("podId")
        if wanted is not None and wanted not in {pod_id(one.name) for one in listed.workload.replicas}:
            raise NoSuchWorkload(f"workload {listed.workload.id} has no pod {wanted[:80]!r}")
        moments = [begin + (end - begin) * number / max(1, count - 1) for number in range(count)]
        measured = [{"type": one, "labels": {}, "values": _values(one, listed, moments)} for one in asked]
        partial = any(one not in _KNOWN for one in asked)
        return answer({"measurements": measured}, _PARTIAL if partial else 200)

    async def _terms(self, request: Request, directory: Directory) -> tuple[Term, ...]:
        scope = await self._seeing.scope()
        found: list[Term] = [] if scope is None else [Points("project", scope)]
        if cluster := request.query_params.get("clusterId"):
            found.append(Points("cluster", frozenset(one for one in directory.clusters if cluster_of(one) == cluster)))
        if pool := request.query_params.get("nodepoolName"):
            if "\x00" in pool:
                raise requests.bad("nodepoolName", "nodepoolName holds a NUL character; no name has one")
            found.append(Points("node_pool", frozenset({pool})))
        if department := request.query_params.get("departmentId"):
            inside = [name for name in directory.projects if str(directory.department(name).id) == department]
            found.append(Points("project", frozenset(inside)))
        return tuple(found)


def _values(kind: str, listed: Listed, moments: list[datetime]) -> list[dict[str, str]]:
    """What was asked for, while the workload ran; what only a meter knows has no values."""
    tell = _KNOWN.get(kind)
    shown = listed.workload
    if tell is None or not shown.HasField("started_at"):
        return []
    value = _plain(tell(requests_of(shown.effective_spec if shown.HasField("effective_spec") else shown.spec)))
    begun = shown.started_at.ToDatetime(UTC)
    ended = shown.finished_at.ToDatetime(UTC) if shown.HasField("finished_at") else datetime.max.replace(tzinfo=UTC)
    return [
        {"value": value if begun <= moment <= ended else "0", "timestamp": time(moment.astimezone(UTC))}
        for moment in moments
    ]


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _group(name: str, value: Any, directory: Directory) -> tuple[str, str, str]:
    match name:
        case "clusterId":
            return name, cluster_of(value), value
        case "projectId":
            known = directory.projects.get(value)
            return name, str(known.id) if known else "", value
        case "departmentId":
            department = directory.department(value)
            return name, str(department.id), department.name
        case "type":
            word = next((word for word, number in KIND_WORDS.items() if number == value), str(value))
            return name, word, word
        case _:
            return name, value, value


def _window(types: tuple[str, ...]) -> list[Parameter]:
    words = {"type": "array", "items": {"type": "string", "enum": list(types)}, "minItems": 1, "maxItems": _MOST_TYPES}
    moment = {"type": "string", "format": "date-time"}
    samples = requests.whole_schema(1, MOST_SAMPLES, _SAMPLES)
    return [
        Parameter("metricType", "What to tell.", words, required=True),
        Parameter("start", "The first moment.", moment, required=True),
        Parameter("end", "The last moment.", moment, required=True),
        Parameter("numberOfSamples", "How many moments, evenly spread.", samples),
    ]


def _telemetry_parameters() -> list[Parameter]:
    groups = {"type": "array", "items": {"type": "string", "enum": list(GROUPS)}, "maxItems": _MOST_GROUPS}
    return [
        Parameter("telemetryType", "What to tell.", {"type": "string", "enum": list(_TELEMETRY)}, required=True),
        Parameter("groupBy", "A number for each of these.", groups),
        Parameter("clusterId", "Only workloads in this cluster."),
        Parameter("nodepoolName", "Only workloads in node pools of this name."),
        Parameter("departmentId", "Only workloads of this department."),
    ]
