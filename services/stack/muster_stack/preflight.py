"""Whether this machine has room for a stack, asked before anything is started.

Called by `muster up` and the demo. Each complaint says what was found, what is needed and what helps.
"""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Final

from muster_stack.errors import NoRoom
from muster_stack.layout import Layout, cache_folder
from muster_stack.ports import free_ports

DISK: Final = 1_500_000_000  # bytes: jars and archive 110 MB, PostgreSQL's log up to 1 GB, Kafka's records
MEMORY: Final = 1_200_000_000  # bytes available: Kafka 250 MB, six services of 60-120 MB, PostgreSQL
PORTS: Final = 20


def check(layout: Layout, *, disk: int = DISK, memory: int = MEMORY) -> None:
    """Raises NoRoom with every complaint at once."""
    complaints = [*_system(), *_disk(layout, disk), *_memory(memory), *_ports()]
    if complaints:
        raise NoRoom("this machine has no room for Muster:\n" + "\n".join(f"  {line}" for line in complaints))


def _system() -> list[str]:
    system = platform.system()
    return [] if system == "Linux" else [f"the embedded stack runs on Linux, this is {system}: use `make compose-up`"]


def _disk(layout: Layout, needed: int) -> list[str]:
    complaints = []
    for purpose, folder in (("data", layout.root), ("downloads", cache_folder())):
        free = shutil.disk_usage(_existing(folder)).free
        if free < needed:
            sizes = f"{free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed"
            complaints.append(f"disk of the {purpose} folder {folder}: {sizes}; set MUSTER_HOME or MUSTER_CACHE")
    return complaints


def _existing(folder: Path) -> Path:
    return next(part for part in [folder, *folder.parents] if part.exists())


def available_memory() -> int | None:
    """Bytes that new processes may use, None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


def _memory(needed: int) -> list[str]:
    available = available_memory()
    if available is None or available >= needed:
        return []
    sizes = f"{available / 1e9:.1f} GB available, {needed / 1e9:.1f} GB needed"
    return [f"memory: {sizes}; end other programs"]


def _ports() -> list[str]:
    try:
        free_ports(PORTS)
    except OSError as error:
        return [f"ports: {PORTS} free ones on 127.0.0.1 are needed: {error}"]
    return []
