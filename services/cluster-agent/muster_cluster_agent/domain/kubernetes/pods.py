"""Pods as they are kept in memory: of Muster's own what a replica's state depends on, of others what they hold.

Made of the API's JSON on receipt, so that a cluster of 10,000 pods costs megabytes. Pure.
Holds: a pod that cannot be read is one error that names it, and no other pod is lost by it. A pod that was seen as a
replica stays one under the same uid: its labels and annotations are anybody's to edit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from muster_cluster_agent.domain.kubernetes import hami, kai, marks
from muster_cluster_agent.domain.kubernetes.amounts import Amounts, amounts_of
from muster_cluster_agent.domain.kubernetes.device_parts import Allocation, Part, part_in
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.model import Pattern, ReplicaKey, Share

Json = Mapping[str, Any]
_PATTERNS: Final = frozenset(Pattern)  # an annotation is anybody's to edit
_FIXED: Final = ("project", "workload", "pattern", "spec", "devices", "part", "source")
"""Attributes of a replica's pod that its labels and annotations name when it is made."""
TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a pod. at: seconds since 1970 of its last change."""

    status: bool
    reason: str = ""
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Container:
    """One container's state. started_at, ended_at in seconds since 1970; code None: it has not ended.

    waiting: why it does not run yet. ran: a container of it was made, whether or not it still runs. lasting: it begins
    before the pod's own container and goes on beside it (a native sidecar).
    """

    name: str
    ready: bool = False
    ran: bool = False
    waiting: str = ""
    message: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    code: int | None = None
    reason: str = ""
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod. replica None: it is not one of this agent's. Times in seconds since 1970.

    deleted_at: when its deletion was asked for. forced: it has no grace left. finalizers: of Muster's own pods.
    addresses: those of its workload. serving: they lead to it. ip, ports: its own. devices: UUIDs of what it was
    assigned. source: what gives them. part: what it has of each of them where HAMi or KAI gives them. allocation: what
    HAMi gave it; None: nothing. parted: it asks KAI for parts of cards. groups: KAI's names of the cards that it
    shares. config_map: with what the names of KAI's ConfigMaps about it begin. cards: as which virtual card each of its
    groups is told.
    """

    name: str
    namespace: str
    uid: str
    version: str
    node: str
    phase: str
    amounts: Amounts
    replica: ReplicaKey | None = None
    project: str = ""
    workload: str = ""
    pattern: str = ""
    spec: str = ""
    created_at: float = 0.0
    deleted_at: float | None = None
    forced: bool = False
    finalizers: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    addresses: tuple[str, ...] = ()
    serving: bool = False
    ip: str = ""
    ports: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    part: Part | None = None
    allocation: Allocation | None = None
    source: DeviceSource = DeviceSource.SLICES
    parted: bool = False
    groups: tuple[str, ...] = ()
    config_map: str = ""
    cards: Mapping[str, str] = field(default_factory=dict)

    @property
    def shares(self) -> tuple[Share, ...]:
        """What it was assigned of its devices."""
        return (self.part or Part()).shares(self.devices)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def terminal(self) -> bool:
        """Whether its phase can no longer change."""
        return self.phase in TERMINAL

    def container(self, name: str) -> Container | None:
        """The container of that name, where its status is known."""
        return next((one for one in self.containers if one.name == name), None)


def pod_of(raw: Json, owner: Owner, known: Pod | None = None) -> Pod:
    """A pod of its JSON. Raises ValueError, KeyError or TypeError for one that is not whole.

    known: the pod of that name as it was last seen.
    """
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    amounts = amounts_of(spec)
    # The annotation is anybody's to write: of a pod that asks for no device it must not close a node.
    given = annotations.get(hami.ALLOCATED) if amounts.extended else None
    base: dict[str, Any] = {
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "uid": metadata["uid"],
        "version": metadata.get("resourceVersion", ""),
        "node": spec.get("nodeName", ""),
        "phase": status.get("phase", ""),
        "amounts": amounts,
        "allocation": hami.allocation(given) if given is not None else None,
        "parted": kai.asks_for_parts(annotations),
        "groups": kai.groups_in(labels),
    }
    first = _with_identity(Pod(**base), raw, owner, known)
    if first.replica is None:
        return first
    lasting = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    return replace(
        first,
        created_at=moment(metadata.get("creationTimestamp")) or 0.0,
        deleted_at=_deletion(metadata),
        forced=metadata.get("deletionGracePeriodSeconds") == 0,
        finalizers=tuple(metadata.get("finalizers") or ()),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        conditions={one["type"]: _condition(one) for one in status.get("conditions") or ()},
        containers=tuple(
            _container(one, lasting=one["name"] in lasting)
            for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            for one in status.get(kind) or ()
        ),
        addresses=tuple(filter(None, annotations.get(marks.ADDRESS, "").split(","))),
        serving=marks.SERVING in labels,
        ip=status.get("podIP", ""),
        ports=tuple(port["containerPort"] for port in spec["containers"][0].get("ports") or ()),
        config_map=kai.config_map_in(annotations),
        cards=_cards(annotations.get(marks.CARDS, "")),
    )


