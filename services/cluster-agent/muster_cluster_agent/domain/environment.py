"""What a replica knows of itself: the variables that are the same on every back end (docs/guides/clusters.md).

Called where a back end makes a process or a container of a plan. Pure. Holds: these win over what the user sets.
"""

from __future__ import annotations

from typing import Final

from muster_cluster_agent.domain.model import Share, Slots
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel import ids

_PODS: Final = (
    "6ba7b812-9dad-11d1-80b4-00c04fd430c8"  # the name space of OID names (RFC 9562): a replica's name is unique
)


def identity(plan: ReplicaPlan) -> dict[str, str]:
    """Who the replica is, in Muster's words and in those that Run:ai gives its workloads."""
    return {
        "MUSTER_REPLICA": plan.name,
        "MUSTER_WORKLOAD_ID": plan.workload_id,
        "MUSTER_WORKLOAD": plan.workload,
        "MUSTER_PROJECT": plan.project,
        "MUSTER_ROLE": plan.role,
        "MUSTER_INDEX": str(plan.index),
        "MUSTER_ATTEMPT": str(plan.attempt),
        "MUSTER_NODE": plan.node,
        "RUNAI_PROJECT": plan.project,
        "RUNAI_JOB_NAME": plan.workload,
        "JOB_NAME": plan.workload,
        "JOB_UUID": plan.workload_id,
        "POD_INDEX": str(plan.index),
        "POD_UUID": ids.uuid5(_PODS, plan.name),
        "PYTHONUNBUFFERED": "1",
    }


def counted(slots: Slots) -> list[dict[str, object]]:
    """Return the value of MUSTER_DEVICES, before JSON, for a replica of which only the number of devices is known."""
    return [{**({"resource": resource} if resource else {}), "count": count} for resource, count in slots]


def described(share: Share) -> dict[str, object]:
    """A share as MUSTER_DEVICES and the journal's spec name it."""
    if share.slice is not None:
        return {
            "uuid": share.device,
            "slice": {"profile": share.slice.profile, "start": share.slice.start, "uuid": share.slice.uuid},
        }
    if share.memory_bytes:
        return {"uuid": share.device, "bytes": share.memory_bytes}
    if share.whole or share.portion_milli in {0, 1000}:
        return {"uuid": share.device, "whole": True}
    return {"uuid": share.device, "portion": share.portion_milli / 1000}
