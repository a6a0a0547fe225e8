"""Whether this machine has room for what a verb is about to do, said before it starts and not halfway.

Called by `setup`, `demo` and `test`. Pure but for the two readings at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GIB: Final = 1 << 30
MEMORY_FILE: Final = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Need:
    """What a verb needs free, in bytes, and why: the sentence a person reads where it is missing."""

    purpose: str
    disk: int
    memory: int


PACKAGES: Final = Need("the locked packages", disk=3 * GIB, memory=1 * GIB)  # they take 1.6 GB, and uv's cache as much
TORCH: Final = Need(
    "torch, for the data-parallel training", disk=12 * GIB, memory=1 * GIB
)  # 3 GB packed, 7 GB unpacked
STACK: Final = Need("Kafka, PostgreSQL, the services and two clusters", disk=2 * GIB, memory=3 * GIB)


def shortage(need: Need, *, disk: int, memory: int | None, folder: Path) -> str | None:
    """What is missing, as a sentence, or None where there is enough.

    disk, memory: bytes free; memory is None where the system does not tell.
    """
    if disk < need.disk:
        return (
            f"{need.purpose}: {need.disk / GIB:.0f} GB of disk are needed and {disk / GIB:.1f} GB are free "
            f"under {folder}; free some, or put the clone on a bigger disk"
        )
    if memory is not None and memory < need.memory:
        return (
            f"{need.purpose}: {need.memory / GIB:.0f} GB of memory are needed and {memory / GIB:.1f} GB are available; "
            "end other programs first"
        )
    return None


def shortage_here(need: Need, folder: Path) -> str | None:
    """What this machine is missing, or None."""
    return shortage(need, disk=free_disk(folder), memory=available_memory(), folder=folder)


def available_memory_in(text: str) -> int | None:
    """The bytes that /proc/meminfo calls available, or None where it does not say."""
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return None


def available_memory(read: Callable[[Path], str] = Path.read_text) -> int | None:
    """Bytes of memory available now, or None on a system without /proc."""
    return available_memory_in(read(MEMORY_FILE)) if MEMORY_FILE.exists() else None


def free_disk(folder: Path) -> int:
    """Bytes that an ordinary user may still write under `folder`."""
    return shutil.disk_usage(folder).free