def _with_identity(pod: Pod, raw: Json, owner: Owner, known: Pod | None) -> Pod:
    """Return the pod with what is fixed since it was made, if it is a replica of this agent.

    known: the pod of that name as it was last seen. Without its labels a replica would look like a pod that has
    vanished, and a second one would be started.
    """
    if known is not None and known.replica is not None and known.uid == pod.uid:
        return replace(
            pod,
            replica=replace(known.replica, node=pod.node or known.replica.node),
            **{name: getattr(known, name) for name in _FIXED},
        )
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not owner.has(labels):
        return pod
    try:
        replica = marks.replica_of(pod.name, pod.node or _pinned(raw.get("spec") or {}), labels)
    except (KeyError, ValueError):  # its labels were copied or edited: a pod of others, which holds what it requests
        return pod
    pattern, part = annotations.get(marks.PATTERN, ""), part_in(annotations.get(marks.PART, ""))
    return replace(
        pod,
        replica=replica,
        project=labels.get(marks.PROJECT, ""),
        workload=annotations.get(marks.NAME, ""),
        pattern=pattern if pattern in _PATTERNS else Pattern.SINGLE.value,
        spec=annotations.get(marks.SPEC, ""),
        devices=_devices(annotations.get(marks.DEVICES, "")),
        part=part,
        source=_source(annotations, part),
    )


def moment(text: str | None) -> float | None:
    """Seconds since 1970 of a time as the API writes it (RFC 3339)."""
    return datetime.fromisoformat(text).timestamp() if text else None


def _devices(text: str) -> tuple[str, ...]:
    """Return the UUIDs of the annotation. It is anybody's to edit: what is not a list of texts names none."""
    said = _parsed(text)
    return tuple(said) if isinstance(said, list) and all(isinstance(one, str) for one in said) else ()


def _source(annotations: Mapping[str, str], part: Part | None) -> DeviceSource:
    """Return what gives the devices of a pod of Muster's own."""
    if part is None:
        return DeviceSource.SLICES
    return DeviceSource.KAI if marks.BY_KAI in annotations else DeviceSource.HAMI


def _cards(text: str) -> Mapping[str, str]:
    """Return the virtual cards by group. The annotation is anybody's to edit: what is no object of texts names none."""
    said = _parsed(text)
    return said if isinstance(said, dict) and all(isinstance(one, str) for one in said.values()) else {}


def _parsed(text: str) -> object:
    """Return the value of a JSON text; None where there is no text or it is no JSON."""
    if not text:
        return None
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _pinned(spec: Json) -> str:
    """The node to which Muster's own affinity binds a pod that is not bound yet."""
    terms: Iterable[Any] = (
        ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        or {}
    ).get("nodeSelectorTerms") or ()
    names = [
        value for term in terms for field_ in term.get("matchFields") or () for value in field_.get("values") or ()
    ]
    return str(names[0]) if names else ""


def _deletion(metadata: Json) -> float | None:
    """When the deletion was asked for: the API writes when its grace ends."""
    at = moment(metadata.get("deletionTimestamp"))
    return None if at is None else at - float(metadata.get("deletionGracePeriodSeconds") or 0)


def _condition(raw: Json) -> Condition:
    return Condition(
        raw.get("status") == "True",
        raw.get("reason", ""),
        raw.get("message", ""),
        moment(raw.get("lastTransitionTime")) or 0.0,
    )


def _container(raw: Json, *, lasting: bool) -> Container:
    state = raw.get("state") or {}
    running, ended, waiting = state.get("running"), state.get("terminated"), state.get("waiting") or {}
    what = ended or running or {}
    return Container(
        name=raw["name"],
        ready=bool(raw.get("ready")),
        ran=bool(raw.get("containerID")) or running is not None or bool((ended or {}).get("containerID")),
        waiting=waiting.get("reason", ""),
        message=(ended or waiting).get("message", ""),
        started_at=moment(what.get("startedAt")),
        ended_at=moment((ended or {}).get("finishedAt")),
        code=int(ended["exitCode"]) if ended is not None else None,
        reason=(ended or {}).get("reason", ""),
        lasting=lasting,
    )
