"""Changes of a node's MIG layout that an operator orders, and which nodes may have one (kubernetes.md 7.4).

Called where an order comes in (life/layouts.py, commands.py) and where a node's row is read or written.
Holds: a node has at most one change; while it has one, it takes nothing new (`Node.open`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from muster_scheduler.domain.fleet.nodes import Node

MIG_CAPABLE: Final = "nvidia.com/mig.capable"
MIG_CONFIG: Final = "nvidia.com/mig.config"
LONGEST_CONFIG: Final = 63
_CONFIG: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class LayoutChange(NamedTuple):
    """A change that is under way. config: the name of a configuration of the cluster's mig-manager.

    revision: when it was ordered, in microseconds since 1970; it tells the changes of one node apart, and grows.
    applying: the agent has been told. Otherwise something of ours is left on the node.
    """

    config: str
    by: str
    revision: int
    applying: bool = False


def is_config(text: str) -> bool:
    """Return whether a name can be the value of the label that the mig-manager reads."""
    return len(text) <= LONGEST_CONFIG and _CONFIG.fullmatch(text) is not None


def has_mig(node: Node) -> bool:
    """Return whether the cluster says that a mig-manager can lay the node's devices out."""
    return node.label(MIG_CAPABLE) == "true" or bool(node.label(MIG_CONFIG))


def is_held_by_others(node: Node) -> bool:
    """Return whether another tenant of the cluster holds a device of the node."""
    groups = any(group.foreign for group in node.groups)
    return groups or node.foreign_slots > 0 or any(device.foreign for device in node.devices)
