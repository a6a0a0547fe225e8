"""Device claims: a replica's ResourceClaim as it is made, and what a cluster has allocated to claims (kubernetes.md 7).

Called by the Kubernetes back end. Pure.
Holds: a claim asks for the assigned devices and no others, whatever else is free; a claim of another owner is never
taken for one of ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceKey, DeviceNames, NodeDevices
from muster_cluster_agent.domain.kubernetes.manifests import digest_of, owned_by
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.resources import DEVICE_CLAIM, Manifest
from muster_cluster_agent.domain.model import RunKey
from muster_cluster_agent.domain.plan import ReplicaPlan

Json = Mapping[str, Any]
_REQUEST: Final = "devices"


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim. ours: this agent made it. allocated: devices of the known driver; None: nothing is allocated.

    users: uids of what it is reserved for.
    """

    name: str
    namespace: str
    uid: str
    ours: bool
    workload_id: str = ""
    run: RunKey = (0, 0)
    spec: str = ""
    allocated: tuple[DeviceKey, ...] | None = None
    users: frozenset[str] = frozenset()
    deleting: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def claim_of(raw: Json, owner: Owner, driver: str) -> Claim:
    """Return a claim of its JSON. Raises ValueError, KeyError or TypeError for one that is not whole."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    labels = metadata.get("labels") or {}
    ours = owner.has(labels)
    allocation = status.get("allocation")
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return Claim(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        ours=ours,
        workload_id=labels[marks.WORKLOAD] if ours else "",
        run=marks.run_of(labels[marks.RUN]) if ours else (0, 0),
        spec=(metadata.get("annotations") or {}).get(marks.SPEC, "") if ours else "",
        # An administrator who looks at a device by a claim with admin access does not hold it.
        allocated=None
        if allocation is None
        else tuple(
            DeviceKey(one["pool"], one["device"])
            for one in results
            if one["driver"] == driver and not one.get("adminAccess")
        ),
        users=frozenset(one["uid"] for one in status.get("reservedFor") or ()),
        deleting="deletionTimestamp" in metadata,
    )


def manifest(owner: Owner, plan: ReplicaPlan, names: DeviceNames, root_uid: str) -> Manifest:
    """Return the claim for the devices of a replica. It has the name of the replica's pod."""
    wanted = [share.device for share in plan.shares]
    asked = {
        "deviceClassName": names.device_class,
        "allocationMode": "ExactCount",
        "count": len(wanted),
        "selectors": [{"cel": {"expression": selector(wanted, names)}}],
    }
    annotations: dict[str, str] = {}
    made: Manifest = {
        "apiVersion": DEVICE_CLAIM.api,
        "kind": DEVICE_CLAIM.kind,
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": marks.replica_labels(owner, plan.project, plan),
            "annotations": annotations,
            "ownerReferences": [owned_by(plan.gang, root_uid)],
        },
        "spec": {"devices": {"requests": [{"name": _REQUEST, "exactly": asked}]}},
    }
    annotations[marks.SPEC] = digest_of(made)
    return made


def selector(uuids: Iterable[str], names: DeviceNames) -> str:
    """Return the CEL expression that is true of these devices alone.

    The driver and the attribute are asked for first: CEL fails, and the pod with it, at an attribute that is missing.
    """
    domain, attribute = (json.dumps(part) for part in names.qualified(names.uuid))
    held = f"device.attributes[{domain}]"
    return (
        f"device.driver == {json.dumps(names.driver)} && {attribute} in {held} && "
        f"{held}[{attribute}] in {json.dumps(sorted(uuids))}"
    )


def holds(claim: Claim | None, pod: Pod) -> bool:
    """Return whether a pod's devices may still be in use: the cluster has not released its claim."""
    return bool(pod.devices) and claim is not None and claim.allocated is not None and pod.uid in claim.users


def differs(claim: Claim | None, assigned: tuple[str, ...]) -> bool:
    """Return whether a claim was given fewer or more devices than a replica is charged for."""
    return claim is not None and claim.allocated is not None and len(claim.allocated) != len(assigned)


def given(claim: Claim | None, assigned: tuple[str, ...], here: NodeDevices) -> tuple[str, ...] | None:
    """Return the UUIDs of what the cluster has allocated to a replica's claim; None: nothing yet, or another number.

    A device of a pool that is not listed now counts as the one that was assigned: the claim admits no other, and a
    driver that starts again takes its slices away for a while. A device that its pool lacks has its own name.
    """
    if claim is None or claim.allocated is None or differs(claim, assigned):
        return None
    known = {device.key: device.uuid for device in here.devices}
    named = [known.get(key, f"{key.pool}/{key.name}") for key in claim.allocated if key.pool in here.pools]
    unnamed = len(claim.allocated) - len(named)
    return tuple(sorted((*named, *[uuid for uuid in assigned if uuid not in named][:unnamed])))
