"""Roots: the ConfigMaps that stand for runs, as they are made and as they are kept in memory. Pure.

Holds: a root names everything that its run may have beside its pods before any of it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import marks, resources
from muster_cluster_agent.domain.kubernetes.lines import LINES_IN_SHARD, replica_name
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.pods import moment
from muster_cluster_agent.domain.kubernetes.resources import Manifest, Resource
from muster_cluster_agent.domain.model import RunKey
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_kernel.ids import base_name

Json = Mapping[str, Any]
ROOT_SHARD: Final = 0


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a run (shard 0), or a ConfigMap with more lines of it.

    lines: how replicas ended, by the replica's name, and why they are asked to stop, by `lines.stop_key`. objects: what
    the run may have beside its pods, by its name.
    """

    name: str
    namespace: str
    uid: str
    workload_id: str
    project: str
    run: RunKey
    shard: int
    lines: Mapping[str, str]
    finalizers: tuple[str, ...] = ()
    objects: tuple[tuple[Resource, str], ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def full(self) -> bool:
        """Whether it takes no more lines."""
        return len(self.lines) >= LINES_IN_SHARD


@dataclass(frozen=True, slots=True)
class WorkloadRoot:
    """The root of what outlives the runs of a workload, by its name. used: its last start, in seconds since 1970."""

    name: str
    namespace: str
    uid: str
    workload_id: str
    objects: tuple[tuple[Resource, str], ...]
    finalizers: tuple[str, ...] = ()
    used: float = 0.0

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def manifest(owner: Owner, plan: ReplicaPlan) -> Manifest:
    """The root of the plan's run. What it names is added by `naming`."""
    labels = marks.run_labels(owner, plan.workload_id, plan.project, (plan.generation, plan.attempt))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": plan.gang,
            "namespace": plan.namespace,
            "labels": {**labels, marks.ROOT_OF: "run", marks.SHARD: str(ROOT_SHARD)},
            "annotations": {marks.NAME: plan.workload},
            "finalizers": [marks.ROOT],
        },
    }


def copied(root: Root, known: Mapping[str, str], owner: Owner, namespace: str) -> Manifest:
    """How replicas ended, as a ConfigMap of another namespace says it when the root's own is deleted.

    known: lines that are not in the root.
    """
    labels = marks.run_labels(owner, root.workload_id, root.project, root.run)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": root.name,
            "namespace": namespace,
            "labels": {**labels, marks.ROOT_OF: "run", marks.SHARD: str(root.shard)},
        },
        "data": {**{key: line for key, line in root.lines.items() if replica_name(key) == key}, **known},
    }


def naming(names: Iterable[tuple[Resource, str]], used: float | None = None) -> Manifest:
    """What a root says of the objects that belong to it, as a patch of it. used: when its workload was last started."""
    said = {marks.OBJECTS: resources.text_of(names)}
    if used is not None:
        said[marks.USED] = str(int(used))
    return {"metadata": {"annotations": said}}


def named_by(raw: Json) -> tuple[tuple[Resource, str], ...]:
    """The objects that a root names."""
    return resources.names_in((raw["metadata"].get("annotations") or {}).get(marks.OBJECTS, ""))


def root_of(raw: Json, owner: Owner) -> Root | WorkloadRoot:
    """A root of its JSON. Raises ValueError or KeyError for a ConfigMap that is none of this agent's."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    if not owner.has(labels):
        raise ValueError(f"it belongs to another agent ({labels.get(marks.ORIGIN, 'none')})")
    said: dict[str, Any] = {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "workload_id": labels[marks.WORKLOAD],
        "objects": named_by(raw),
        "finalizers": tuple(metadata.get("finalizers") or ()),
    }
    if labels[marks.ROOT_OF] == "workload":
        used = (metadata.get("annotations") or {}).get(marks.USED, "")
        made_at = moment(metadata.get("creationTimestamp")) or 0.0
        return WorkloadRoot(**said, used=max(made_at, float(used) if used.isdigit() else 0.0))
    run = marks.run_of(labels[marks.RUN])
    own = f"{base_name(said['workload_id'], *run)}-"  # a root says nothing about replicas of other runs
    return Root(
        **said,
        project=labels.get(marks.PROJECT, ""),
        run=run,
        shard=int(labels[marks.SHARD]),
        lines={key: line for key, line in (raw.get("data") or {}).items() if replica_name(key).startswith(own)},
    )


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace: whose project it is, and whether it is going.

    origin, cluster: the agent that made it, and of which cluster of Muster it is; empty where no label says it.
    """

    name: str
    project: str
    terminating: bool
    origin: str = ""
    uid: str = ""
    cluster: str = ""

    def belongs_to(self, owner: Owner) -> bool:
        """Return whether no label names another agent, or another cluster of Muster."""
        return self.origin in {"", owner.origin} and self.cluster in {"", owner.cluster}

    def is_made_by(self, owner: Owner) -> bool:
        """Return whether this agent has made it; an administrator's own namespace has no origin."""
        return self.origin == owner.origin

    def accepts(self, project: str, owner: Owner) -> bool:
        """Return whether this agent may write here for that project."""
        return not self.terminating and self.project == project and self.belongs_to(owner)


def namespace_of(raw: Json) -> Namespace:
    """A namespace of its JSON."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    terminating = (raw.get("status") or {}).get("phase") == "Terminating" or "deletionTimestamp" in metadata
    return Namespace(
        metadata["name"],
        labels.get(marks.PROJECT, ""),
        terminating,
        labels.get(marks.ORIGIN, ""),
        metadata.get("uid", ""),
        labels.get(marks.CLUSTER, ""),
    )
