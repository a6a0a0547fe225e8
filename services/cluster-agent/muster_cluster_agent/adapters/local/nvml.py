"""Devices found through NVML, for a cluster file that says `devices: nvml`.

Called when the cluster file is read. Holds: the file's one node gets every device of the machine, in NVML's order.
"""

from __future__ import annotations

from dataclasses import replace

import pynvml

from muster_cluster_agent.adapters.local.cluster_file import ClusterFile
from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.errors import ClusterFileError
from muster_kernel.cards import card_of


def fill(file: ClusterFile) -> ClusterFile:
    """The file with the machine's devices on its node.

    Raises ClusterFileError where there is no driver, or devices are listed.
    """
    if len(file.nodes) != 1 or file.nodes[0].devices:
        raise ClusterFileError("devices: nvml takes exactly one node, without a list of devices")
    return replace(file, nodes=(replace(file.nodes[0], devices=found()),))


def found() -> tuple[Device, ...]:
    """The devices of this machine. Raises ClusterFileError where NVML does not answer."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise ClusterFileError(
            f"devices: nvml, but NVML does not answer: {error}; declare the devices instead"
        ) from error
    try:
        return tuple(_device(slot) for slot in range(pynvml.nvmlDeviceGetCount()))
    finally:
        pynvml.nvmlShutdown()


def _device(slot: int) -> Device:
    handle = pynvml.nvmlDeviceGetHandleByIndex(slot)
    memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    return Device(
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        model=card_of(_text(pynvml.nvmlDeviceGetName(handle)), memory),
        memory_bytes=memory,
        slot=slot,
        mig_enabled=_mig(handle),
    )


def _mig(handle: object) -> bool:
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    except pynvml.NVMLError:
        return False  # a model that has no MIG says so by an error


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
