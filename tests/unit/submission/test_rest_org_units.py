"""Quotas, amounts and members of the 2.18 bodies: what is written can be read again, what is not exact is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.fleet.v1 import fleet_pb2 as fleet
from muster.tenancy.v1.tenancy_pb2 import Department, NodePool, PoolQuota, Project, SchedulingRules
from muster_submission.domain.fleet import Pool, check_pool, cluster_uuid
from muster_submission.rest import amounts, quotas
from muster_submission.rest.cluster_bodies import write_cluster, write_pool
from muster_submission.rest.errors import BadBody
from muster_submission.rest.members import Findings
from muster_submission.rest.org_units import Surroundings, read_project, write_project
from muster_submission.rest.quotas import NO_POOL, Pools
from tests.support.sdk import judge

POOLS = Pools(
    [
        NodePool(id=1, cluster="east", name="default"),
        NodePool(id=2, cluster="west", name="default"),
        NodePool(id=3, cluster="west", name="h100"),
    ],
    home="west",
)


def found_in(value: Any) -> set[str]:
    found = Findings()
    quotas.read(value, "resources", POOLS, found)
    return {one.field for one in found.violations}


def amount(largest: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, largest)


@st.composite
def some_quotas(draw: st.DrawFn) -> list[PoolQuota]:
    made = []
    for name in draw(st.lists(st.sampled_from(["default", "h100", "gone"]), unique=True)):
        thousandths = draw(st.integers(0, 10**9))
        quota = PoolQuota(
            node_pool=name,
            gpu_deserved=thousandths * 7,
            over_quota_weight_milli=draw(st.integers(0, 10**6)),
            cpu_milli_deserved=draw(amount(10**12)),
            cpu_milli_limit=draw(amount(10**12)),
            memory_bytes_deserved=draw(amount(1 << 52)),
            memory_bytes_limit=draw(amount(1 << 52)),
            cpu_over_quota_weight_milli=draw(amount(10**6)),
            memory_over_quota_weight_milli=draw(amount(10**6)),
        )
        if draw(st.booleans()):
            quota.gpu_limit = draw(st.integers(0, 10**9)) * 7
        made.append(quota)
    return made


@given(some_quotas())
def test_quotas_come_back_as_they_were_written(made: list[PoolQuota]) -> None:
    found = Findings()
    assert quotas.read(quotas.write(made, POOLS), "resources", POOLS, found) == made
    assert found.violations == []


@given(some_quotas())
def test_a_patch_of_nothing_changes_nothing(made: list[PoolQuota]) -> None:
    assert quotas.patch([], "resources", POOLS, made, Findings()) == made


def test_a_pool_is_named_by_any_of_its_ids_or_by_its_name() -> None:
    for pool in ({"id": "1"}, {"id": 2}, {"name": "default"}, {"id": "2", "name": "default"}, None):
        (quota,) = quotas.read([{"nodePool": pool, "gpu": {"deserved": 1}}], "", POOLS, Findings())
        assert quota.node_pool == "default"
    assert POOLS.id_of("default") == "2"  # the home cluster's
    assert POOLS.id_of("gone") == NO_POOL
    assert found_in([{"nodePool": {"id": "1", "name": "h100"}, "gpu": {"deserved": 1}}]) == {
        "resources.0.nodePool.name"
    }
    assert found_in([{"nodePool": {}, "gpu": {"deserved": 1}}]) == {"resources.0.nodePool"}


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (None, {"resources"}),
        ({}, {"resources"}),
        ([7], {"resources.0"}),
        ([{"gpu": {}}], {"resources.0.gpu.deserved"}),
        ([{"cpu": {"deserved": 1}}], {"resources.0.gpu"}),
        ([{"gpu": {"deserved": 1, "limit": -2}}], {"resources.0.gpu.limit"}),
        ([{"gpu": {"deserved": 1e300}}], {"resources.0.gpu.deserved"}),
        ([{"gpu": {"deserved": 1}, "cpu": {"deserved": 0.5}}], {"resources.0.cpu.deserved"}),
        ([{"gpu": {"deserved": 1, "overQuotaWeight": 0.0001}}], {"resources.0.gpu.overQuotaWeight"}),
        ([{"gpu": {"deserved": 1}, "memory": {"deserved": 1}}], {"resources.0.memory.units"}),
        ([{"gpu": {"deserved": 1}, "nodepool": {}}], {"resources.0.nodepool"}),
    ],
)
def test_what_is_refused(value: Any, fields: set[str]) -> None:
    assert found_in(value) == fields


def test_an_unknown_member_is_told_the_nearest_name() -> None:
    found = Findings()
    found.object({"nodePol": 1}, "", ("nodePool", "gpu"))
    with pytest.raises(BadBody, match="did you mean nodePool"):
        found.raise_any("the body")


@given(st.integers(0, 1 << 52), st.integers(0, 1 << 52))
def test_memory_is_exact_in_the_unit_that_is_chosen(one: int, other: int) -> None:
    units = amounts.best_units([one, other])
    for memory in (one, other):
        assert amounts.memory_bytes(amounts.in_units(memory, units), units) == memory


def test_minus_one_is_no_limit_and_true_is_no_number() -> None:
    assert [amounts.unlimited(value) for value in (None, -1, -1.0, 0, True)] == [True, True, True, False, False]
    with pytest.raises(ValueError, match="no number"):
        amounts.gpu_units(True)


def test_a_project_is_shown_in_the_vendors_form() -> None:
    project = Project(id=7, name="vision", department="research", namespace="runai-vision", home_cluster="east")
    project.rules.training_time_limit_seconds = 60
    held = fleet.Amount(gpu=3500, cpu_milli=100, memory_bytes=5_000_000)
    account = fleet.Account(project="vision", node_pool="h100", allocated=held, requested=held)
    shown = write_project(project, Department(id=3, name="research"), Surroundings(POOLS, [account]))
    seen = judge("get_project", shown)
    assert (seen.id, seen.parent_id, seen.cluster_id) == ("7", "3", cluster_uuid("east"))
    assert seen.scheduling_rules.training_job_time_limit_seconds == 60
    (pool,) = seen.status.node_pool_quota_statuses
    assert (pool.node_pool_id, pool.allocated.gpu, pool.requested.memory) == ("3", 0.5, 5)
    found = Findings()
    body = {name: shown[name] for name in ("resources", "schedulingRules", "nodeTypes", "defaultNodePools")}
    assert read_project(body, POOLS, found).rules == SchedulingRules(training_time_limit_seconds=60)
    assert not found.violations


def test_pools() -> None:
    assert check_pool(Pool("default", "", "", 0)) == []
    assert {one.path for one in check_pool(Pool("default", "a", "b", 0))} == {"label_key"}
    assert {one.path for one in check_pool(Pool("Bad", "a//b", "", 5000))} == {
        "name",
        "label_key",
        "label_value",
        "over_provisioning_ratio",
    }
    assert check_pool(Pool("seen", "", "", 0), label_needed=False) == []
    assert check_pool(Pool("h100", "k", "v", 0, ("topology.kubernetes.io/block", "rack"))) == []
    wrong = check_pool(Pool("h100", "k", "v", 0, ("rack", "a//b", "rack")))
    assert [one.path for one in wrong] == ["topology_levels.1", "topology_levels.2"]
    assert [one.path for one in check_pool(Pool("h100", "k", "v", 0, tuple("abcdefghi")))] == ["topology_levels"]
    shown = write_pool(NodePool(id=4, cluster="east", name="h100", label_key="k", label_value="v"), [])
    assert judge("create_node_pool", shown).status == "Empty"
    levelled = write_pool(NodePool(id=4, cluster="east", name="h100", topology_levels=["block", "rack"]), [])
    assert levelled["topologyLevels"] == ["block", "rack"]
    cut = write_pool(NodePool(id=4, cluster="east", name="h100", memory_as_slices=True), [])
    assert (cut["memoryAsSlices"], levelled["memoryAsSlices"]) == (True, False)
    found = Findings()
    assert [found.boolean(value, "memoryAsSlices") for value in (True, False, None, "yes")] == [True, *[False] * 3]
    assert [each.field for each in found.violations] == ["memoryAsSlices"]


def test_a_cluster_that_gets_no_new_work_says_why() -> None:
    made = datetime(2031, 4, 1, tzinfo=UTC)
    fit = fleet.Cluster(id="east", state=fleet.CLUSTER_STATE_READY, agent_version="0.2.0")
    assert write_cluster(fit, made, 1, full=True)["status"]["conditions"] == []
    old = fleet.Cluster(id="west", state=fleet.CLUSTER_STATE_STALE, agent_version="0.1.0", issue="too old")
    shown = write_cluster(old, made, 1, full=True)
    assert shown["version"] == "0.1.0"
    assert shown["status"]["conditions"] == [
        {"type": "Available", "status": "False", "reason": "AgentVersion", "message": "too old"}
    ]
