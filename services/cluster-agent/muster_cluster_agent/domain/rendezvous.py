"""How the members of a gang find each other: the variables of each framework, wherever its replicas are.

Called by the back ends, which alone know addresses. Pure.
Sources: torch.distributed.run (PET_*), torch's env:// rendezvous, TensorFlow's TF_CONFIG, and for XGBoost and JAX the
variables that Kubeflow's training operator gives. Ports are those of that operator, too.
Holds: every member has the same addresses, in the order of ranks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from muster_cluster_agent.domain.model import Framework
from muster_cluster_agent.domain.plan import Peer, ReplicaPlan, TorchLauncher, Torchrun

Endpoint = tuple[str, int]
TORCH_PORT: Final = 29500
_STORE_PORT: Final = 29400  # of the store at which an elastic gang meets
_PORTS: Final = {Framework.TF: 2222, Framework.XGBOOST: 9999, Framework.JAX: 6666}
_TF_ROLES: Final = {"master": "chief"}
_JOIN_SECONDS: Final = 600
_LAST_CALL_SECONDS: Final = 3  # how long members wait for more of them once there are enough
_RESTARTS_IN_PLACE: Final = 3


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the members of one run meet.

    run: its name. endpoints: host and port of each member in the order of ranks; that of rank 0 alone suffices where
    `every_endpoint` says so.
    """

    run: str
    endpoints: tuple[Endpoint, ...]


def port_of(plan: ReplicaPlan) -> int:
    """The port on which members listen where each has an address of its own; 0: it is no gang that meets."""
    match plan.launch:
        case Torchrun(most=most) if most:
            return _STORE_PORT
        case Torchrun() | TorchLauncher():
            return TORCH_PORT
        case Peer(framework=framework):
            return _PORTS.get(framework, TORCH_PORT)
    return 0


def every_endpoint(plan: ReplicaPlan) -> bool:
    """Whether it needs the addresses of all members, and not that of rank 0 alone."""
    return isinstance(plan.launch, Peer) and plan.launch.framework in {Framework.TF, Framework.XGBOOST}


def ports_of(plan: ReplicaPlan) -> int:
    """How many ports its gang needs where all members share one address; members beyond the last port share that."""
    match plan.launch:
        case Peer(framework=Framework.TF):
            return len(plan.members)
        case Peer(framework=Framework.XGBOOST):
            return 2
    return 1 if port_of(plan) else 0


def variables(plan: ReplicaPlan, meeting: Meeting) -> dict[str, str]:
    """The variables by which a member finds the others; none where its command does not ask for them."""
    match plan.launch:
        case Torchrun() as launch:
            return torchrun(launch, meeting)
        case Peer(rank=rank, framework=framework) if len(plan.members) > 1 or framework is not Framework.PYTORCH:
            return _PEERS[framework](rank, plan.members, meeting)
    return {}


def torchrun(launch: Torchrun, meeting: Meeting) -> dict[str, str]:
    """Its rendezvous, and the restarts that torchrun may do by itself."""
    return {
        **(_growing(launch, meeting) if launch.most else _fixed(launch, meeting)),
        "PET_NPROC_PER_NODE": str(launch.processes),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _fixed(launch: Torchrun, meeting: Meeting) -> dict[str, str]:
    """Static, at rank 0. Restarts in place are off: the gang restarts as a whole (replicas.md 0.9)."""
    host, port = meeting.endpoints[0]
    return {
        "PET_NNODES": str(launch.nodes),
        "PET_NODE_RANK": str(launch.rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_MAX_RESTARTS": "0",
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }


def _growing(launch: Torchrun, meeting: Meeting) -> dict[str, str]:
    """At a store that rank 0 keeps, where others join and leave. Members that stay start their processes again.

    A member that leaves fails the processes of the others: torchrun takes that for a restart, so it is given some.
    """
    host, port = meeting.endpoints[0]
    keeps = "true" if launch.rank == 0 else "false"
    return {
        "PET_NNODES": f"{launch.nodes}:{launch.most}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_ID": meeting.run,
        "PET_RDZV_CONF": f"is_host={keeps},join_timeout={_JOIN_SECONDS},last_call_timeout={_LAST_CALL_SECONDS}",
        "PET_MAX_RESTARTS": str(_RESTARTS_IN_PLACE),
    }


Members = Sequence[tuple[str, int]]


def _torch(rank: int, members: Members, meeting: Meeting) -> dict[str, str]:
    """The names that torch's env:// rendezvous reads."""
    host, port = meeting.endpoints[0]
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(len(members)), "RANK": str(rank)}


def _tf(rank: int, members: Members, meeting: Meeting) -> dict[str, str]:
    cluster: dict[str, list[str]] = {}
    places = []
    for (role, _), (host, port) in zip(members, meeting.endpoints, strict=True):
        task = _TF_ROLES.get(role, role)
        addresses = cluster.setdefault(task, [])
        places.append({"type": task, "index": len(addresses)})
        addresses.append(f"{host}:{port}")
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": places[rank], "environment": "cloud"})}


def _xgboost(rank: int, members: Members, meeting: Meeting) -> dict[str, str]:
    found = _torch(rank, members, meeting)
    workers = meeting.endpoints[1:]
    if workers:
        found["WORKER_ADDRS"] = ",".join(host for host, _ in workers)
        found["WORKER_PORT"] = str(workers[0][1])
    return found


def _jax(rank: int, members: Members, meeting: Meeting) -> dict[str, str]:
    host, port = meeting.endpoints[0]
    return {
        "COORDINATOR_ADDRESS": host,
        "COORDINATOR_PORT": str(port),
        "NUM_PROCESSES": str(len(members)),
        "PROCESS_ID": str(rank),
    }


_PEERS: Final = {Framework.PYTORCH: _torch, Framework.TF: _tf, Framework.XGBOOST: _xgboost, Framework.JAX: _jax}
