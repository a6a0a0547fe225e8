"""The programs that Muster puts into containers, as one ConfigMap a namespace, whose name says what is in it.

Called by `manifests` for the name and by the Kubernetes back end for the object. Pure: the programs are parts of this
package. Holds: another version has another name, so that no running replica's programs change.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

from muster_cluster_agent import shims
from muster_cluster_agent.domain.kubernetes.marks import Owner

_PROGRAMS: Final = ("git.sh", "launcher.sh", "over_ssh.py", "rank.sh", "trun.py", "worker.sh")


@cache
def texts() -> dict[str, str]:
    """Each program by its name."""
    return {name: (files(shims) / name).read_text(encoding="utf-8") for name in _PROGRAMS}


@cache
def programs_name() -> str:
    """The name of the ConfigMap."""
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in texts().items()).encode())
    return f"muster-programs-{digest.hexdigest()[:12]}"


def config_map(owner: Owner, namespace: str) -> dict[str, Any]:
    """The ConfigMap of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": programs_name(), "namespace": namespace, "labels": owner.labels()},
        "immutable": True,
        "data": texts(),
    }
