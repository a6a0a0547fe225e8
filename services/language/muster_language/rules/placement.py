"""Where replicas are put: what belongs together is said whole, or not at all, and never against itself.

Called for the workers' spec and for the completed spec of a master, or once for the workload where a rule speaks of it
as a whole; `check_cluster` by submission and policy, who know which cluster was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from muster.workload.v1 import workload_pb2 as wl
from muster_language.rules.issues import Found, missing, wrong
from muster_language.spec import WorkloadSpec

_HOST: Final = "kubernetes.io/hostname"
_NAMED: Final = 10  # clusters that a message lists


def affinity(spec: WorkloadSpec) -> Found:
    """How replicas stand together is said only where they should, and by what."""
    yield from _whole(spec, "pod_affinity", "podAffinity")


def anti_affinity(spec: WorkloadSpec) -> Found:
    """The same of how they stand apart, which they cannot where they have to stand together."""
    yield from _whole(spec, "pod_anti_affinity", "podAntiAffinity")
    key = spec.pod_anti_affinity_topology
    if not spec.pod_anti_affinity or spec.pod_anti_affinity_scheduling_rule != wl.AFFINITY_RULE_REQUIRED or not key:
        return
    for name, close in _close(spec):
        if close in {key, _HOST}:
            said = f"replicas that have to stand apart by {key} cannot all have one {close}, as {name} wants"
            yield wrong("podAntiAffinity.key", key, f"a label inside of {close}, or the rule soft", said)


def clusters(spec: WorkloadSpec) -> Found:
    """Nobody prefers a cluster in which he may not run: the wish would never come true, and nobody would say so."""
    allowed = spec.clusters.values
    for name in spec.preferred_clusters.values if allowed else ():
        if name not in allowed:
            said = f"cluster {name} is preferred, but the workload may run in {_some(allowed)} only"
            yield wrong("preferredClusters", name, f"one of {_some(allowed)}; or add {name} to clusters", said)


def check_cluster(spec: WorkloadSpec, asked: str) -> Found:
    """The cluster for which the workload was submitted is one in which it may run. asked: empty stands for none."""
    allowed = spec.clusters.values
    if asked and allowed and asked not in allowed:
        said = f"cluster {asked} was asked for, but the workload may run in {_some(allowed)} only"
        yield wrong("clusters", asked, f"ask for one of {_some(allowed)} or for none, or add {asked} to clusters", said)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *([".."] if len(names) > _NAMED else [])])


def _whole(spec: WorkloadSpec, field: str, word: str) -> Found:
    asked = getattr(spec, field)
    for name, path in ((f"{field}_scheduling_rule", f"{word}.type"), (f"{field}_topology", f"{word}.key")):
        has = spec.HasField(name)  # type: ignore[arg-type]
        if has and not asked:
            yield wrong(path, "", f"{word}: true beside it", f"it is used only with {word}")
        elif asked and not has:
            said = f"{word} needs its rule and its topology"
            yield missing(path, said, f"{word}SchedulingRule and {word}Topology")


def _close(spec: WorkloadSpec) -> Iterator[tuple[str, str]]:
    """The labels of which all replicas have to have one value, each with the field that says so."""
    if spec.pod_affinity and spec.pod_affinity_scheduling_rule == wl.AFFINITY_RULE_REQUIRED:
        yield "podAffinity", spec.pod_affinity_topology
    if spec.topology_required:
        yield "topologyRequired", spec.topology_required
    if spec.topology_group and spec.topology_group_size > 1:
        yield "topologyGroup", spec.topology_group
