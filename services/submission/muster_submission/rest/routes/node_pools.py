"""/v1/k8s/clusters/{id}/node-pools, and /api/v1/node-pools of later versions: pools by label, with their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.field_mask_pb2 import FieldMask
from starlette.requests import Request
from starlette.responses import Response

from muster.api.v1 import tenancy_pb2 as api
from muster.fleet.v1.fleet_pb2 import NodeView
from muster.tenancy.v1.tenancy_pb2 import NodePool
from muster_chassis.rpc import caller
from muster_submission.domain.access import Verb
from muster_submission.domain.fleet import LARGEST_RATIO
from muster_submission.errors import NoSuchNodePool, OwnerSilent
from muster_submission.rest import org_lists, org_shapes
from muster_submission.rest.answers import accepted, answer, nothing
from muster_submission.rest.bodies import read_object
from muster_submission.rest.cluster_bodies import PLACEMENTS, write_pool
from muster_submission.rest.fleet_shapes import NEW_POOL, POOL, POOL_CREATION, POOL_LABELS, POOL_UPDATE
from muster_submission.rest.fleet_view import Fleet
from muster_submission.rest.members import Findings, join
from muster_submission.rest.operation import ERROR, MUSTER, Answer, Body, Operation, array_of, path_id, refusal
from muster_submission.rest.org_lists import Listing
from muster_submission.rest.org_units import shown_cluster
from muster_submission.rest.parts import Parts
from muster_submission.rest.requests import idempotency_key, number_of

OLD: Final = "/v1/k8s/clusters/{clusterId}/node-pools"
NEW: Final = "/api/v1/node-pools"
_TAG: Final = "Node pools"
_UPDATABLE: Final = (
    "labelKey",
    "labelValue",
    "placementStrategy",
    "overProvisioningRatio",
    "topologyLevels",
    "memoryAsSlices",
)
_CLUSTER: Final = path_id("clusterId", "The cluster's UUID.")
_ID: Final = path_id("id", "The node pool's id.", form="")
_NEW_ID: Final = path_id("nodepoolId", "The node pool's id.", form="")


class NodePools:
    """The handlers."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._listing: Listing[NodePool] = Listing(
            [
                org_lists.text("id", "the pool's id", lambda one: str(one.id)),
                org_lists.text("name", "its name", lambda one: one.name),
                org_lists.text("clusterId", "its cluster", lambda one: shown_cluster(one.cluster)),
                org_lists.time("createdAt", "when it was made", lambda one: one.created_at.ToDatetime()),
                org_lists.time("updatedAt", "when it was changed last", lambda one: one.updated_at.ToDatetime()),
            ],
            lambda one: one.id,
        )

    def operations(self) -> list[Operation]:
        """What is served."""
        at, labels = f"{OLD}/{{id}}", f"{OLD}/{{id}}/labels"
        all_of_it, one = Answer("The pools.", array_of(POOL)), Answer("The pool.", POOL)
        taken, stays = refusal("The name or the label is taken."), refusal("It is always there.")
        done = Answer("It is done.", ERROR)
        changed, renamed, made = Body(POOL_UPDATE), Body(POOL_LABELS), Body(POOL_CREATION)
        change, gone = {202: done, 409: taken}, {202: done, 409: stays}
        both = [_CLUSTER, _ID]
        return [
            _operation(
                "GET", OLD, "get_node_pools", "A cluster's node pools", self.of_cluster, {200: all_of_it}, [_CLUSTER]
            ),
            _operation(
                "POST",
                OLD,
                "create_node_pool",
                "Make a node pool",
                self.create,
                {201: one, 409: refusal("The name or the label is taken.", since="2.18")},
                [_CLUSTER],
                made,
            ),
            _operation("PUT", at, "update_node_pool", "Change a node pool", self.update, change, both, changed),
            _operation(
                "PUT", labels, "update_node_pool_labels", "Change its label", self.relabel, change, both, renamed
            ),
            _operation("DELETE", at, "delete_node_pool", "Remove a node pool", self.delete, gone, both),
            *self._later(),
        ]

    def _later(self) -> list[Operation]:
        """What versions after 2.18 have."""
        at, counted, pool = f"{NEW}/{{nodepoolId}}", f"{NEW}/count", Answer("The pool.", POOL)
        taken, stays = refusal("The label is taken."), refusal("It is always there.")
        page = {200: Answer("A page.", org_shapes.page_of("NodePools", "nodepools", POOL))}
        count = {200: Answer("The number.", org_shapes.COUNT)}
        lists, counts = self._listing.parameters(), self._listing.count_parameters()
        made, shown = {201: pool, 409: taken}, {200: pool}
        changed, gone = {200: pool, 409: taken}, {204: Answer("Gone."), 409: stays}
        one, new, change = [_NEW_ID], Body(NEW_POOL), Body(POOL_UPDATE)
        return [
            _later("GET", NEW, "list_nodepools", "The node pools", self.page, page, lists),
            _later("POST", NEW, "create_nodepool", "Make a node pool", self.create, made, body=new),
            _later("GET", counted, "count_nodepools", "How many", self.count, count, counts),
            _later("GET", at, "get_nodepool", "One node pool", self.get, shown, one),
            _later("PUT", at, "put_nodepool", "Change it", self.patch, changed, one, change),
            _later("PATCH", at, "patch_nodepool", "Change it", self.patch, changed, one, change),
            _later("DELETE", at, "delete_nodepool", "Remove it", self.remove, gone, one),
        ]

    async def of_cluster(self, request: Request) -> Response:
        """The pools of a cluster."""
        fleet = Fleet(self._parts, request)
        cluster = await fleet.name_of(request.path_params["clusterId"].lower())
        nodes = await _nodes(fleet, cluster)
        return answer([write_pool(pool, nodes) for pool in await self._parts.fleet.pools(cluster)])

    async def create(self, request: Request) -> Response:
        """201 with the pool; its cluster stands in the path, or in the body of later versions."""
        fleet, found = Fleet(self._parts, request), Findings()
        given = request.path_params.get("clusterId")
        members = ("name", *_UPDATABLE) if given else ("name", "clusterId", *_UPDATABLE)
        body = found.object(await read_object(request), "", members)
        pool, _ = _read(body, found)
        uuid = given or found.text(body.get("clusterId"), "clusterId")
        if not uuid:
            found.add("clusterId", "is missing: the id of the cluster whose nodes it takes")
        pool.name = found.text(body.get("name"), "name")
        found.raise_any("the node pool")
        pool.cluster = await fleet.name_of(uuid.lower())
        asked = api.CreateNodePoolRequest(node_pool=pool, idempotency_key=idempotency_key(request))
        made = (await self._parts.organisation.CreateNodePool(asked, None)).node_pool
        return answer(write_pool(made, []), 201)

    async def update(self, request: Request) -> Response:
        """202: it is done."""
        await self._change(request, await self._of_cluster(request))
        return accepted()

    async def relabel(self, request: Request) -> Response:
        """202: it is done."""
        await self._change(request, await self._of_cluster(request), ("labelKey", "labelValue"))
        return accepted()

    async def delete(self, request: Request) -> Response:
        """202: it is done."""
        await self._delete(request, await self._of_cluster(request))
        return accepted()

    async def page(self, request: Request) -> Response:
        """A page of what the caller may see."""
        page, following = self._listing.page(request, await self._visible())
        nodes = await _nodes(Fleet(self._parts, request))
        shown = [write_pool(pool, nodes) for pool in page]
        return answer({"nodepools": shown, **({} if following is None else {"next": following})})

    async def count(self, request: Request) -> Response:
        """How many of what the caller may see pass."""
        return answer({"count": self._listing.count(request, await self._visible())})

    async def get(self, request: Request) -> Response:
        """One pool."""
        pool = await self._pool(request.path_params["nodepoolId"])
        return answer(write_pool(pool, await _nodes(Fleet(self._parts, request), pool.cluster)))

    async def patch(self, request: Request) -> Response:
        """The pool as it is now."""
        changed = await self._change(request, await self._pool(request.path_params["nodepoolId"]))
        return answer(write_pool(changed, await _nodes(Fleet(self._parts, request), changed.cluster)))

    async def remove(self, request: Request) -> Response:
        """204."""
        await self._delete(request, await self._pool(request.path_params["nodepoolId"]))
        return nothing()

    async def _change(self, request: Request, pool: NodePool, known: Sequence[str] = _UPDATABLE) -> NodePool:
        found = Findings()
        asked, paths = _read(found.object(await read_object(request), "", known), found)
        found.raise_any("the node pool")
        asked.cluster, asked.name = pool.cluster, pool.name
        if not paths:
            return pool
        change = api.UpdateNodePoolRequest(
            node_pool=asked, update_mask=FieldMask(paths=paths), idempotency_key=idempotency_key(request)
        )
        changed: NodePool = (await self._parts.organisation.UpdateNodePool(change, None)).node_pool
        return changed

    async def _delete(self, request: Request, pool: NodePool) -> None:
        asked = api.DeleteNodePoolRequest(
            cluster=pool.cluster, name=pool.name, idempotency_key=idempotency_key(request)
        )
        await self._parts.organisation.DeleteNodePool(asked, None)

    async def _of_cluster(self, request: Request) -> NodePool:
        cluster = await Fleet(self._parts, request).name_of(request.path_params["clusterId"].lower())
        pool = await self._pool(request.path_params["id"])
        if pool.cluster != cluster:
            raise _no_pool(request.path_params["id"])
        return pool

    async def _pool(self, given: str) -> NodePool:
        """The pool with that id, where the caller may see it."""
        number = number_of(given)
        pool = None if number is None else await self._parts.fleet.by_id(number)
        if pool is None:
            raise _no_pool(given)
        rights = await self._parts.access.rights(caller())
        rights.require(Verb.NODE_POOLS_READ, cluster=pool.cluster, absent=_no_pool(given))
        return pool

    async def _visible(self) -> list[NodePool]:
        seen = (await self._parts.access.rights(caller())).clusters(Verb.NODE_POOLS_READ)
        return [one for one in await self._parts.fleet.pools() if seen is None or one.cluster in seen]


