"""Verbs about departments and node pools: `muster departments ..`, `muster node-pools ..`."""

from __future__ import annotations

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.org_files import PLACEMENTS, records
from muster_client.cli.output import emit, say
from muster_client.cli.projects import Files, Several, given_quota, parse_quota
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput, NotFound

_NO_OPTIONS = Common()


async def list_departments(*, common: Common = _NO_OPTIONS) -> int:
    """Lists departments with their quotas."""
    async with common.muster() as muster:
        found = [each async for each in muster.departments.list()]
    if common.json:
        emit(found)
    else:
        say(shown.departments(found) if found else "no departments that you may see")
    return Exit.OK


async def get_department(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one department.

    Args:
        name: The department.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.departments.get(name)
    if common.json:
        emit(found)
    else:
        say(shown.department(found))
    return Exit.OK


async def create_department(
    name: str, *, quota: Several = None, rank: int = 0, description: str = "", common: Common = _NO_OPTIONS
) -> int:
    """Makes a department.

    Args:
        name: Its name.
        quota: What it deserves in a node pool, as POOL=GPUS, or GPUS alone for the pool default. May be repeated.
        rank: Who comes first where the surplus is shared out: the higher one.
        description: What people say of it.
        common: Connection.
    """
    if rank < 0:
        raise InvalidInput(f"--rank {rank}: 0 or more")
    asked = tenancy_pb2.Department(
        name=name, quotas=[parse_quota(text) for text in quota or ()], rank=rank, description=description
    )
    async with common.muster() as muster:
        made = await muster.departments.create(asked)
    if common.json:
        emit(made)
    else:
        say(f"department {made.name}: {shown.deserves(made)}")
    return Exit.OK


async def apply_departments(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the departments of files.

    Args:
        file: YAML documents of kind Department. May be given several times. What one leaves out goes back to nothing.
        common: Connection.
    """
    made: list[tenancy_pb2.Department] = []
    async with common.muster() as muster:
        for _, asked in records(file, tenancy_pb2.Department):
            try:
                made.append(await muster.departments.update(asked))
            except NotFound:
                made.append(await muster.departments.create(asked))
            if not common.json:
                say(f"department {made[-1].name}: version {made[-1].version}, {shown.deserves(made[-1])}")
    if common.json:
        emit(made)
    return Exit.OK


async def set_department_quota(
    name: str,
    gpus: str,
    *,
    pool: str = "default",
    limit: str | None = None,
    weight: str = "1",
    common: Common = _NO_OPTIONS,
) -> int:
    """Sets what a department deserves in a node pool.

    Args:
        name: The department.
        gpus: How many GPUs it deserves, such as 4 or 0.5.
        pool: The node pool.
        limit: The most it may hold; left out: no limit.
        weight: Its weight where what nobody deserves is shared out.
        common: Connection.
    """
    quota = given_quota(pool, gpus, limit, weight)
    async with common.muster() as muster:
        made = await muster.departments.set_quota(name, quota)
    if common.json:
        emit(made)
    else:
        say(f"department {made.name}: {shown.deserves(made)}")
    return Exit.OK


async def delete_department(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a department; not while it has projects.

    Args:
        name: The department.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.departments.delete(name)
    if common.json:
        emit({"deleted": name})
    else:
        say(f"department {name} is gone")
    return Exit.OK


async def list_pools(*, cluster: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists node pools.

    Args:
        cluster: Only this cluster's.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.node_pools.list(cluster=cluster)]
    if common.json:
        emit(found)
    else:
        say(shown.node_pools(found) if found else "no node pools: no cluster is registered")
    return Exit.OK


async def create_pool(
    cluster: str,
    name: str,
    *,
    label: str,
    gpu_placement: str = "binpack",
    cpu_placement: str = "binpack",
    common: Common = _NO_OPTIONS,
) -> int:
    """Makes a node pool of the nodes that carry a label.

    Args:
        cluster: The cluster.
        name: Its name. Pools of one name in several clusters share their quotas.
        label: The nodes' label, as KEY=VALUE.
        gpu_placement: binpack or spread, for work that asks for GPUs.
        cpu_placement: binpack or spread, for the rest.
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
    )
    async with common.muster() as muster:
        made = await muster.node_pools.create(asked)
    if common.json:
        emit(made)
    else:
        say(f"node pool {made.name} of cluster {made.cluster}: nodes with {made.label_key}={made.label_value}")
    return Exit.OK


async def apply_pools(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the node pools of files.

    Args:
        file: YAML documents of kind NodePool. May be given several times.
        common: Connection.
    """
    made: list[tenancy_pb2.NodePool] = []
    async with common.muster() as muster:
        for _, asked in records(file, tenancy_pb2.NodePool):
            try:
                made.append(await muster.node_pools.update(asked))
            except NotFound:
                made.append(await muster.node_pools.create(asked))
            if not common.json:
                say(f"node pool {made[-1].name} of cluster {made[-1].cluster}: version {made[-1].version}")
    if common.json:
        emit(made)
    return Exit.OK


async def delete_pool(cluster: str, name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a node pool; its nodes fall to the pool default.

    Args:
        cluster: The cluster.
        name: The pool.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.node_pools.delete(cluster, name)
    if common.json:
        emit({"cluster": cluster, "deleted": name})
    else:
        say(f"node pool {name} of cluster {cluster} is gone")
    return Exit.OK
