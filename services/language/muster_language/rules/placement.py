"""Where replicas are put: what belongs together is said whole, or not at all, and never against itself.

Called for the workers' spec and for the completed spec of a master.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.workload.v1 import workload_pb2 as wl
from muster_language.rules.issues import Found, missing, wrong
from muster_language.spec import WorkloadSpec

_HOST: Final = "kubernetes.io/hostname"


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
