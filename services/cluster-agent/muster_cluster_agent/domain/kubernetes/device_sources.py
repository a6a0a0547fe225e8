"""What tells of the devices of a node, and gives them to pods (kubernetes.md 7.1). Pure."""

from __future__ import annotations

from enum import StrEnum


class DeviceSource(StrEnum):
    """What tells of a node's devices; the values are the words of the cluster file.

    AUTO: ResourceSlices on nodes that have some, else HAMi's annotation, else labels and allocatable resources.
    KAI: KAI-Scheduler gives them. It leaves no mark on a node, so that AUTO never finds it.
    """

    AUTO = "auto"
    SLICES = "slices"
    HAMI = "hami"
    KAI = "kai"
    COUNTED = "counted"
