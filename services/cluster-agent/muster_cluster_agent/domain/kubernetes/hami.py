"""Devices that HAMi shares: what its annotations say, and what a pod asks of it (kubernetes.md 7, replicas.md 5.2).

Called by the Kubernetes back end for each node and pod that it reads or makes. Pure.
Holds: an annotation is anybody's to edit, so that one that cannot be read offers nothing and never raises; a replica is
never given more of a card than it is charged for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.kubernetes.device_parts import Allocation, part_of
from muster_cluster_agent.domain.model import Share
from muster_kernel.cards import card_of

REGISTERED: Final = "hami.io/node-nvidia-register"
"""Annotation of a node: its devices."""
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""Annotation of a pod: the devices that HAMi's scheduler gave it, by container."""
CHOSEN: Final = "nvidia.com/use-gpuuuid"
"""Annotation of a pod: the only devices that HAMi may give it."""
NAME: Final = "HAMi"
SCHEDULER: Final = "hami-scheduler"
UNHEALTHY: Final = "HAMi reports it as unhealthy"
_PERCENT: Final = "nvidia.com/gpumem-percentage"
_CORES: Final = "nvidia.com/gpucores"
_MEMORY: Final = "nvidia.com/gpumem"  # MiB
_HIDDEN: Final = ("hami.io/", "nvidia.com/use-", "nvidia.com/nouse-")
_MEBIBYTE: Final = 1 << 20
_MILLI_PER_PERCENT: Final = 10
_MOST_MEBIBYTES: Final = 1 << 24  # 16 TiB: no card has more, and its bytes fit into 64 bits
_FIELDS: Final = 7  # UUID, count, memory, cores, type, NUMA node, health; later versions add an index and a mode
_MODE: Final = 8
_VENDOR: Final = "NVIDIA-"  # HAMi writes it before the product's own name
_SPLIT_BY_HARDWARE: Final = "mig"
_TRUTHS: Final = {"true": True, "false": False}
_GIVEN_FIELDS: Final = 4  # UUID, vendor, memory, cores


@dataclass(frozen=True, slots=True)
class Registered:
    """What HAMi says of a node. problem: why it cannot be read. parts: cards that HAMi splits by MIG, left out."""

    devices: tuple[Device, ...] = ()
    parts: int = 0
    problem: str = ""


def registered(text: str) -> Registered:
    """Return what a node's annotation says: a JSON array, or the separated text of earlier versions."""
    try:
        entries = _entries(text)
        devices = [_device(entry, slot) for slot, entry in enumerate(entries) if _mode(entry) != _SPLIT_BY_HARDWARE]
        if len({device.uuid for device in devices}) < len(devices):
            raise ValueError("a device is named twice")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return Registered(problem=f"{type(error).__name__}: {error}"[:200])
    return Registered(tuple(devices), len(entries) - len(devices))


def allocation(text: str) -> Allocation:
    """Return the devices of all containers of a pod, each of them once."""
    entries = [entry for container in text.split(";") for entry in container.split(":") if entry.strip()]
    fields = [[word.strip() for word in entry.split(",")] for entry in entries]
    if any(len(words) < _GIVEN_FIELDS or not words[0] for words in fields):
        return Allocation(problem=f"{text[:80]!r} is not UUID,VENDOR,MEMORY,CORES by container")
    return Allocation(tuple(dict.fromkeys(words[0].partition("[")[0] for words in fields)))


def units_of(shares: Sequence[Share], resource: str) -> dict[str, str]:
    """Return what the container of a replica asks for. resource: whose units are devices.

    Amounts are rounded down: HAMi must not run out of a card that still has room by Muster's count.
    """
    part = part_of(shares)
    found = {resource: str(len(shares))}
    if part.portion_milli:
        percent = str(max(1, part.portion_milli // _MILLI_PER_PERCENT))
        found |= {_PERCENT: percent, _CORES: percent}
    elif part.memory_bytes:
        found[_MEMORY] = str(max(1, part.memory_bytes // _MEBIBYTE))
    return found


def without_choices(annotations: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return a user's annotations without those by which HAMi would choose other devices than the assigned ones."""
    return tuple((name, text) for name, text in annotations if not name.startswith(_HIDDEN))


def foreign(here: Registered, others: Iterable[Allocation | None]) -> tuple[str, ...]:
    """Return the devices of a node that others hold: all of them where it cannot be read which."""
    held: set[str] = set()
    for found in others:
        if found is not None and found.problem:
            return tuple(device.uuid for device in here.devices)
        held.update(found.devices if found is not None else ())
    return tuple(device.uuid for device in here.devices if device.uuid in held)


def _entries(text: str) -> list[Mapping[str, Any]]:
    if not text.lstrip().startswith("["):
        return [_separated(entry) for entry in text.split(":") if entry.strip()]
    entries = json.loads(text)
    if not all(isinstance(entry, Mapping) for entry in entries):
        raise TypeError("expected an array of objects")
    return list(entries)


def _separated(entry: str) -> Mapping[str, Any]:
    """Return an entry of the separated text as the JSON array has it."""
    words = [word.strip() for word in entry.split(",")]
    if len(words) < _FIELDS:
        raise ValueError(f"expected {_FIELDS} fields, not {entry[:80]!r}")
    uuid, _, memory, _, product, _, health = words[:_FIELDS]
    if not (memory.isascii() and memory.isdigit() and len(memory) <= len(str(_MOST_MEBIBYTES))):
        raise ValueError(f"expected MiB of memory, not {memory[:80]!r}")
    mode = words[_MODE] if len(words) > _MODE else ""
    return {"id": uuid, "devmem": int(memory), "type": product, "health": _TRUTHS.get(health.lower()), "mode": mode}


def _mode(entry: Mapping[str, Any]) -> str:
    return str(entry.get("mode") or "")


def _device(entry: Mapping[str, Any], slot: int) -> Device:
    uuid, memory, product, healthy = entry["id"], entry["devmem"], entry["type"], entry["health"]
    if not isinstance(uuid, str) or not uuid or not isinstance(product, str):
        raise TypeError(f"expected texts as id and type, not {uuid!r} and {product!r}")
    if not isinstance(memory, int) or isinstance(memory, bool) or not 0 <= memory <= _MOST_MEBIBYTES:
        raise ValueError(f"expected MiB of memory, not {memory!r}")
    if not isinstance(healthy, bool):
        raise TypeError(f"expected true or false as health of {uuid}")
    size = memory * _MEBIBYTE
    model = card_of(product.removeprefix(_VENDOR), size)
    return Device(uuid, model, size, slot, healthy=healthy, trouble="" if healthy else UNHEALTHY)
