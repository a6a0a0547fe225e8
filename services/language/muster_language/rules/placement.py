"""Where replicas are put: what belongs together is said whole, or not at all.

Called for the workers' spec and for the completed spec of a master.
"""

from __future__ import annotations

from muster_language.rules.issues import Found, missing, wrong
from muster_language.spec import WorkloadSpec


def affinity(spec: WorkloadSpec) -> Found:
    """How replicas stand together is said only where they should, and by what."""
    for name, path in (
        ("pod_affinity_scheduling_rule", "podAffinity.type"),
        ("pod_affinity_topology", "podAffinity.key"),
    ):
        has = spec.HasField(name)  # type: ignore[arg-type]
        if has and not spec.pod_affinity:
            yield wrong(path, "", "podAffinity: true beside it", "it is used only with podAffinity")
        elif spec.pod_affinity and not has:
            yield missing(
                path, "podAffinity needs its rule and its topology", "podAffinitySchedulingRule and podAffinityTopology"
            )
