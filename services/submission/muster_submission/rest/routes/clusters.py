"""/api/v1/clusters and nodes: what the scheduler knows of the fleet, and the figures that follow from it.

A cluster is known by its name in Muster; here it has a UUID that follows from the name, so that both lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster.fleet.v1.fleet_pb2 import NodeView
from muster_chassis import identity
from muster_chassis.errors import Violation
from muster_chassis.rpc import caller
from muster_submission.audit import Entry, passed_on
from muster_submission.domain.access import Verb
from muster_submission.domain.fleet import DEFAULT_POOL, cluster_uuid
from muster_submission.rest import amounts, fleet_shapes
from muster_submission.rest.answers import answer, nothing
from muster_submission.rest.bodies import read_object
from muster_submission.rest.cluster_bodies import free, ready, usable, write_cluster, write_node
from muster_submission.rest.errors import BadBody
from muster_submission.rest.fleet_shapes import CLUSTER
from muster_submission.rest.fleet_view import Fleet
from muster_submission.rest.members import Findings
from muster_submission.rest.operation import Answer, Body, Operation, Parameter, array_of, path_id, refusal
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import one_of, stretch_of_time, words

PATH: Final = "/api/v1/clusters"
_ONE: Final = f"{PATH}/{{clusterUuid}}"
_TAG: Final = "Clusters"
_UUID: Final = path_id("clusterUuid", "The cluster's UUID.")
_VERBOSITY: Final = Parameter(
    "verbosity", "metadata: without its status.", {"type": "string", "enum": ["full", "metadata"], "default": "full"}
)
METRICS: Final = (
    "GPU_UTILIZATION",
    "GPU_MEMORY_UTILIZATION",
    "CPU_UTILIZATION",
    "CPU_MEMORY_UTILIZATION",
    "TOTAL_GPU",
    "GPU_QUOTA",
    "ALLOCATED_GPU",
    "AVG_WORKLOAD_WAIT_TIME",
)
_FIGURES: Final[dict[str, Callable[[Sequence[NodeView]], float]]] = {
    "READY_GPU_NODES": lambda nodes: sum(ready(node) and bool(node.devices) for node in nodes),
    "READY_GPUS": lambda nodes: sum(usable(node) for node in nodes if ready(node)),
    "TOTAL_GPU_NODES": lambda nodes: sum(bool(node.devices) for node in nodes),
    "TOTAL_GPUS": lambda nodes: sum(len(node.devices) for node in nodes),
    "FREE_GPUS": lambda nodes: sum(free(node) for node in nodes),
}
_GROUPS: Final[dict[str, Callable[[NodeView], tuple[str, str]]]] = {
    "ClusterId": lambda node: (cluster_uuid(node.cluster), node.cluster),
    "Node": lambda node: (node.name, node.name),
    "NodePool": lambda node: (node.pool or DEFAULT_POOL, node.pool or DEFAULT_POOL),
}
_MOST_GROUPS: Final = 2
_MOST_WORDS: Final = 20


class Clusters:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def operations(self) -> list[Operation]:
        """What is served."""
        return [*self._of_clusters(), *self._of_what_is_in_them()]

    def _of_clusters(self) -> list[Operation]:
        one, every = {200: Answer("The cluster.", CLUSTER)}, {200: Answer("The clusters.", array_of(CLUSTER))}
        made, creation = {201: Answer("The cluster.", CLUSTER)}, Body(fleet_shapes.CLUSTER_CREATION)
        stays = {204: Answer("So."), 409: refusal("A cluster's name is how Muster knows it: it stays.")}
        return [
            Operation("GET", PATH, "get_clusters", _TAG, "The clusters", self.list, every, [_VERBOSITY]),
            Operation("POST", PATH, "create_cluster", _TAG, "Register a cluster", self.create, made, body=creation),
            Operation("GET", _ONE, "get_cluster", _TAG, "One cluster", self.get, one, [_UUID, _VERBOSITY]),
            Operation("PUT", _ONE, "update_cluster", _TAG, "Name it again", self.rename, stays, [_UUID], creation),
        ]

    def _of_what_is_in_them(self) -> list[Operation]:
        nodes, wanted = (
            {200: Answer("The nodes.", fleet_shapes.NODES)},
            Parameter("nodeName", "Only the one of that name."),
        )
        figures = {200: Answer("The figures.", fleet_shapes.MEASUREMENTS)}
        figure = {200: Answer("The figure.", fleet_shapes.TELEMETRY)}
        times = [*_times(), _one_of("metricType", "Which figures.", METRICS, several=True)]
        of_all, telemetry = f"{_ONE}/metrics", "/api/v1/nodes/telemetry"
        of_pool, pool = f"{_ONE}/nodepools/{{nodepoolName}}/metrics", path_id("nodepoolName", "Its name.", form="")
        in_all, in_pool = [_UUID, *times], [_UUID, pool, *times]
        ask = [
            _one_of("telemetryType", "Which figure.", list(_FIGURES)),
            Parameter("clusterId", "Only this cluster's nodes.", {"type": "string", "format": "uuid"}),
            Parameter("nodepoolName", "Only this pool's nodes."),
            _one_of("groupBy", "By what they are counted.", list(_GROUPS), several=True, required=False),
        ]
        return [
            Operation("GET", f"{_ONE}/nodes", "get_nodes", _TAG, "Its nodes", self.nodes, nodes, [_UUID, wanted]),
            Operation("GET", of_all, "get_cluster_metrics", _TAG, "Its figures", self.metrics, figures, in_all),
            Operation("GET", of_pool, "get_pool_metrics", _TAG, "A pool's figures", self.metrics, figures, in_pool),
            Operation("GET", telemetry, "get_node_telemetry", _TAG, "Figures of nodes", self.telemetry, figure, ask),
        ]

    async def list(self, request: Request) -> Response:
        """Every cluster that the caller may see."""
        full = _full(request)
        found = await Fleet(self._parts, request).clusters()
        made = await self._parts.fleet.made()
        return answer([write_cluster(one, made[one.id], self._parts.tenant_id, full=full) for one in found])

    async def get(self, request: Request) -> Response:
        """One cluster."""
        full = _full(request)
        one = await Fleet(self._parts, request).cluster(request.path_params["clusterUuid"].lower())
        made = await self._parts.fleet.made()
        return answer(write_cluster(one, made[one.id], self._parts.tenant_id, full=full))

    async def create(self, request: Request) -> Response:
        """201 with the cluster; one that is there already is answered as it is."""
        found = Findings()
        body = found.object(await read_object(request), "", ("name", "domain", "version"))
        name = found.text(body.get("name"), "name")
        found.raise_any("the cluster")
        (await self._parts.access.rights(caller())).require(Verb.CLUSTERS_WRITE, cluster=name)
        fleet = Fleet(self._parts, request)
        entry = Entry(Verb.CLUSTERS_WRITE, f"cluster/{name}", detail="RegisterCluster")
        one = await passed_on(self._parts.database, entry, lambda: fleet.register(name))
        made = await self._parts.fleet.made()
        return answer(write_cluster(one, made[one.id], self._parts.tenant_id, full=True), 201)

    async def rename(self, request: Request) -> Response:
        """204 where it has that name already; Muster knows a cluster by its name."""
        found = Findings()
        body = found.object(await read_object(request), "", ("name", "domain", "version"))
        name = found.text(body.get("name"), "name")
        found.raise_any("the cluster")
        known = await Fleet(self._parts, request).name_of(request.path_params["clusterUuid"].lower())
        (await self._parts.access.rights(caller())).require(Verb.CLUSTERS_WRITE, cluster=known)
        if name != known:
            said = f"cluster {known} cannot be called {name!r}: agents, topics and quotas know it by its name"
            raise NameStays(said, violations=[Violation("name", said)])
        return nothing()

    async def nodes(self, request: Request) -> Response:
        """The nodes of a cluster."""
        fleet = Fleet(self._parts, request)
        cluster = await fleet.name_of(request.path_params["clusterUuid"].lower())
        wanted, now = request.query_params.get("nodeName"), identity.now()
        found = [node for node in await fleet.nodes(cluster) if wanted in {None, node.name}]
        made = await self._parts.fleet.made()
        return answer({"nodes": [write_node(node, made[node.cluster], now) for node in found]})

    async def metrics(self, request: Request) -> Response:
        """Figures of a cluster, or of one of its pools: those that are known, at this moment."""
        names, now = words(request, "metricType", METRICS, least=1, most=_MOST_WORDS), identity.now()
        start, end = stretch_of_time(request)
        fleet, pool = Fleet(self._parts, request), request.path_params.get("nodepoolName")
        cluster = await fleet.name_of(request.path_params["clusterUuid"].lower())
        nodes = [one for one in await fleet.nodes(cluster) if pool in {None, one.pool or DEFAULT_POOL}]
        known = _figures(nodes)
        if "GPU_QUOTA" in names:
            known["GPU_QUOTA"] = await self._quota({node.pool or DEFAULT_POOL for node in nodes})
        return answer({"measurements": [_measurement(name, known, now, start, end) for name in names]})

    async def telemetry(self, request: Request) -> Response:
        """A figure of nodes, by cluster, node or pool."""
        (name,) = words(request, "telemetryType", list(_FIGURES), least=1, most=1)
        by = words(request, "groupBy", list(_GROUPS), least=0, most=_MOST_GROUPS)
        fleet, pool = Fleet(self._parts, request), request.query_params.get("nodepoolName")
        uuid = request.query_params.get("clusterId")
        cluster = await fleet.name_of(uuid.lower()) if uuid else ""
        groups: dict[tuple[tuple[str, str, str], ...], list[NodeView]] = {} if by else {(): []}
        for node in await fleet.nodes(cluster):
            if pool in {None, node.pool or DEFAULT_POOL}:
                groups.setdefault(tuple((key, *_GROUPS[key](node)) for key in by), []).append(node)
        values = [
            {
                "value": f"{_FIGURES[name](nodes):g}",
                "groups": [{"key": key, "value": value, "name": called} for key, value, called in group],
            }
            for group, nodes in sorted(groups.items())
        ]
        return answer({"type": name, "timestamp": identity.now().isoformat(), "values": values})

    async def _quota(self, pools: Iterable[str]) -> float:
        names = set(pools)
        seen = (await self._parts.access.rights(caller())).projects(Verb.PROJECTS_READ)
        projects = [one for one in await self._parts.tenancy.all_projects() if seen is None or one.name in seen]
        held = [quota.gpu_deserved for one in projects for quota in one.quotas if quota.node_pool in names]
        return float(amounts.gpus(sum(held)))


class NameStays(BadBody):
    """A cluster's name is how Muster knows it."""

    reason = "NAME_STAYS"
    status = 409


