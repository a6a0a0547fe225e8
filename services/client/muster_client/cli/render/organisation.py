"""Departments, projects and node pools as tables, and one of them as lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from muster.fleet.v1 import fleet_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster_client.cli.printable import one_line
from muster_client.cli.render.amounts import clock, cores, gpus, memory, time_of
from muster_client.cli.render.grid import grid
from muster_kernel.sentences import is_one

_PLACEMENTS = {
    tenancy_pb2.PLACEMENT_STRATEGY_SPREAD: "spread",
    tenancy_pb2.PLACEMENT_STRATEGY_FGD: "fgd",
    tenancy_pb2.PLACEMENT_STRATEGY_FORESIGHT: "foresight",
}
_HEADINGS = ["POOL", "DESERVED", "LIMIT", "WEIGHT"]
_NUMBERS = ["DESERVED", "LIMIT", "WEIGHT"]
_SHARES = ["DESERVED", "FAIR SHARE", "HELD", "WANTED", "WAITING"]
Unit = tenancy_pb2.Department | tenancy_pb2.Project


def deserves(unit: Unit) -> str:
    """What it deserves, in a sentence."""
    told = [f"{_counted(gpus(quota.gpu_deserved))} in {quota.node_pool}" for quota in unit.quotas]
    return f"deserves {', '.join(told)}" if told else "deserves nothing yet (`set-quota`)"


def _counted(amount: str) -> str:
    return f"{amount} {'GPU' if is_one(amount) else 'GPUs'}"


def applied(one: Unit | tenancy_pb2.NodePool) -> str:
    """What was made or changed, in a line."""
    if isinstance(one, tenancy_pb2.NodePool):
        return f"node pool {one.name} of cluster {one.cluster}: version {one.version}"
    noun = "project" if isinstance(one, tenancy_pb2.Project) else "department"
    return f"{noun} {one.name}: version {one.version}, {deserves(one)}"


def projects(items: Iterable[tenancy_pb2.Project]) -> Table:
    """One line a project and node pool."""
    rows: list[list[str | Text]] = []
    for each in items:
        for index, quota in enumerate(_quotas(each)):
            first = index == 0
            name, department, namespace = (each.name, each.department, each.namespace) if first else ("", "", "")
            rows.append([name, department, *quota, namespace])
    return grid(["NAME", "DEPARTMENT", *_HEADINGS, "NAMESPACE"], rows, right=_NUMBERS)


def shares(items: Iterable[fleet_pb2.Account]) -> Table:
    """One line a node pool and project; the pool's first, since shares are divided within it."""
    rows: list[list[str | Text]] = []
    for each in sorted(items, key=lambda one: (one.node_pool, one.project)):
        named = each.HasField("gpu_fair")
        deserved, fair = (gpus(each.gpu_deserved), gpus(each.gpu_fair)) if named else ("-", "-")
        held, wanted = gpus(each.allocated.gpu), gpus(each.requested.gpu)
        rows.append([each.node_pool, each.project, deserved, fair, held, wanted, str(each.pending_workloads)])
    return grid(["POOL", "PROJECT", *_SHARES], rows, right=_SHARES)


def promises(items: Iterable[fleet_pb2.Account]) -> str:
    """Where quotas promise more than can be kept, each once, with the pool; empty where all of them can be."""
    told = {f"{each.node_pool}: {said}": None for each in items for said in each.warnings}
    return "".join(f"\n{one_line(each)}" for each in told)


def departments(items: Iterable[tenancy_pb2.Department]) -> Table:
    """One line a department and node pool."""
    rows: list[list[str | Text]] = []
    for each in items:
        for index, quota in enumerate(_quotas(each)):
            rows.append([each.name if index == 0 else "", *quota, str(each.rank) if index == 0 else ""])
    return grid(["NAME", *_HEADINGS, "RANK"], rows, right=[*_NUMBERS, "RANK"])


