"""How far the mig-manager of a cluster is with the MIG layout of a node (kubernetes.md 7.4).

Called by the Kubernetes back end with a node as it is. Pure.
The mig-manager follows one label of a node and answers in another: `pending` or `rebooting` while it works, then
`success` or `failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

CONFIG: Final = "nvidia.com/mig.config"
STATE: Final = "nvidia.com/mig.config.state"


class Progress(Enum):
    """UNASKED: the node's label names another layout. WORKING: the mig-manager has not answered yet."""

    UNASKED = "unasked"
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


def progress(labels: Mapping[str, str], config: str) -> Progress:
    """Return how far a node with these labels is with a layout."""
    if labels.get(CONFIG) != config:
        return Progress.UNASKED
    match labels.get(STATE):
        case "success":
            return Progress.DONE
        case "failed":
            return Progress.FAILED
        case _:
            return Progress.WORKING


def asking(raw: Mapping[str, Any], config: str) -> dict[str, Any]:
    """Return the merge patch of a node that asks for a layout.

    It removes the mig-manager's last answer, which would otherwise be taken for the answer to this one. The version is
    that of the node that was judged: if the node has changed since, the API server refuses the patch.
    """
    version = raw["metadata"].get("resourceVersion")
    return {"metadata": {"resourceVersion": version, "labels": {CONFIG: config, STATE: None}}}
