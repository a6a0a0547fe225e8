"""The process that a plan becomes: its words and its environment, once addresses and paths are known.

Called by the local back end when it writes a replica down. Pure.
Holds: what Muster sets wins over what the user sets (replicas.md 9.3: these names are reserved), and a device is named
to the process only by what the scheduler gave.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster_cluster_agent.domain import rendezvous
from muster_cluster_agent.domain.environment import counted, described, identity
from muster_cluster_agent.domain.model import Share, Slice
from muster_cluster_agent.domain.plan import (
    MpiLauncher,
    MpiWorker,
    Peer,
    Plain,
    ReplicaPlan,
    TorchLauncher,
    Torchrun,
)
from muster_cluster_agent.domain.rendezvous import Meeting
from muster_kernel.words import expand

LOOPBACK: Final = "127.0.0.1"
_ON_LOOPBACK: Final = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are on this machine.

    meeting_ports: those at which the members of its gang find each other. ports: container port -> the port that this
    replica was given.
    """

    folder: str
    cwd: str
    python: str
    shims: str
    tools: str  # a folder with agent-rsh, put on the launcher's PATH
    base_env: tuple[tuple[str, str], ...]
    work_env: tuple[tuple[str, str], ...] = ()  # its folders; the user does not set these
    meeting_ports: tuple[int, ...] = ()
    ports: dict[int, int] = field(default_factory=dict)
    mpi_prefix: str = ""
    torch_python: str = ""
    hosts_file: str = ""
    host_map: str = ""
    calls_file: str = ""
    gang: str = ""  # the run whose replicas meet each other


@dataclass(frozen=True, slots=True)
class Process:
    """What a supervisor starts."""

    argv: tuple[str, ...]
    env: dict[str, str]


def process(plan: ReplicaPlan, places: Places) -> Process:
    """The plan as a process; references in its words become the values of the environment."""
    argv, launch_env = _launch(plan, places)
    env = {
        **dict(places.base_env),
        "NCCL_HOSTID": plan.name,  # replicas meet over TCP: the sockets that NCCL uses within one host are confined
        **dict(plan.env),
        **dict(plan.credentials),
        **identity(plan),
        **dict(places.work_env),
        **_devices(plan),
        **_ports(places),
        **launch_env,
    }
    if isinstance(plan.launch, MpiLauncher | MpiWorker):  # orted, too, ends at once where it cannot find the agent
        env["PATH"] = f"{places.tools}:{env.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    return Process(tuple(expand(word, env) for word in argv), env)


def _devices(plan: ReplicaPlan) -> dict[str, str]:
    """Devices by UUID; the cluster's own runtime chooses counted ones, so that their visibility is left alone."""
    if plan.slots and not plan.shares:
        return {"MUSTER_DEVICES": json.dumps(counted(plan.slots))}
    if isinstance(plan.launch, MpiLauncher | TorchLauncher):
        return {"CUDA_VISIBLE_DEVICES": "", "MUSTER_DEVICES": "[]"}
    visible = ",".join(_visible(share) for share in plan.shares)
    return {"CUDA_VISIBLE_DEVICES": visible, "MUSTER_DEVICES": json.dumps([described(share) for share in plan.shares])}


def _visible(share: Share) -> str:
    return share.slice.uuid if share.slice is not None and share.slice.uuid else share.device


def share_of(described: Mapping[str, Any]) -> Share:
    """Return the share that `environment.described` made this of."""
    device, cut = str(described["uuid"]), described.get("slice")
    if cut is not None:
        return Share(device, slice=Slice(str(cut["profile"]), int(cut["start"]), str(cut["uuid"])))
    if "bytes" in described:
        return Share(device, memory_bytes=int(described["bytes"]))
    if "portion" in described:
        return Share(device, portion_milli=round(float(described["portion"]) * 1000))
    return Share(device, whole=True)


def _ports(places: Places) -> dict[str, str]:
    given = {f"MUSTER_PORT_{container}": str(port) for container, port in places.ports.items()}
    if places.ports:
        given["PORT"] = str(next(iter(places.ports.values())))
    return given


