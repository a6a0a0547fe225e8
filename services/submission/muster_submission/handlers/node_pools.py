"""Making, changing and removing node pools, and noting the clusters and pools that the fleet has.

Called by the rpc and the REST routes. Holds: a pool's name is unique in its cluster and so is its label; the pool
`default` of a cluster is always there; every change goes out on muster.tenancy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask

from muster.events.v1 import submission_pb2 as events
from muster.tenancy.v1.tenancy_pb2 import NodePool
from muster_chassis.database import Database
from muster_chassis.topics import TENANCY
from muster_chassis.unit import Unit
from muster_submission.domain.fleet import DEFAULT_POOL, Pool, check_pool
from muster_submission.errors import DraftRefused, NameTaken, NoSuchCluster, NoSuchNodePool, StillInUse
from muster_submission.handlers.changes import take
from muster_submission.ports import FleetBooks

CHANGEABLE: Final = (
    "label_key",
    "label_value",
    "gpu_placement",
    "cpu_placement",
    "over_provisioning_ratio",
    "topology_levels",
    "memory_as_slices",
)


class NodePools:
    """Changes node pools."""

    def __init__(self, books: FleetBooks) -> None:
        self._books = books

    async def create(self, unit: Unit, asked: NodePool, by: str) -> NodePool:
        """Makes a node pool. Raises DraftRefused, NoSuchCluster and NameTaken."""
        _check(asked)
        if not await self._books.cluster_known(unit, asked.cluster):
            raise NoSuchCluster(f"no cluster {asked.cluster!r} is registered; `muster clusters` lists them")
        pool = NodePool()
        pool.CopyFrom(asked)
        pool.created_by = by
        taken = await self._books.add(unit, pool)
        if taken:
            raise NameTaken(_taken(taken, pool))
        _tell(unit, pool)
        return pool

    async def update(self, unit: Unit, asked: NodePool, mask: FieldMask, by: str) -> NodePool:
        """Changes what the mask names. Raises NoSuchNodePool, ChangedMeanwhile, DraftRefused and NameTaken."""
        pool = await self._locked(unit, asked.cluster, asked.name)
        known = pool.label_key
        take(pool, asked, mask, CHANGEABLE)
        _check(pool, label_needed=bool(known))
        pool.version += 1
        pool.updated_by = by
        pool.updated_at.FromDatetime(unit.now)
        if not await self._books.save(unit, pool):
            raise NameTaken(_taken("label", pool))
        _tell(unit, pool)
        return pool

    async def delete(self, unit: Unit, cluster: str, name: str) -> None:
        """Removes a node pool; its nodes go where a label or their agent says. Raises NoSuchNodePool and StillInUse."""
        pool = await self._locked(unit, cluster, name)
        if name == DEFAULT_POOL:
            raise StillInUse(f"node pool {name} of cluster {cluster} is always there: it has what no other pool has")
        await self._books.remove(unit, pool)
        unit.publish(TENANCY, f"pool/{pool.id}", None)

    async def note(self, database: Database, clusters: Iterable[str], pools: Iterable[tuple[str, str]] = ()) -> None:
        """Notes what the scheduler knows of the fleet, where that is new. pools: (cluster, name), seen on nodes."""
        names, seen = sorted(set(clusters)), sorted(set(pools))
        if not await self._books.unknown(names, seen):
            return
        async with database.unit() as unit:
            for pool in await self._books.note(unit, names, seen):
                _tell(unit, pool)

    async def _locked(self, unit: Unit, cluster: str, name: str) -> NodePool:
        clean = "\x00" not in cluster and "\x00" not in name
        pool = await self._books.lock(unit, cluster, name) if clean else None
        if pool is None:
            raise NoSuchNodePool(f"cluster {cluster!r} has no node pool {name!r}; `muster node-pools` lists them")
        return pool


def _check(pool: NodePool, *, label_needed: bool = True) -> None:
    levels = tuple(pool.topology_levels)
    asked = Pool(pool.name, pool.label_key, pool.label_value, pool.over_provisioning_ratio, levels)
    problems = check_pool(asked, label_needed=label_needed)
    if problems:
        raise DraftRefused("the node pool", problems)


def _taken(what: str, pool: NodePool) -> str:
    if what == "name":
        return f"cluster {pool.cluster} has a node pool {pool.name!r}: choose another name, or change that one"
    label = f"{pool.label_key}={pool.label_value}"
    return f"another node pool of cluster {pool.cluster} has the label {label}: a node can be in one pool only"


def _tell(unit: Unit, pool: NodePool) -> None:
    unit.publish(TENANCY, f"pool/{pool.id}", events.NodePoolChanged(node_pool=pool))