def _read(body: Mapping[str, Any], found: Findings) -> tuple[NodePool, list[str]]:
    """What can change of a pool, and what of it is there."""
    pool, paths = NodePool(), list[str]()
    for member, field in (("labelKey", "label_key"), ("labelValue", "label_value")):
        if body.get(member) is not None:
            setattr(pool, field, found.text(body[member], member))
            paths.append(field)
    if body.get("overProvisioningRatio") is not None:
        ratio = found.integer(body["overProvisioningRatio"], "overProvisioningRatio", 1, LARGEST_RATIO)
        pool.over_provisioning_ratio = ratio or 0
        paths.append("over_provisioning_ratio")
    if body.get("topologyLevels") is not None:
        pool.topology_levels.extend(found.texts(body["topologyLevels"], "topologyLevels"))
        paths.append("topology_levels")
    if body.get("memoryAsSlices") is not None:
        pool.memory_as_slices = found.boolean(body["memoryAsSlices"], "memoryAsSlices")
        paths.append("memory_as_slices")
    if body.get("placementStrategy") is not None:
        given = found.object(body["placementStrategy"], "placementStrategy", ("cpu", "gpu"))
        for kind, word in given.items():
            if word is None:
                continue
            if not isinstance(word, str) or word not in PLACEMENTS:
                found.add(join("placementStrategy", kind), f"expected one of {', '.join(PLACEMENTS)}")
                continue
            setattr(pool, f"{kind}_placement", PLACEMENTS[word])
            paths.append(f"{kind}_placement")
    return pool, paths


async def _nodes(fleet: Fleet, cluster: str = "") -> Sequence[NodeView]:
    """The nodes; none where the scheduler does not answer: the pools are worth showing without them."""
    try:
        return await fleet.nodes(cluster)
    except OwnerSilent:
        return []


def _no_pool(given: str) -> NoSuchNodePool:
    return NoSuchNodePool(f"no node pool has the id {given[:40]!r}; GET {NEW} lists them")


def _operation(method: Any, path: str, name: str, summary: str, *rest: Any, **more: Any) -> Operation:
    return Operation(method, path, name, _TAG, summary, *rest, **more)


def _later(method: Any, path: str, name: str, summary: str, *rest: Any, **more: Any) -> Operation:
    return _operation(method, path, name, summary, *rest, **more, since=MUSTER)


def operations(parts: Parts) -> list[Operation]:
    """Node pools."""
    return NodePools(parts).operations()
