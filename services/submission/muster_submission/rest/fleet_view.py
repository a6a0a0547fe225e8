"""The fleet as the REST API sees it: asked of the scheduler, with the UUIDs, times and pools that are kept here.

Called by the routes of clusters, node pools, projects and departments. Holds: what the scheduler names for the first
time is noted, so that it has a UUID, a time and its pools before anyone is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message
from starlette.requests import Request

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc
from muster.fleet.v1.fleet_pb2 import Account, Cluster, NodeView
from muster.tenancy.v1.tenancy_pb2 import NodePool
from muster_chassis import logs
from muster_chassis.rpc import caller
from muster_submission.domain.access import Verb
from muster_submission.domain.fleet import cluster_uuid
from muster_submission.errors import NoSuchCluster, OwnerSilent
from muster_submission.rest.parts import Parts
from muster_submission.rest.quotas import Pools

_log = logs.get(__name__)
_PAGE = 500
_MOST_PROJECTS = 500
_GLANCE = 3.0  # seconds: what is in use is worth waiting for, but not for long
_STUB = fleet_pb2_grpc.FleetServiceStub


class Asking:
    """What a question to another service takes of a call, from a REST request."""

    def __init__(self, request: Request, seconds: float | None = None) -> None:
        self._token = request.headers.get("authorization", "")
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        """Seconds that the answer is worth waiting for; None: the edge's own limit holds."""
        return self._seconds

    def invocation_metadata(self) -> Sequence[tuple[str, str]]:
        """The caller's own token."""
        return [("authorization", self._token)] if self._token else []


class Fleet:
    """Questions about the fleet, for one request."""

    def __init__(self, parts: Parts, request: Request) -> None:
        self._parts = parts
        self._asking = Asking(request)
        self._glance = Asking(request, _GLANCE)
        self._known_pools: Sequence[NodePool] | None = None

    async def clusters(self) -> list[Cluster]:
        """The clusters that the caller may see, by name."""
        found = await self._all(api.ListClustersRequest, api.ListClustersResponse, "ListClusters", lambda a: a.clusters)
        await self._parts.node_pools.note(self._parts.database, [one.id for one in found])
        seen = (await self._parts.access.rights(caller())).clusters(Verb.CLUSTERS_READ)
        return [one for one in found if seen is None or one.id in seen]

    async def cluster(self, uuid: str) -> Cluster:
        """The cluster of that UUID. Raises NoSuchCluster."""
        for one in await self.clusters():
            if cluster_uuid(one.id) == uuid:
                return one
        raise no_cluster(uuid)

    async def name_of(self, uuid: str) -> str:
        """The name of the cluster with that UUID, whether or not the scheduler answers. Raises NoSuchCluster."""
        name = await self._parts.fleet.cluster_of_uuid(uuid)
        if name is None:
            name = (await self.cluster(uuid)).id
        rights = await self._parts.access.rights(caller())
        rights.require(Verb.CLUSTERS_READ, cluster=name, absent=no_cluster(uuid))
        return name

    async def nodes(self, cluster: str = "") -> list[NodeView]:
        """The nodes of a cluster, or of all that the caller may see."""
        found = await self._all(
            lambda **page: api.ListNodesRequest(cluster=cluster, **page),
            api.ListNodesResponse,
            "ListNodes",
            lambda answer: answer.nodes,
        )
        seen = (await self._parts.access.rights(caller())).clusters(Verb.CLUSTERS_READ)
        shown = [one for one in found if seen is None or one.cluster in seen]
        pools = {(one.cluster, one.pool) for one in shown if one.pool}
        await self._parts.node_pools.note(self._parts.database, {one.cluster for one in shown}, pools)
        return shown

    async def pools(self, home: str = "") -> Pools:
        """The node pools of the fleet, by number and by name."""
        if self._known_pools is None:
            self._known_pools = await self._parts.fleet.pools()
        return Pools(self._known_pools, home)

    async def accounts(self, projects: Iterable[str]) -> list[Account]:
        """What projects hold and ask for; nothing where the scheduler does not answer: the rest is worth showing."""
        names = sorted(set(projects))
        found: list[Account] = []
        try:
            for at in range(0, len(names), _MOST_PROJECTS):
                asked = api.ListAccountsRequest(projects=names[at : at + _MOST_PROJECTS])
                found += (await self._ask("ListAccounts", asked, api.ListAccountsResponse, self._glance)).accounts
        except OwnerSilent as problem:
            _log.warning("quota status is left out", why=problem.message)
        return found

    async def register(self, name: str) -> Cluster:
        """Makes a cluster known."""
        asked = api.RegisterClusterRequest(cluster=name, idempotency_key=f"rest-{name}")
        made: Cluster = (await self._ask("RegisterCluster", asked, api.RegisterClusterResponse)).cluster
        await self._parts.node_pools.note(self._parts.database, [made.id])
        return made

    async def _all(self, request: Callable[..., Message], answer: Any, method: str, rows: Callable[[Any], Any]) -> Any:
        found: list[Any] = []
        token = ""
        while True:
            page = await self._ask(method, request(page_size=_PAGE, page_token=token), answer)
            found += rows(page)
            token = page.next_page_token
            if not token:
                return found

    async def _ask(self, method: str, request: Message, answer: Any, asking: Asking | None = None) -> Any:
        return await self._parts.scheduler.ask(_STUB, method, request, answer, asking or self._asking)


def no_cluster(uuid: str) -> NoSuchCluster:
    """What is said of a cluster that is not there, or hidden."""
    return NoSuchCluster(f"no cluster has the id {uuid[:80]!r}; GET /api/v1/clusters lists them")
