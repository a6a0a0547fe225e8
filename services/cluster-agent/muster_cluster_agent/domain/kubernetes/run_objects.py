"""What a run has beside its root and its pods: addresses, keys, credentials, protection (kubernetes.md 3 and 20).

Called by the Kubernetes back end before a pod is made. Pure: keys are arguments.
Holds: everything but claims is owned by the root; a claim holds data, which no collector of garbage may erase.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.extra_containers import credential_key
from muster_cluster_agent.domain.kubernetes.manifests import owned_by
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import credentials_name, hosts_name, keys_name
from muster_cluster_agent.domain.kubernetes.resources import (
    BUDGET,
    CLAIM,
    CONFIG_MAP,
    POLICY,
    SECRET,
    SERVICE,
    Manifest,
    Resource,
)
from muster_cluster_agent.domain.kubernetes.starts import hosts_of
from muster_cluster_agent.domain.kubernetes.storage import claims_of
from muster_cluster_agent.domain.model import Pattern
from muster_cluster_agent.domain.plan import ReplicaPlan


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key pair of ssh: the private key in OpenSSH's format, the public one as a line of authorized_keys."""

    private: str
    public: str


def objects_of(owner: Owner, plan: ReplicaPlan, keys: KeyPair | None) -> tuple[tuple[Resource, Manifest], ...]:
    """What has to be there before this replica's pod is made, the root aside and without its owner's uid.

    keys: a fresh pair for a run whose replicas reach each other by ssh; None: its pair is there, or it needs none.
    """
    found: list[tuple[Resource, Manifest]] = [
        (CLAIM, {**_object(owner, plan, CLAIM, name), "spec": spec}) for name, spec in claims_of(plan, ephemeral=True)
    ]
    credentials = dict(plan.credentials)
    credentials |= {credential_key(number, name): value for number, name, value in plan.checkout_credentials}
    if credentials:
        found.append((SECRET, _secret(owner, plan, credentials_name(plan.gang, plan.role), credentials)))
    if needs_keys(plan) and keys is not None:
        found.append((SECRET, _secret(owner, plan, keys_name(plan.gang), {"id": keys.private, "id.pub": keys.public})))
    hosts = hosts_of(plan)
    if hosts:
        found.append((CONFIG_MAP, {**_object(owner, plan, CONFIG_MAP, hosts_name(plan.gang)), "data": hosts}))
    if plan.members:
        found += [(SERVICE, _service(owner, plan)), (BUDGET, _budget(owner, plan)), (POLICY, _policy(owner, plan))]
    return tuple(found)


def needs_keys(plan: ReplicaPlan) -> bool:
    """Whether the run's replicas reach each other by ssh."""
    return plan.pattern is Pattern.MPI


def with_root(resource: Resource, manifest: Manifest, plan: ReplicaPlan, root_uid: str) -> Manifest:
    """The object, owned by the root of its run."""
    if resource is CLAIM:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owned_by(plan.gang, root_uid)]}}


def least_members(plan: ReplicaPlan) -> Manifest:
    """What a resize changes of a gang's disruption budget."""
    return {"spec": {"minAvailable": len(plan.members)}}


def _object(owner: Owner, plan: ReplicaPlan, resource: Resource, name: str) -> Manifest:
    labels = marks.run_labels(owner, plan.workload_id, plan.project, (plan.generation, plan.attempt))
    return {
        "apiVersion": resource.api,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": plan.namespace, "labels": labels},
    }


def _members_only(plan: ReplicaPlan) -> dict[str, str]:
    return {marks.WORKLOAD: plan.workload_id, marks.RUN: marks.run_text((plan.generation, plan.attempt))}


def _service(owner: Owner, plan: ReplicaPlan) -> Manifest:
    """A name for each member, before it is ready too: members wait for one another."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _members_only(plan)}
    return {**_object(owner, plan, SERVICE, plan.gang), "spec": spec}


def _budget(owner: Owner, plan: ReplicaPlan) -> Manifest:
    """A drain of a node by hand must not take one member. A number, since a pod owned by a ConfigMap has no scale."""
    spec = {**least_members(plan)["spec"], "selector": {"matchLabels": _members_only(plan)}}
    return {**_object(owner, plan, BUDGET, plan.gang), "spec": spec}


def _policy(owner: Owner, plan: ReplicaPlan) -> Manifest:
    """Rendezvous and sshd trust everything that reaches them, so that only members may. Declared ports stay open."""
    members = {"matchLabels": _members_only(plan)}
    ingress: list[Manifest] = [{"from": [{"podSelector": members}]}]
    if plan.served:
        ingress.append({"ports": [{"port": port.container} for port in plan.served]})
    spec = {"podSelector": members, "policyTypes": ["Ingress"], "ingress": ingress}
    return {**_object(owner, plan, POLICY, plan.gang), "spec": spec}


def _secret(owner: Owner, plan: ReplicaPlan, name: str, values: Mapping[str, str]) -> Manifest:
    """Written once: an sshd that runs would be cut off by another key."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {**_object(owner, plan, SECRET, name), "type": "Opaque", "immutable": True, "data": data}