def node_pools(items: Iterable[tenancy_pb2.NodePool]) -> Table:
    """One line a node pool."""
    return grid(
        ["NAME", "CLUSTER", "GPUS", "CPUS", "LABEL"],
        (
            [
                each.name,
                each.cluster,
                _PLACEMENTS.get(each.gpu_placement, "binpack"),
                _PLACEMENTS.get(each.cpu_placement, "binpack"),
                f"{each.label_key}={each.label_value}" if each.label_key else "-",
            ]
            for each in items
        ),
    )


def project(one: tenancy_pb2.Project) -> str:
    """Everything about a project."""
    lines = [
        f"Project     {one.name} (number {one.id}, version {one.version})",
        f"Department  {one.department}",
        f"Namespace   {one.namespace}",
        *_common(one),
    ]
    if one.default_node_pools:
        lines.append(f"Node pools  {', '.join(one.default_node_pools)}")
    for limit in one.user_limits:
        parts = []
        if limit.HasField("gpu_limit"):
            parts.append(_counted(gpus(limit.gpu_limit)))
        if limit.HasField("workload_limit"):
            parts.append(f"{limit.workload_limit} {'workload' if limit.workload_limit == 1 else 'workloads'} at once")
        where = f"in {limit.node_pool}" if limit.node_pool else "in all"
        lines.append(f"Each user   at most {' and '.join(parts) or 'anything'} {where}")
    return "\n".join(map(one_line, lines))


def department(one: tenancy_pb2.Department) -> str:
    """Everything about a department."""
    lines = [f"Department  {one.name} (number {one.id}, version {one.version})", *_common(one)]
    return "\n".join(map(one_line, lines))


def _common(unit: Unit) -> list[str]:
    lines = [f"Says        {unit.description}"] if unit.description else []
    lines += [f"Cluster     {unit.home_cluster}"] if unit.home_cluster else []
    lines += [f"Rank        {unit.rank}"] if unit.rank else []
    lines += [f"Quota       {_quota_line(quota)}" for quota in unit.quotas]
    lines += [f"Model       {one.model}: {_counted(gpus(one.gpu_deserved))}" for one in unit.model_quotas]
    rules = [(one.name, getattr(unit.rules, one.name)) for one, _ in unit.rules.ListFields()]
    lines += [f"Rule        {name.removesuffix('_seconds').replace('_', ' ')}: {seconds} s" for name, seconds in rules]
    for kind in ("training", "workspace"):
        types = getattr(unit.node_types, kind)
        lines += [f"Node types  {kind}: {', '.join(types)}"] if types else []
    made, changed = clock(time_of(unit.created_at)), clock(time_of(unit.updated_at))
    return [*lines, f"Made        {made} by {unit.created_by}", f"Changed     {changed} by {unit.updated_by}"]


def _quota_line(quota: tenancy_pb2.PoolQuota) -> str:
    parts = [_counted(gpus(quota.gpu_deserved))]
    if quota.HasField("gpu_limit"):
        parts.append(f"at most {gpus(quota.gpu_limit)}")
    if quota.HasField("cpu_milli_deserved"):
        parts.append(f"{cores(quota.cpu_milli_deserved)} CPUs")
    if quota.HasField("memory_bytes_deserved"):
        parts.append(f"{memory(quota.memory_bytes_deserved)} memory")
    return f"{quota.node_pool}: {', '.join(parts)}, weight {quota.over_quota_weight_milli / 1000:g}"


def _quotas(unit: Unit) -> Sequence[Sequence[str]]:
    return [
        [
            quota.node_pool or "-",
            gpus(quota.gpu_deserved),
            gpus(quota.gpu_limit) if quota.HasField("gpu_limit") else "-",
            f"{quota.over_quota_weight_milli / 1000:g}",
        ]
        for quota in unit.quotas or [tenancy_pb2.PoolQuota()]
    ]
