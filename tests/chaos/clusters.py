"""The fleet of a chaos run: two clusters of real local processes.

Every device is known by its UUID, so that a checker can judge who held it when.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

NODES: Final = {"alpha": 3, "beta": 2}
DEVICES_PER_NODE: Final = 8
NAMES: Final = tuple(NODES)
GPUS: Final = DEVICES_PER_NODE * sum(NODES.values())


def declarations() -> dict[str, str]:
    """One cluster file by cluster."""
    return {name: _declaration(name, nodes) for name, nodes in NODES.items()}


def _declaration(name: str, nodes: int) -> str:
    devices = f"{{count: {DEVICES_PER_NODE}, model: A100-40GB, memory: 40Gi}}"
    lines = [f"  - {{name: {name}-{n}, cpu: 64, memory: 256Gi, devices: {devices}}}" for n in range(nodes)]
    # The program of the inference services is in this folder: a confined replica reads what its cluster file lets it.
    roots = f"roots: [{{path: {Path(__file__).resolve().parent}}}]"
    return "\n".join([f"cluster: {name}", roots, "nodes:", *lines, ""])
