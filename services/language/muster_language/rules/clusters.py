"""In which clusters a workload may run, and whether what is asked for and preferred is among them.

Called by submission with the user's own layer, to refuse at once, and by policy with the effective spec: the cluster
that was asked for stands beside the spec, so that `effective` does not know it.
Holds: the names alone are compared; whether there are such clusters is for the scheduler, since they come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster_language.rules.issues import Found, wrong
from muster_language.spec import WorkloadSpec

_NAMED: Final = 10  # clusters that a message lists


def check_clusters(spec: WorkloadSpec, asked: str) -> Found:
    """The cluster that was asked for, and those that are preferred, are among those in which the workload may run.

    It would wait for ever, or the wish would never count and nobody would say so. asked: empty stands for none.
    """
    allowed = spec.clusters.values
    if not allowed:
        return
    some = _some(allowed)
    if asked and asked not in allowed:
        said = f"cluster {asked} was asked for, but the workload may run in {some} only"
        yield wrong("clusters", asked, some, f"{said}: ask for one of these or for none, or add {asked} to clusters")
    for name in spec.preferred_clusters.values:
        if name not in allowed:
            said = f"cluster {name} is preferred, but the workload may run in {some} only"
            yield wrong("preferredClusters", name, some, f"{said}: prefer one of these, or add {name} to clusters")


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:_NAMED], *([".."] if len(names) > _NAMED else [])])
