"""Departments and projects as submission publishes them become the events of the domain."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from google.protobuf.message import Message

from muster.events.v1 import submission_pb2
from muster.tenancy.v1 import tenancy_pb2
from muster_chassis.codec import TOMBSTONE
from muster_chassis.events import Event, Origin, Reject
from muster_kernel.quantities import GPU
from muster_scheduler.domain import events as domain
from muster_scheduler.domain.asked.quotas import FREE, Line, Quota, UserLimit
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.stream import translate


def event(aggregate: str, message: Message | None) -> Event:
    """A record of the tenancy topic."""
    kind = message.DESCRIPTOR.full_name if message is not None else TOMBSTONE
    origin = Origin("muster.tenancy", 0, 0, aggregate.encode(), None, ())
    return Event("id", kind, "submission", aggregate, 1, datetime.now(UTC), message, origin, None)


QUOTAS = [
    tenancy_pb2.PoolQuota(node_pool="default", gpu_deserved=7 * GPU, over_quota_weight_milli=500),
    tenancy_pb2.PoolQuota(
        node_pool="h100",
        gpu_deserved=GPU,
        gpu_limit=2 * GPU,
        over_quota_weight_milli=2000,
        cpu_milli_deserved=4000,
        memory_bytes_limit=1 << 30,
        memory_over_quota_weight_milli=0,
    ),
]
QUOTED = {
    "default": Quota(7 * GPU, None, 500),
    "h100": Quota(GPU, 2 * GPU, 2000, Line(4000, None, 2000), Line(None, 1 << 30, 0)),
}


def test_a_department() -> None:
    said = tenancy_pb2.Department(
        name="d",
        version=3,
        quotas=QUOTAS,
        rank=2,
        rules=tenancy_pb2.SchedulingRules(training_time_limit_seconds=60),
        node_types=tenancy_pb2.NodeTypes(training=["dgx"]),
    )
    made = translate(event("department/d", submission_pb2.DepartmentChanged(department=said)))
    types = NodeTypes(training=("dgx",))
    assert made == domain.DepartmentChanged(Department("d", QUOTED, 3, Rules(training_time=60), types, 2))


def test_a_project() -> None:
    limits = [
        tenancy_pb2.UserLimit(gpu_limit=2 * GPU),
        tenancy_pb2.UserLimit(node_pool="h100", workload_limit=4),
    ]
    said = tenancy_pb2.Project(name="p", department="d", version=1, quotas=QUOTAS, rank=1, user_limits=limits)
    made = translate(event("project/p", submission_pb2.ProjectChanged(project=said)))
    users = (UserLimit("", 2 * GPU, None), UserLimit("h100", None, 4))
    assert made == domain.ProjectChanged(Project("p", "d", QUOTED, 1, rank=1, user_limits=users))
    assert QUOTED["default"].cpu == FREE


@pytest.mark.parametrize(
    ("aggregate", "made"),
    [
        ("department/d", domain.DepartmentRemoved("d")),
        ("project/p", domain.ProjectRemoved("p")),
        ("template/t", None),
    ],
)
def test_what_is_removed(aggregate: str, made: domain.Event | None) -> None:
    assert translate(event(aggregate, None)) == made


def test_a_quota_that_means_nothing_is_refused() -> None:
    said = tenancy_pb2.Department(name="d", quotas=[tenancy_pb2.PoolQuota(gpu_deserved=(1 << 64) - 1)])
    with pytest.raises(Reject, match="gpu_deserved is 18446744073709551615: at most"):
        translate(event("department/d", submission_pb2.DepartmentChanged(department=said)))


def test_the_levels_of_a_node_pool() -> None:
    said = tenancy_pb2.NodePool(id=7, cluster="c1", name="h100", topology_levels=["block", "rack", "block"])
    made = translate(event("pool/7", submission_pb2.NodePoolChanged(node_pool=said)))
    assert made == domain.NodePoolChanged(NodePool(7, "c1", "h100", 0, levels=("block", "rack")))


def test_a_node_pool_in_which_memory_comes_as_slices() -> None:
    said = tenancy_pb2.NodePool(id=7, cluster="c1", name="h100", memory_as_slices=True)
    made = translate(event("pool/7", submission_pb2.NodePoolChanged(node_pool=said)))
    assert made == domain.NodePoolChanged(NodePool(7, "c1", "h100", 0, memory_as_slices=True))


def test_the_label_of_a_node_pool() -> None:
    said = tenancy_pb2.NodePool(id=7, cluster="c1", name="racky", label_key="rack", label_value="r3")
    made = translate(event("pool/7", submission_pb2.NodePoolChanged(node_pool=said)))
    assert made == domain.NodePoolChanged(NodePool(7, "c1", "racky", 0, label_key="rack", label_value="r3"))


def test_a_node_pool() -> None:
    said = tenancy_pb2.NodePool(
        id=4, cluster="c1", name="a100", version=2, gpu_placement=tenancy_pb2.PLACEMENT_STRATEGY_SPREAD
    )
    made = translate(event("pool/4", submission_pb2.NodePoolChanged(node_pool=said)))
    assert made == domain.NodePoolChanged(NodePool(4, "c1", "a100", 2, Strategy.SPREAD, Strategy.BINPACK))


@pytest.mark.parametrize(("aggregate", "meant"), [("pool/4", domain.NodePoolRemoved(4)), ("pool/x", None)])
def test_a_removed_node_pool(aggregate: str, meant: domain.Event | None) -> None:
    assert translate(event(aggregate, None)) == meant
