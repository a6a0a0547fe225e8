"""Labels, annotations and finalizers by which Muster knows its objects in a cluster (kubernetes.md 3).

Holds: an object that lacks one of the identifying labels, or has another origin, is never written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from muster_cluster_agent.domain.model import ReplicaKey, RunKey
from muster_kernel import cluster_labels

PREFIX: Final = cluster_labels.PREFIX
MANAGED_BY: Final = cluster_labels.MANAGED_BY
MANAGER: Final = cluster_labels.MANAGER
ORIGIN: Final = f"{PREFIX}origin"
"""The agent's instance. It stays the same over restarts and outlives the agent's pod."""
CLUSTER: Final = cluster_labels.CLUSTER
WORKLOAD: Final = f"{PREFIX}workload"
PROJECT: Final = cluster_labels.PROJECT
RUN: Final = f"{PREFIX}run"
ROLE: Final = f"{PREFIX}role"
INDEX: Final = f"{PREFIX}index"
K: Final = f"{PREFIX}k"
SHARD: Final = f"{PREFIX}shard"
ROOT_OF: Final = f"{PREFIX}root-of"
"""Of roots, and of further ConfigMaps with their lines: `run`, or `workload` for what outlives runs."""
SERVING: Final = f"{PREFIX}serving"
"""Of a pod to which its workload's address leads."""

SPEC: Final = f"{PREFIX}spec"
"""Annotation: the hash of the manifest as it was made, which tells a second creation and a conflict apart."""
PATTERN: Final = f"{PREFIX}pattern"
NAME: Final = f"{PREFIX}name"
"""Annotation: the workload's name, for people and for reports."""
OBJECTS: Final = f"{PREFIX}objects"
"""Annotation of a root: what its run may have beside its pods."""
ADDRESS: Final = f"{PREFIX}address"
"""Annotation of a pod: where its workload is reached, one address after another with commas between them."""
DEVICES: Final = f"{PREFIX}devices"
"""Annotation of a pod: the UUIDs of the devices that were assigned to it, as a JSON array."""
PART: Final = f"{PREFIX}part"
"""Annotation of a pod whose devices HAMi or KAI gives: `whole`, `portion=500` or `bytes=1024` of each of them."""
BY_KAI: Final = f"{PREFIX}by-kai"
"""Annotation of a pod whose devices KAI gives: `true`."""
CARDS: Final = f"{PREFIX}cards"
"""Annotation of a pod that shares cards by KAI: the virtual card of each of its groups, as a JSON object."""
USED: Final = f"{PREFIX}used"
"""Annotation of a workload's root: when it was last started, in seconds since 1970."""

GONE: Final = f"{PREFIX}gone"
"""Finalizer of a pod: it stays readable until its end is written down."""
ROOT: Final = f"{PREFIX}root"
"""Finalizer of a root: it stays until every replica of its run is GONE, told and released."""

SELECTOR: Final = f"{MANAGED_BY}={MANAGER}"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose objects they are: the agent's instance and the name of its cluster."""

    origin: str
    cluster: str

    def labels(self) -> dict[str, str]:
        """What every object of this agent carries."""
        return {MANAGED_BY: MANAGER, ORIGIN: self.origin, CLUSTER: self.cluster}

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is this agent's."""
        return labels.get(MANAGED_BY) == MANAGER and labels.get(ORIGIN) == self.origin


def run_text(run: RunKey) -> str:
    """`g1-a0` of a generation and an attempt."""
    return f"g{run[0]}-a{run[1]}"


def run_of(text: str) -> RunKey:
    """The generation and the attempt of `g1-a0`. Raises ValueError."""
    generation, found, attempt = text.removeprefix("g").partition("-a")
    if not found or not text.startswith("g"):
        raise ValueError(f"{text!r} is not a run: expected a text such as g1-a0")
    return int(generation), int(attempt)


def run_of_name(name: str) -> RunKey:
    """The run of a replica's name `w-<digest>-g<generation>-a<attempt>-<role>-<index>-r<k>`. Raises ValueError."""
    _, _, generation, attempt, *_ = name.split("-")
    return run_of(f"{generation}-{attempt}")


def workload_labels(owner: Owner, workload_id: str, project: str) -> dict[str, str]:
    """The labels of what outlives the runs of a workload."""
    return {**owner.labels(), WORKLOAD: workload_id, PROJECT: project}


def run_labels(owner: Owner, workload_id: str, project: str, run: RunKey) -> dict[str, str]:
    """The labels of every object of one run."""
    return {**workload_labels(owner, workload_id, project), RUN: run_text(run)}


def replica_labels(owner: Owner, project: str, replica: ReplicaKey) -> dict[str, str]:
    """The labels of a replica's pod."""
    run = run_labels(owner, replica.workload_id, project, (replica.generation, replica.attempt))
    return {**run, ROLE: replica.role, INDEX: str(replica.index), K: str(replica.k)}


def replica_of(name: str, node: str, labels: Mapping[str, str]) -> ReplicaKey:
    """The replica that a pod of that name is. Raises ValueError or KeyError for labels that are not complete."""
    generation, attempt = run_of(labels[RUN])
    index, k = int(labels[INDEX]), int(labels[K])
    return ReplicaKey(name, labels[WORKLOAD], generation, attempt, labels[ROLE], index, k, node)
