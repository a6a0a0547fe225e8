"""What specs say of nodes and what projects and departments rule, as values of the domain."""

from __future__ import annotations

from typing import Final

from muster.tenancy.v1 import tenancy_pb2
from muster.workload.v1 import placement_pb2, workload_pb2
from muster_scheduler.domain.asked.rules import NodeTypes, Rules
from muster_scheduler.domain.asked.terms import (
    HOST_LABEL,
    NO_EXECUTE,
    RELUCTANT,
    Apart,
    Label,
    Terms,
    Together,
    Toleration,
    Wish,
)
from muster_scheduler.domain.fleet.objects import CLAIMS, CONFIG_MAPS, key_of
from muster_scheduler.stream import values

_MOST_TOLERATIONS: Final = 256
_MOST_CLUSTERS: Final = 256
_LABEL_KEY: Final = 316  # characters at most
_LABEL: Final = 381  # with the value
_EFFECTS: Final = {
    placement_pb2.TAINT_EFFECT_NO_SCHEDULE: "NoSchedule",
    placement_pb2.TAINT_EFFECT_NO_EXECUTE: NO_EXECUTE,
    placement_pb2.TAINT_EFFECT_PREFER_NO_SCHEDULE: RELUCTANT,
}


def terms_of(spec: workload_pb2.WorkloadSpec) -> Terms:
    """What the spec says of the nodes on which its replicas may run, and of clusters that come first."""
    kept = [each for each in spec.tolerations if not each.deleted][:_MOST_TOLERATIONS]
    return Terms(
        values.text(spec.node_type),
        tuple(sorted({_toleration(each) for each in kept}, key=repr)),
        _together(spec),
        _topology(spec),
        _preferred(spec),
        Label.said(values.text(spec.data_label, _LABEL)),
    )


def keeps_data(spec: workload_pb2.WorkloadSpec) -> bool:
    """Whether it mounts claims whose data outlives a run."""
    return any(not claim.deleted and not claim.ephemeral for claim in spec.pvcs)


def mounts_of(spec: workload_pb2.WorkloadSpec, namespace: str) -> tuple[str, ...]:
    """The claims and ConfigMaps that have to be in its cluster before it starts, by name."""
    found = _mounts_of_role(spec, namespace)
    if spec.HasField("master_spec"):
        found |= _mounts_of_role(spec.master_spec, namespace)
    return tuple(sorted(found))


def _mounts_of_role(spec: workload_pb2.WorkloadSpec, namespace: str) -> set[str]:
    claims = {claim.claim_name for claim in spec.pvcs if claim.existing_pvc and not claim.deleted}
    claims |= {volume.id for volume in spec.data_volumes if not volume.deleted}
    config_maps = {volume.config_map for volume in spec.config_map_volumes if not volume.deleted}
    found = [*((CLAIMS, name) for name in claims), *((CONFIG_MAPS, name) for name in config_maps)]
    return {key_of(namespace, kind, values.text(name)) for kind, name in found if name}


def _preferred(spec: workload_pb2.WorkloadSpec) -> tuple[str, ...]:
    if not spec.HasField("preferred_clusters"):  # as nearly always: asking for the list would make one
        return ()
    named = (values.text(each) for each in spec.preferred_clusters.values[:_MOST_CLUSTERS])
    return tuple(dict.fromkeys(each for each in named if each))


def _topology(spec: workload_pb2.WorkloadSpec) -> Wish:
    group = values.text(spec.topology_group, _LABEL_KEY)
    return Wish(
        values.text(spec.topology_required, _LABEL_KEY),
        values.text(spec.topology_preferred, _LABEL_KEY),
        group,
        max(1, spec.topology_group_size) if group else 0,
        _apart(spec),
    )


def _toleration(said: placement_pb2.Toleration) -> Toleration:
    effect = _EFFECTS.get(said.effect, "")
    exists = said.operator == placement_pb2.TOLERATION_OPERATOR_EXISTS
    return Toleration(
        values.text(said.key, 316),
        "" if exists else values.text(said.value),
        exists,
        effect,
        said.seconds if said.HasField("seconds") and effect == NO_EXECUTE else None,
    )


def _together(spec: workload_pb2.WorkloadSpec) -> Together | None:
    if not spec.pod_affinity:
        return None
    # Without a word it is a wish: a must that nobody wrote would leave work waiting for a reason that nobody gave.
    required = spec.pod_affinity_scheduling_rule == workload_pb2.AFFINITY_RULE_REQUIRED
    return Together(values.text(spec.pod_affinity_topology, 316) or HOST_LABEL, required)


def _apart(spec: workload_pb2.WorkloadSpec) -> Apart | None:
    if not spec.pod_anti_affinity:
        return None
    required = spec.pod_anti_affinity_scheduling_rule == workload_pb2.AFFINITY_RULE_REQUIRED
    return Apart(values.text(spec.pod_anti_affinity_topology, _LABEL_KEY) or HOST_LABEL, required)


def rules_of(said: tenancy_pb2.SchedulingRules) -> Rules:
    """The limits of a project or department."""
    limits = {field.name: values.number(value, field.name) for field, value in said.ListFields()}
    return Rules(
        limits.get("interactive_time_limit_seconds"),
        limits.get("interactive_idle_limit_seconds"),
        limits.get("interactive_preemptible_idle_limit_seconds"),
        limits.get("training_idle_limit_seconds"),
        limits.get("training_time_limit_seconds"),
    )


def node_types_of(said: tenancy_pb2.NodeTypes) -> NodeTypes:
    """The node types of a project or department."""
    return NodeTypes(
        tuple(sorted({values.text(name) for name in said.training})),
        tuple(sorted({values.text(name) for name in said.workspace})),
    )
