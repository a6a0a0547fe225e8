"""Devices that KAI-Scheduler gives: what pods say to it and it writes on them (kubernetes.md 7.1, replicas.md 5.1).

Called by the Kubernetes back end for each pod that it reads or makes. Pure.
Holds: what a user says of labels and annotations never chooses another queue or other devices than the assigned ones; a
replica never asks for more of a card than it is charged for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster_cluster_agent.domain.kubernetes.device_parts import part_of
from muster_cluster_agent.domain.model import Share
from muster_kernel.quantities import MILLI

NAME: Final = "KAI-Scheduler"
SCHEDULER: Final = "kai-scheduler"
RESERVATIONS: Final = "kai-resource-reservation"
"""Namespace of the pods by which KAI takes the cards that pods share from the device plugin, one pod a card."""
QUEUE: Final = "kai.scheduler/queue"
"""Label of a pod: the queue of KAI to which it belongs. KAI schedules no pod without one."""
_FRACTION: Final = "gpu-fraction"
_MEMORY: Final = "gpu-memory"  # MiB
_COUNT: Final = "gpu-fraction-num-devices"
_GROUP: Final = "runai-gpu-group"
"""Label of a pod: the group of pods that share a card with it; `runai-gpu-group/GROUP` for each of several cards."""
_MEBIBYTE: Final = 1 << 20
_HIDDEN: Final = (
    *("gpu-fraction", "gpu-memory", "kai.scheduler/", "run.ai/", "runai-", "runai/"),
    *("nvidia.com/container.", "nvidia.com/mig-"),  # parts of devices and MIG slices, asked for by annotations
    *("pod-group-name", "received-resource-type"),
)


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """What the cluster file says of KAI.

    queue: of every pod with devices. scheduler: KAI's name. reservations: the namespace of its reservation pods.
    """

    queue: str = ""
    scheduler: str = SCHEDULER
    reservations: str = RESERVATIONS


def units_of(shares: Sequence[Share], resource: str) -> dict[str, str]:
    """Return what the container of a replica asks for: whole devices. resource: whose units are devices."""
    return {resource: str(len(shares))} if part_of(shares).whole else {}


def annotations_of(shares: Sequence[Share]) -> dict[str, str]:
    """Return by which annotations a pod asks for parts of devices; none: it asks for whole ones."""
    part = part_of(shares)
    if part.whole:
        return {}
    asked = (
        {_FRACTION: f"{part.portion_milli / MILLI:g}"}
        if part.portion_milli
        else {_MEMORY: str(max(1, part.memory_bytes // _MEBIBYTE))}
    )
    return {**asked, _COUNT: str(len(shares))} if len(shares) > 1 else asked


def asks_for_parts(annotations: Mapping[str, str]) -> bool:
    """Return whether a pod asks KAI for parts of devices."""
    return _FRACTION in annotations or _MEMORY in annotations


def groups_in(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the groups that KAI gave a pod: one for each card of which it has a part."""
    several = (text for name, text in labels.items() if name.startswith(f"{_GROUP}/"))
    return tuple(sorted({*several, labels.get(_GROUP, "")} - {""}))


def without_choices(said: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return a user's labels or annotations without those that KAI reads."""
    return tuple((name, text) for name, text in said if not name.startswith(_HIDDEN))
