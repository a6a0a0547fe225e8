"""What specs, projects and departments say of nodes and time, as the domain reads it."""

from __future__ import annotations

from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import placement_pb2, workload_pb2
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.terms import ANYWHERE, HOST_LABEL, Apart, Label, Together, Toleration, Wish
from muster_scheduler.stream.terms import node_types_of, rules_of, terms_of


def test_nothing_said_is_anywhere() -> None:
    assert terms_of(workload_pb2.WorkloadSpec()) == ANYWHERE
    assert rules_of(tenancy_pb2.SchedulingRules()) == Rules()
    assert node_types_of(tenancy_pb2.NodeTypes()) == NodeTypes()


def test_tolerations() -> None:
    spec = workload_pb2.WorkloadSpec(node_type="dgx")
    spec.tolerations.add(label="a", key="k", value="v", effect=placement_pb2.TAINT_EFFECT_NO_EXECUTE, seconds=5)
    spec.tolerations.add(label="b", key="k", value="v", effect=placement_pb2.TAINT_EFFECT_NO_EXECUTE)
    spec.tolerations.add(
        label="c",
        key="k",
        value="dropped",
        operator=placement_pb2.TOLERATION_OPERATOR_EXISTS,
        effect=placement_pb2.TAINT_EFFECT_NO_SCHEDULE,
        seconds=5,
    )
    spec.tolerations.add(label="d", key="gone", deleted=True)
    terms = terms_of(spec)
    assert terms.node_type == "dgx"
    assert set(terms.tolerations) == {
        Toleration("k", "v", effect="NoExecute", seconds=5),
        Toleration("k", "v", effect="NoExecute"),
        Toleration("k", exists=True, effect="NoSchedule"),
    }


def test_standing_together() -> None:
    spec = workload_pb2.WorkloadSpec(pod_affinity=True)
    assert terms_of(spec).together == Together(HOST_LABEL, required=False)
    spec.pod_affinity_topology = "zone"
    spec.pod_affinity_scheduling_rule = workload_pb2.AFFINITY_RULE_REQUIRED
    assert terms_of(spec).together == Together("zone", required=True)
    spec.pod_affinity = False
    assert terms_of(spec).together is None


def test_standing_apart() -> None:
    spec = workload_pb2.WorkloadSpec(pod_anti_affinity=True)
    assert terms_of(spec).topology.apart == Apart(HOST_LABEL, required=False)
    spec.pod_anti_affinity_topology = "zone"
    spec.pod_anti_affinity_scheduling_rule = workload_pb2.AFFINITY_RULE_REQUIRED
    assert terms_of(spec).topology.apart == Apart("zone", required=True)
    spec.pod_anti_affinity = False
    assert terms_of(spec).topology == Wish()


def test_preferred_clusters_keep_their_order_each_once_and_no_more_than_so_many() -> None:
    spec = workload_pb2.WorkloadSpec()
    spec.preferred_clusters.values.extend(["south", "", "north", "south", "x" * 400, "\x00"])
    assert terms_of(spec).preferred_clusters == ("south", "north", "x" * 253, "\ufffd")
    spec.preferred_clusters.values.extend(f"c{number}" for number in range(1000))
    assert len(terms_of(spec).preferred_clusters) < 256


def test_the_label_of_the_data_is_a_key_or_a_key_and_its_value() -> None:
    for said, label in {
        "imagenet": Label("imagenet"),
        "example.com/imagenet=v1": Label("example.com/imagenet", "v1"),
        "imagenet=": Label("imagenet", ""),
        "a=b=c": Label("a", "b=c"),
        "": None,
        "=v1": None,
    }.items():
        assert terms_of(workload_pb2.WorkloadSpec(data_label=said)).data == label
    long = terms_of(workload_pb2.WorkloadSpec(data_label="k=" + "v" * 1000)).data
    assert long == Label("k", "v" * 379)


def test_how_close_together_a_gang_runs() -> None:
    spec = workload_pb2.WorkloadSpec(topology_required="block", topology_preferred="rack")
    assert terms_of(spec).topology == Wish("block", "rack")
    spec.topology_group = "rack"
    assert terms_of(spec).topology == Wish("block", "rack", "rack", 1), "a group of nobody divides nothing"
    spec.topology_group_size = 4
    assert terms_of(spec).topology == Wish("block", "rack", "rack", 4)
    assert terms_of(workload_pb2.WorkloadSpec(topology_group_size=4)) == ANYWHERE


def test_limits_of_zero_are_limits() -> None:
    said = tenancy_pb2.SchedulingRules(training_time_limit_seconds=0, interactive_idle_limit_seconds=7)
    assert rules_of(said) == Rules(training_time=0, interactive_idle=7)


def test_types_are_a_set() -> None:
    said = tenancy_pb2.NodeTypes(training=["b", "a", "b"])
    assert node_types_of(said) == NodeTypes(("a", "b"))
