"""Devices that KAI-Scheduler gives: what a pod says to it (kubernetes.md 7.1, replicas.md 5.1).

Called by the Kubernetes back end for each pod that it makes. Pure.
Holds: what a user says of labels and annotations never chooses another queue or other devices than the assigned ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SCHEDULER: Final = "kai-scheduler"
QUEUE: Final = "kai.scheduler/queue"
"""Label of a pod: the queue of KAI to which it belongs. KAI schedules no pod without one."""
_HIDDEN: Final = (
    *("gpu-fraction", "gpu-memory", "kai.scheduler/", "run.ai/", "runai-", "runai/"),
    *("nvidia.com/container.", "nvidia.com/mig-"),  # parts of devices and MIG slices, asked for by annotations
    *("pod-group-name", "received-resource-type"),
)


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """What the cluster file says of KAI. queue: of every pod with devices. scheduler: KAI's name."""

    queue: str = ""
    scheduler: str = SCHEDULER


def without_choices(said: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return a user's labels or annotations without those that KAI reads."""
    return tuple((name, text) for name, text in said if not name.startswith(_HIDDEN))