def _launch(plan: ReplicaPlan, places: Places) -> tuple[tuple[str, ...], dict[str, str]]:
    launch = plan.launch
    if isinstance(launch, Plain | Peer):
        env = rendezvous.variables(plan, _meeting(plan, places))
        return launch.argv, {**env, **_ON_LOOPBACK} if env else {}
    if isinstance(launch, Torchrun):
        return _torchrun(launch, plan, places)
    if isinstance(launch, MpiWorker):
        daemon = (places.python, "-I", "-S", f"{places.shims}/execd.py", f"{places.folder}/exec.sock")
        return daemon, _mpi_common(places)
    if isinstance(launch, TorchLauncher):
        return (places.python, "-I", "-S", f"{places.shims}/rsh.py", "--calls", places.calls_file), {}
    return _mpirun(launch, places)


def _meeting(plan: ReplicaPlan, places: Places) -> Meeting:
    """All members have the one address of this machine, so that each that listens has a port of its own."""
    ports = places.meeting_ports
    ranks = range(max(1, len(plan.members)))
    return Meeting(places.gang, tuple((LOOPBACK, ports[min(rank, len(ports) - 1)]) for rank in ranks) if ports else ())


def _torchrun(launch: Torchrun, plan: ReplicaPlan, places: Places) -> tuple[tuple[str, ...], dict[str, str]]:
    """Its rendezvous, and where its end is written down."""
    env = {
        **rendezvous.torchrun(launch, _meeting(plan, places)),
        **_ON_LOOPBACK,
        "MUSTER_RECORD": f"{places.folder}/record.json",
    }
    if launch.most:
        env["PET_LOCAL_ADDR"] = LOOPBACK
    python = launch.python or places.torch_python or places.python
    return (python, f"{places.shims}/trun.py", *launch.argv), env


def calls(launch: TorchLauncher, plan: ReplicaPlan, places: Places, env: Mapping[str, str]) -> list[dict[str, object]]:
    """What the launcher asks of each worker: its torchrun, in the launcher's folder, with what its user sets.

    env: the launcher's own, for references in the command.
    """
    found: list[dict[str, object]] = []
    for host, torch in launch.calls:
        argv, settings = _torchrun(torch, plan, places)
        del settings["MUSTER_RECORD"]  # one file for all workers would name the one that ended last
        line = f"cd {shlex.quote(places.cwd)} && exec {shlex.join(expand(word, env) for word in argv)}"
        found.append({"host": host, "command": line, "env": {**dict(plan.env), **dict(plan.credentials), **settings}})
    return found


def _mpirun(launch: MpiLauncher, places: Places) -> tuple[tuple[str, ...], dict[str, str]]:
    env = {
        **_mpi_common(places),
        "OMPI_MCA_plm_rsh_agent": "agent-rsh",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",  # an orted that fails says why, and goes with its launcher
        "OMPI_MCA_orte_default_hostfile": places.hosts_file,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "MUSTER_HOSTS": places.host_map,
    }
    program = f"{places.mpi_prefix}/bin/mpirun" if places.mpi_prefix else "mpirun"
    if launch.wrap:
        prefix = ("--prefix", places.mpi_prefix) if places.mpi_prefix else ()
        return (program, *prefix, "-np", str(launch.ranks), *launch.argv), env
    own = launch.argv[0]
    return (own if "/" in own else program, *launch.argv[1:]), env


def _mpi_common(places: Places) -> dict[str, str]:
    """As variables, so that an mpirun inside the user's own script finds them too.

    Without the btl settings it segfaults: shared memory is tried between ranks that are told to be on different hosts.
    """
    env = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_MCA_oob_tcp_if_include": "lo",
        "PMIX_MCA_gds": "hash",  # not the store in shared memory: workers of one machine would share its files
        "OMP_NUM_THREADS": "1",
    }
    if places.mpi_prefix:
        env["OMPI_MCA_orte_launch_agent"] = f"{places.mpi_prefix}/bin/orted"
        env["OPAL_PREFIX"] = places.mpi_prefix
    return env


def hostfile(launch: MpiLauncher) -> str:
    """The text of the launcher's hostfile."""
    return "".join(f"{host} slots={slots}\n" for host, slots in launch.hosts)
