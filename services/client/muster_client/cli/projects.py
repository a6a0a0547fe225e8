"""Verbs about projects: `muster projects ..`."""

from __future__ import annotations

from rich.console import Group

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.options import Common
from muster_client.cli.org_units import Files, Several, apply, calling, changed_parts, given_quota, given_quotas, tell
from muster_client.cli.render import organisation as shown

_NO_OPTIONS = Common()


async def list_projects(*, department: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists projects with their quotas.

    Args:
        department: Only this department's.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.projects.list(department=department)]
    nothing = "no projects; `muster projects create NAME --quota default=4` makes one"
    return tell(common, found, shown.projects(found) if found else nothing)


async def get_project(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one project.

    Args:
        name: The project.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.projects.get(name)
    return tell(common, found, shown.project(found))


async def show_shares(*names: str, common: Common = _NO_OPTIONS) -> int:
    """Shows what projects hold and want in each node pool, beside what they deserve and their fair share now.

    Below that it says where quotas promise more than can be kept, and who holds more than they allow by now.

    Args:
        names: Only these projects.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.projects.shares(names)
        for name in sorted({*names}.difference(each.project for each in found)):
            await muster.projects.get(name)  # or a name that is misspelled looks like a project without work
    if not found:
        return tell(common, found, "nothing is held, and nothing waits")
    table, promises = shown.shares(found), shown.promises(found)
    return tell(common, found, Group(table, promises) if promises else table)


async def create_project(
    name: str,
    *,
    quota: Several = None,
    department: str = "",
    namespace: str = "",
    node_pool: Several = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Makes a project.

    Args:
        name: Its name.
        quota: What it deserves in a node pool, as POOL=GPUS, or GPUS alone for the pool default. May be repeated.
        department: Its department; else default.
        namespace: Its namespace; else runai-NAME.
        node_pool: A node pool that its workloads try by default. May be repeated, the preferred one first.
        common: Connection.
    """
    quotas = given_quotas(quota)
    async with calling(common) as muster:
        made = await muster.projects.create(
            name, department=department, namespace=namespace, quotas=quotas, node_pools=node_pool or ()
        )
    place = f"in department {made.department}, namespace {made.namespace}"
    return tell(common, made, f"project {made.name} {place}: {shown.deserves(made)}")


async def update_project(
    name: str,
    *,
    description: str | None = None,
    rank: int | None = None,
    rule: Several = None,
    node_pool: Several = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Changes parts of a project; what is not named stays.

    Args:
        name: The project.
        description: What people say of it.
        rank: Who comes first where the department's surplus is shared out: the higher one.
        rule: A rule as NAME=SECONDS, such as trainingTimeLimitSeconds=3600, or NAME=none. May be repeated.
        node_pool: The node pools that its workloads try by default, instead of those before. May be repeated.
        common: Connection.
    """
    async with calling(common) as muster:
        known = await muster.projects.get(name)
        parts = changed_parts(known, description, rank, rule)
        if node_pool:
            del known.default_node_pools[:]
            known.default_node_pools.extend(node_pool)
            parts.append("default_node_pools")
        made = await muster.projects.update(known, parts) if parts else known
    return tell(common, made, shown.project(made))


async def apply_projects(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the projects of files.

    Args:
        file: YAML documents of kind Project; the guide to projects says what stands in them. May be given several
            times. What a document leaves out goes back to nothing.
        common: Connection.
    """
    async with common.muster() as muster:

        async def create(asked: tenancy_pb2.Project) -> tenancy_pb2.Project:
            return await muster.projects.create(asked.name, like=asked)

        return await apply(common, file, tenancy_pb2.Project, muster.projects.update, create)


async def set_quota(
    name: str,
    gpus: str,
    *,
    pool: str = "default",
    limit: str | None = None,
    weight: str = "1",
    common: Common = _NO_OPTIONS,
) -> int:
    """Sets what a project deserves in a node pool. Less than it uses is legal and stops nothing.

    Args:
        name: The project.
        gpus: How many GPUs it deserves, such as 4 or 0.5.
        pool: The node pool.
        limit: The most it may hold; left out: no limit.
        weight: Its weight where what nobody deserves is shared out.
        common: Connection.
    """
    quota = given_quota(pool, gpus, limit, weight)
    async with calling(common) as muster:
        made = await muster.projects.set_quota(name, quota)
    return tell(common, made, f"project {made.name}: {shown.deserves(made)}")


async def delete_project(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a project with its templates, triggers and access rules; not while workloads of it have not ended.

    Args:
        name: The project.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.projects.delete(name)
    return tell(common, {"deleted": name}, f"project {name} is gone")
