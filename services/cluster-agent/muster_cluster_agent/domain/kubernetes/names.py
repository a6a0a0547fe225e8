"""Names of a run's objects: all begin with the name of its root, which is the base of its replicas' names. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from muster_cluster_agent.domain.model import ReplicaKey
from muster_kernel import ids

_SUFFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")


def base_of(replica: ReplicaKey) -> str:
    """The name of the root of a replica's run."""
    return ids.base_name(replica.workload_id, replica.generation, replica.attempt)


def shard_name(root: str, number: int) -> str:
    """A ConfigMap with lines about replicas that are gone. Raises ValueError where it is too long."""
    return ids.check_name(f"{root}-gone-{number}")


def workload_base(workload_id: str) -> str:
    """The name of the root of what outlives a workload's runs."""
    return f"w-{ids.digest(workload_id)}"


def service_name(workload_id: str, workload: str) -> str:
    """The Service of a workload has its name, where that is one that a Service may have."""
    try:
        return ids.check_name(workload)
    except ValueError:
        return workload_base(workload_id)


def port_name(container_port: int) -> str:
    """The name of a container's port, by which Services find it."""
    return f"p-{container_port}"


def keys_name(root: str) -> str:
    """The Secret with the run's key pair."""
    return f"{root}-ssh"


def hosts_name(root: str) -> str:
    """The ConfigMap with what the launcher reads about its workers."""
    return f"{root}-hosts"


def credentials_name(root: str, role: str) -> str:
    """The Secret with the credentials of a role."""
    return f"{root}-cred-{role}"


def label_suffix(label: str) -> str:
    """The label of an item where it may stand in a name, which users do not have to know; else a digest of it."""
    return label if _SUFFIX.fullmatch(label) else hashlib.sha256(label.encode()).hexdigest()[:16]
