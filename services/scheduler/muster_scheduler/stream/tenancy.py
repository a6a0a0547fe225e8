"""What submission says of departments, projects and node pools, as events of the domain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster.tenancy.v1 import tenancy_pb2
from muster_chassis.events import Event
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.asked.quotas import FREE, Line, ModelQuota, Quota, UserLimit
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.stream import values
from muster_scheduler.stream.terms import node_types_of, rules_of

_MOST_LIMITS: Final = 256
_MOST_LEVELS: Final = 8
_LABEL_KEY: Final = 317  # characters at most


def project(message: Any, _: Event) -> domain.Event:
    """A project as it is now."""
    project: tenancy_pb2.Project = message.project
    return domain.ProjectChanged(
        Project(
            values.text(project.name),
            values.text(project.department),
            _quotas(project.quotas),
            project.version,
            rules_of(project.rules),
            node_types_of(project.node_types),
            project.rank,
            tuple(_user_limit(limit) for limit in list(project.user_limits)[:_MOST_LIMITS]),
            _models(project.model_quotas),
            values.text(project.home_cluster),
        )
    )


def department(message: Any, _: Event) -> domain.Event:
    """A department as it is now."""
    department: tenancy_pb2.Department = message.department
    return domain.DepartmentChanged(
        Department(
            values.text(department.name),
            _quotas(department.quotas),
            department.version,
            rules_of(department.rules),
            node_types_of(department.node_types),
            department.rank,
            _models(department.model_quotas),
        )
    )


def node_pool(message: Any, _: Event) -> domain.Event:
    """A node pool as people want it."""
    said: tenancy_pb2.NodePool = message.node_pool
    return domain.NodePoolChanged(
        NodePool(
            values.number(said.id, "id"),
            values.text(said.cluster),
            values.text(said.name),
            said.version,
            _STRATEGIES.get(said.gpu_placement, Strategy.BINPACK),
            _STRATEGIES.get(said.cpu_placement, Strategy.BINPACK),
            tuple(dict.fromkeys(values.text(key, _LABEL_KEY) for key in said.topology_levels[:_MOST_LEVELS])),
            label_key=values.text(said.label_key, _LABEL_KEY),
            label_value=values.text(said.label_value),
            memory_as_slices=said.memory_as_slices,
        )
    )


_STRATEGIES: Final = {
    tenancy_pb2.PLACEMENT_STRATEGY_BINPACK: Strategy.BINPACK,
    tenancy_pb2.PLACEMENT_STRATEGY_SPREAD: Strategy.SPREAD,
    tenancy_pb2.PLACEMENT_STRATEGY_FGD: Strategy.FGD,
    tenancy_pb2.PLACEMENT_STRATEGY_FORESIGHT: Strategy.FORESIGHT,
}


def _quotas(said: Iterable[tenancy_pb2.PoolQuota]) -> dict[str, Quota]:
    return {values.text(quota.node_pool): _quota(quota) for quota in said}


def _quota(said: tenancy_pb2.PoolQuota) -> Quota:
    return Quota(
        values.number(said.gpu_deserved, "gpu_deserved"),
        _optional(said, "gpu_limit"),
        said.over_quota_weight_milli,
        _line(said, "cpu_milli", "cpu"),
        _line(said, "memory_bytes", "memory"),
    )


def _line(said: tenancy_pb2.PoolQuota, resource: str, weight: str) -> Line:
    """CPU or memory; their weight is that of GPUs where nothing is said of it."""
    own = _optional(said, f"{weight}_over_quota_weight_milli")
    deserved, limit = _optional(said, f"{resource}_deserved"), _optional(said, f"{resource}_limit")
    if deserved is None and limit is None:
        return FREE
    return Line(deserved, limit, said.over_quota_weight_milli if own is None else own)


def _optional(said: Any, name: str) -> int | None:
    return values.number(getattr(said, name), name) if said.HasField(name) else None


def _models(said: Iterable[tenancy_pb2.ModelQuota]) -> tuple[ModelQuota, ...]:
    kept = list(said)[:_MOST_LIMITS]
    return tuple(
        ModelQuota(
            values.text(quota.model), values.number(quota.gpu_deserved, "gpu_deserved"), _optional(quota, "gpu_limit")
        )
        for quota in kept
    )


def _user_limit(said: tenancy_pb2.UserLimit) -> UserLimit:
    return UserLimit(values.text(said.node_pool), _optional(said, "gpu_limit"), _optional(said, "workload_limit"))
