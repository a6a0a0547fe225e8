"""Verbs about departments: `muster departments ..`."""

from __future__ import annotations

from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.options import Common
from muster_client.cli.org_units import Files, Several, apply, calling, changed_parts, given_quota, given_quotas, tell
from muster_client.cli.render import organisation as shown
from muster_client.errors import InvalidInput

_NO_OPTIONS = Common()


async def list_departments(*, common: Common = _NO_OPTIONS) -> int:
    """Lists departments with their quotas."""
    async with common.muster() as muster:
        found = [each async for each in muster.departments.list()]
    return tell(common, found, shown.departments(found) if found else "no departments that you may see")


async def get_department(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Tells everything about one department.

    Args:
        name: The department.
        common: Connection.
    """
    async with common.muster() as muster:
        found = await muster.departments.get(name)
    return tell(common, found, shown.department(found))


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
    asked = tenancy_pb2.Department(name=name, quotas=given_quotas(quota), rank=rank, description=description)
    async with calling(common) as muster:
        made = await muster.departments.create(asked)
    return tell(common, made, f"department {made.name}: {shown.deserves(made)}")


async def update_department(
    name: str,
    *,
    description: str | None = None,
    rank: int | None = None,
    rule: Several = None,
    common: Common = _NO_OPTIONS,
) -> int:
    """Changes parts of a department; what is not named stays.

    Args:
        name: The department.
        description: What people say of it.
        rank: Who comes first where the surplus is shared out: the higher one.
        rule: A rule as NAME=SECONDS, such as trainingTimeLimitSeconds=3600, or NAME=none. May be repeated.
        common: Connection.
    """
    async with calling(common) as muster:
        known = await muster.departments.get(name)
        parts = changed_parts(known, description, rank, rule)
        made = await muster.departments.update(known, parts) if parts else known
    return tell(common, made, shown.department(made))


async def apply_departments(*, file: Files, common: Common = _NO_OPTIONS) -> int:
    """Makes or changes the departments of files.

    Args:
        file: YAML documents of kind Department. May be given several times. What one leaves out goes back to nothing.
        common: Connection.
    """
    async with common.muster() as muster:
        there = muster.departments
        return await apply(common, file, tenancy_pb2.Department, there.update, there.create)


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
    async with calling(common) as muster:
        made = await muster.departments.set_quota(name, quota)
    return tell(common, made, f"department {made.name}: {shown.deserves(made)}")


async def delete_department(name: str, *, common: Common = _NO_OPTIONS) -> int:
    """Removes a department; not while it has projects.

    Args:
        name: The department.
        common: Connection.
    """
    async with common.muster() as muster:
        await muster.departments.delete(name)
    return tell(common, {"deleted": name}, f"department {name} is gone")
