"""Devices that KAI-Scheduler gives: what pods say to it and it writes on them (kubernetes.md 7.1, replicas.md 5.1).

Called by the Kubernetes back end for each pod that it reads or makes. Pure.
Holds: what a user says of labels and annotations never chooses another queue or other devices than the assigned ones; a
replica never asks for more of a card than it is charged for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster_cluster_agent.domain.kubernetes.device_parts import Part, part_of
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
_CONFIG_MAP: Final = "runai/shared-gpu-configmap"
"""Annotation of a pod: what the names of the ConfigMaps begin with in which KAI says what its containers have."""
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,250}[a-z0-9])?")  # the annotation is anybody's to edit
_VISIBLE: Final = ("NVIDIA_VISIBLE_DEVICES", "RUNAI-VISIBLE-DEVICES")
_PORTION: Final = ("GPU_PORTION", "RUNAI_NUM_OF_GPUS")
_ROUNDED: Final = 6.0  # thousandths of a device: KAI writes a portion with two decimals
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


def config_map_in(annotations: Mapping[str, str]) -> str:
    """Return with what the names of KAI's ConfigMaps about a pod begin; empty: it has none."""
    text = annotations.get(_CONFIG_MAP, "")
    return text if _NAME.fullmatch(text) else ""


def contradicts(said: Mapping[str, str], part: Part, count: int) -> bool:
    """Return whether a ConfigMap says that a container has something else than it was assigned.

    said: the data of the ConfigMap. part, count: what was assigned of each device, and of how many. What it does not
    say contradicts nothing, and neither does the portion that KAI makes of an amount of memory.
    """
    visible, portion = (next((said[key] for key in keys if said.get(key)), "") for keys in (_VISIBLE, _PORTION))
    if visible and len(visible.split(",")) != count:
        return True
    try:
        given = float(portion or "nan")
    except ValueError:
        return False
    return bool(part.portion_milli) and abs(given * MILLI - part.portion_milli) > _ROUNDED


def without_choices(said: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return a user's labels or annotations without those that KAI reads."""
    return tuple((name, text) for name, text in said if not name.startswith(_HIDDEN))
