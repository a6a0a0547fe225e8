"""Verbs about node pools: `muster node-pools ..`."""

from __future__ import annotations

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.options import Common
from muster_client.cli.org_files import PLACEMENTS
from muster_client.cli.org_units import Files, apply, calling, tell
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput

_NO_OPTIONS = Common()


async def list_pools(*, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists node pools.

    Args:
        cluster: Only this cluster's.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.node_pools.list(cluster=cluster)]
    return tell(common, found, shown.node_pools(found) if found else "no node pools: no cluster is registered")


async def create_pool(
    cluster: str,
    name: str,
    *,
    label: str,
    gpu_placement: str = "binpack",
    cpu_placement: str = "binpack",
    memory_as_slices: bool = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Makes a node pool of the nodes that carry a label.

    Args:
        cluster: The cluster.
        name: Its name. Pools of one name in several clusters share their quotas.
        label: The nodes' label, as KEY=VALUE.
        gpu_placement: binpack, spread, fgd or foresight, for work that asks for GPUs.
        cpu_placement: The same, for the rest.
        memory_as_slices: A request for GPU memory gets the smallest MIG slice that holds it.
        common: Connection.
    """
    key, equals, value = label.partition("=")
    for option, word in (("gpu", gpu_placement), ("cpu", cpu_placement)):
        if word not in PLACEMENTS:
            raise InvalidInput(f"--{option}-placement {word}: one of {', '.join(PLACEMENTS)}")
    if not equals:
        raise InvalidInput(f"--label {label}: write KEY=VALUE")
    asked = tenancy_pb2.NodePool(
        cluster=cluster,
        name=name,
        label_key=key,
        label_value=value,
        gpu_placement=PLACEMENTS[gpu_placement],
        cpu_placement=PLACEMENTS[cpu_placement],
        memory_as_slices=memory_as_slices,
    )
    async with calling(common) as muster:
        made = await muster.node_pools.create(asked)
    where = f"nodes with {made.label_key}={made.label_value}"
    return tell(common, made, f"node pool {made.name} of cluster {made.cluster}: {where}")


async def apply_pools(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the node pools of files.

    Args:
        file: YAML documents of kind NodePool. May be given several times.
        common: Connection.
    """
    async with common.muster() as muster:
        there = muster.node_pools
        return await apply(common, file, tenancy_pb2.NodePool, there.update, there.create)


async def delete_pool(cluster: str, name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a node pool; its nodes are where another pool's label puts them, else their agent.

    Args:
        cluster: The cluster.
        name: The pool.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.node_pools.delete(cluster, name)
    return tell(common, {"cluster": cluster, "deleted": name}, f"node pool {name} of cluster {cluster} is gone")
