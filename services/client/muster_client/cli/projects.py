"""Verbs about projects: `muster projects ..`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.org_files import records
from muster_client.cli.output import emit, say
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput, NotFound
from muster_client.quotas import pool_quota

_NO_OPTIONS = Common()
Files = Annotated[list[Path], Parameter(name=["--file", "-f"], negative="")]
Several = Annotated[list[str] | None, Parameter(negative="")]


async def list_projects(*, department: str = "", common: Common = _NO_OPTIONS) -> int:
    """Lists projects with their quotas.

    Args:
        department: Only this department's.
        common: Connection.
    """
    async with common.muster() as muster:
        found = [each async for each in muster.projects.list(department=department)]
    if common.json:
        emit(found)
    else:
        nothing = "no projects; `muster projects create NAME --quota default=4` makes one"
        say(shown.projects(found) if found else nothing)
    return Exit.OK


async def get_project(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one project.

    Args:
        name: The project.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.projects.get(name)
    if common.json:
        emit(found)
    else:
        say(shown.project(found))
    return Exit.OK


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
    quotas = [parse_quota(text) for text in quota or ()]
    async with common.muster() as muster:
        made = await muster.projects.create(
            name, department=department, namespace=namespace, quotas=quotas, node_pools=node_pool or ()
        )
    if common.json:
        emit(made)
    else:
        say(f"project {made.name} in department {made.department}, namespace {made.namespace}: {shown.deserves(made)}")
    return Exit.OK


async def apply_projects(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the projects of files.

    Args:
        file: YAML documents of kind Project; the guide to projects says what stands in them. May be given several
            times. What a document leaves out goes back to nothing.
        common: Connection.
    """
    made: list[tenancy_pb2.Project] = []
    async with common.muster() as muster:
        for _, asked in records(file, tenancy_pb2.Project):
            try:
                made.append(await muster.projects.update(asked))
            except NotFound:
                made.append(await muster.projects.create(asked.name, like=asked))
            if not common.json:
                say(f"project {made[-1].name}: version {made[-1].version}, {shown.deserves(made[-1])}")
    if common.json:
        emit(made)
    return Exit.OK


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
    async with common.muster() as muster:
        made = await muster.projects.set_quota(name, quota)
    if common.json:
        emit(made)
    else:
        say(f"project {made.name}: {shown.deserves(made)}")
    return Exit.OK


async def delete_project(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a project with its templates, triggers and access rules; not while workloads of it have not ended.

    Args:
        name: The project.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.projects.delete(name)
    if common.json:
        emit({"deleted": name})
    else:
        say(f"project {name} is gone")
    return Exit.OK


def given_quota(pool: str, gpus: str, limit: str | None, weight: str) -> tenancy_pb2.PoolQuota:
    """A quota from options. Raises InvalidInput."""
    try:
        return pool_quota(pool, gpus, limit=limit, weight=weight)
    except ValueError as problem:
        raise InvalidInput(str(problem)) from None


def parse_quota(text: str) -> tenancy_pb2.PoolQuota:
    """A quota as POOL=GPUS. Raises InvalidInput."""
    pool, equals, amount = text.rpartition("=")
    try:
        return pool_quota(pool if equals else "default", amount)
    except ValueError as problem:
        raise InvalidInput(f"--quota {text}: {problem}; write POOL=GPUS, such as default=4") from None
