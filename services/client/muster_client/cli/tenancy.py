"""Verbs about projects and templates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.documents import read_files, refused
from muster_client.cli.exits import Exit
from muster_client.cli.options import Common
from muster_client.cli.output import emit, say
from muster_client.cli.render import tables
from muster_client.cli.render.amounts import gpus
from muster_client.errors import InvalidInput, MusterError
from muster_client.quotas import pool_quota

_NO_OPTIONS = Common()
Files = Annotated[list[Path], Parameter(name=["--file", "-f"], negative="")]


async def list_projects(*, common: Common = _NO_OPTIONS) -> int:
    """Lists projects with their quotas."""
    async with common.muster() as muster:
        found = [each async for each in muster.projects.list()]
    if common.json:
        emit(found)
    else:
        nothing = "no projects; `muster projects create NAME --quota default=4` makes one"
        say(tables.projects(found) if found else nothing)
    return Exit.OK


async def create_project(
    name: str,
    *,
    quota: Annotated[list[str] | None, Parameter(negative="")] = None,
    department: str = "",
    namespace: str = "",
    node_pool: Annotated[list[str] | None, Parameter(negative="")] = None,
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
    quotas = [_quota(text) for text in quota or ()]
    async with common.muster() as muster:
        made = await muster.projects.create(
            name, department=department, namespace=namespace, quotas=quotas, node_pools=node_pool or ()
        )
    if common.json:
        emit(made)
    else:
        say(f"project {made.name} in department {made.department}, namespace {made.namespace}: {_deserves(made)}")
    return Exit.OK


async def set_quota(
    name: str,
    gpus: str,
    *,
    pool: str = "default",
    limit: str | None = None,
    weight: int = 1,
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
    try:
        quota = pool_quota(pool, gpus, limit=limit, weight=weight)
    except ValueError as problem:
        raise InvalidInput(str(problem)) from None
    async with common.muster() as muster:
        made = await muster.projects.set_quota(name, quota)
    if common.json:
        emit(made)
    else:
        say(f"project {made.name}: {_deserves(made)}")
    return Exit.OK


def _quota(text: str) -> tenancy_pb2.PoolQuota:
    pool, equals, amount = text.rpartition("=")
    try:
        return pool_quota(pool if equals else "default", amount)
    except ValueError as problem:
        raise InvalidInput(f"--quota {text}: {problem}; write POOL=GPUS, such as default=4") from None


def _deserves(project: tenancy_pb2.Project) -> str:
    told = [f"{gpus(quota.gpu_deserved)} GPUs in {quota.node_pool}" for quota in project.quotas]
    return f"deserves {', '.join(told)}" if told else "deserves nothing yet (`muster projects set-quota`)"


async def list_templates(*, common: Common = _NO_OPTIONS) -> int:
    """Lists the templates of a project and the global ones."""
    async with common.muster() as muster:
        found = [each async for each in muster.templates.list(project=common.project or "")]
    if common.json:
        emit(found)
    else:
        say(tables.templates(found) if found else "no templates; `muster templates apply -f FILE` makes one")
    return Exit.OK


async def apply_templates(
    *,
    file: Files,
    everywhere: Annotated[bool, Parameter(name="--global", negative="")] = False,
    common: Common = _NO_OPTIONS,
) -> int:
    """Makes or changes the templates of the files.

    Args:
        file: A file of documents with `usage: Template`; - reads standard input. May be given several times.
        everywhere: For all projects.
        common: Connection.
    """
    made = []
    async with common.muster() as muster:
        for piece in read_files(file, done="no template was applied"):
            project = "" if everywhere else await common.project_for(muster, piece.document.namespace)
            try:
                made.append(await muster.templates.apply(piece.text, project=project, everywhere=everywhere))
            except MusterError as problem:
                raise refused(piece, problem, done="this template was not applied") from None
    if common.json:
        emit(made)
    else:
        for each in made:
            say(f"template {each.name} in {each.project or 'all projects'}: version {each.version}")
    return Exit.OK