def _figures(nodes: Sequence[NodeView]) -> dict[str, float]:
    total = sum(len(node.devices) for node in nodes)
    return {"TOTAL_GPU": float(total), "ALLOCATED_GPU": total - sum(free(node) for node in nodes)}


def _measurement(name: str, known: dict[str, float], now: datetime, start: datetime, end: datetime) -> dict[str, Any]:
    values = []
    if name in known and start <= now <= end:
        values = [{"value": f"{known[name]:g}", "timestamp": now.isoformat()}]
    return {"type": name, "labels": {}, "values": values}


def _full(request: Request) -> bool:
    return one_of(request, "verbosity", ["full", "metadata"], "full") == "full"


def _times() -> list[Parameter]:
    moment = {"type": "string", "format": "date-time"}
    return [
        Parameter("start", "From when.", moment, required=True),
        Parameter("end", "Until when.", moment, required=True),
        Parameter("numberOfSamples", "At most so many samples.", {"type": "integer", "minimum": 0, "maximum": 1000}),
    ]


def _one_of(name: str, said: str, words: Sequence[str], *, several: bool = False, required: bool = True) -> Parameter:
    word = {"type": "string", "enum": list(words)}
    schema = {"type": "array", "items": word, "maxItems": _MOST_WORDS} if several else word
    return Parameter(name, said, schema, required=required)


def operations(parts: Parts) -> list[Operation]:
    """Clusters and nodes."""
    return Clusters(parts).operations()
