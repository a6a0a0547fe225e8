"""How the container of a replica starts: its words, the variables that Muster gives, and the files that they need.

Called by `manifests`. Pure. The programs under `/muster` come from a ConfigMap, so that an image needs only what its
framework needs: torchrun a `python3`, MPI and ColossalAI `sh`, an sshd in the workers and an ssh in the launcher.
Holds: a member's address is its host name in the headless Service of its run, for every incarnation of it (its k).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from muster_cluster_agent.domain import rendezvous
from muster_cluster_agent.domain.environment import identity
from muster_cluster_agent.domain.kubernetes.host_ports import host_port
from muster_cluster_agent.domain.plan import (
    LAUNCHERS,
    InvalidCommand,
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

HOSTFILE: Final = "hostfile"
CALLS: Final = "calls.json"
SSH_PORTS: Final = "ssh_ports"
_SSH_PORT: Final = 2222  # above 1023: the image's user may have no rights
_RECORD: Final = "/dev/termination-log"
_PYTHON: Final = "python3"


class Mount(StrEnum):
    """A folder that a container is given: Muster's programs, the run's keys, its hosts, and one to work in with ssh."""

    PROGRAMS = "/muster"
    KEYS = "/muster-keys"
    HOSTS = "/muster-hosts"
    SSH = "/muster-ssh"


_SSH_CONFIG: Final = f"{Mount.SSH}/config"  # as launcher.sh makes it


@dataclass(frozen=True, slots=True)
class Start:
    """words: its command; empty: the image's own. entry_point: the words are arguments to the image's own.

    env: variables that win over the user's. probe: how it is asked whether it is ready, as the API has it.
    """

    words: tuple[str, ...]
    entry_point: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: frozenset[Mount] = frozenset()
    probe: Mapping[str, Any] | None = None


def start_of(plan: ReplicaPlan) -> Start:
    """How the plan's container starts. Raises InvalidCommand."""
    start = _start_of(plan)
    if plan.container_or_empty.checkouts:  # they are made by a program
        return replace(start, mounts=start.mounts | {Mount.PROGRAMS})
    return start


def _start_of(plan: ReplicaPlan) -> Start:
    match plan.launch:
        case Plain(argv=argv, entry_point=entry_point):
            return Start(argv, entry_point)
        case Peer(argv=argv, entry_point=entry_point):
            return Start(argv, entry_point, rendezvous.variables(plan, meeting_of(plan)))
        case Torchrun() as launch:
            env = {**rendezvous.torchrun(launch, meeting_of(plan)), "MUSTER_RECORD": _RECORD}
            return Start(_torchrun(launch), env=env, mounts=frozenset({Mount.PROGRAMS}))
        case MpiWorker():
            return _worker(_ssh_port(plan, (plan.role, plan.index)))
        case MpiLauncher() as launch:
            return _launcher(plan, _mpirun(launch), _mpi_variables())
        case TorchLauncher():
            words = (_PYTHON, f"{Mount.PROGRAMS}/over_ssh.py", _SSH_CONFIG, f"{Mount.HOSTS}/{CALLS}")
            return _launcher(plan, words, {})
    raise InvalidCommand(f"this back end does not start {type(plan.launch).__name__}")


def host_of(plan: ReplicaPlan, member: tuple[str, int]) -> str:
    """The name by which the other members of its run reach a member."""
    role, index = member
    return f"{role}-{index}.{plan.gang}"


def meeting_of(plan: ReplicaPlan) -> Meeting:
    """Where the members of the plan's run meet."""
    known = plan.members if rendezvous.every_endpoint(plan) else plan.members[:1]
    return Meeting(plan.gang, tuple((host_of(plan, member), _port(plan, rank)) for rank, member in enumerate(known)))


def _port(plan: ReplicaPlan, rank: int) -> int:
    """The port on which the member of a rank listens for the others; 0: none."""
    port = rendezvous.port_of(plan)
    if not plan.host_network or not port:
        return port
    return host_port(plan.gang, min(rank, rendezvous.ports_of(plan) - 1))


def _ssh_port(plan: ReplicaPlan, member: tuple[str, int]) -> int:
    """The port of a worker's sshd. On the network of a node it lies behind those at which members meet."""
    if not plan.host_network:
        return _SSH_PORT
    return host_port(plan.gang, len(plan.members) + plan.members.index(member))


def hosts_of(plan: ReplicaPlan) -> dict[str, str]:
    """The files that a launcher reads about its workers, by name; none for any other replica. Raises InvalidCommand."""
    members = [member for member in plan.members if member[0] not in LAUNCHERS]
    found = _hosts(plan, [host_of(plan, member) for member in members])
    if found and plan.host_network:
        lines = (f"Host {host_of(plan, member)}\n    Port {_ssh_port(plan, member)}\n" for member in members)
        found[SSH_PORTS] = "".join(lines)
    return found


def _hosts(plan: ReplicaPlan, workers: Sequence[str]) -> dict[str, str]:
    match plan.launch:
        case MpiLauncher(hosts=hosts):
            slots = [slots for _, slots in hosts]
            lines = [f"{host} slots={count}\n" for host, count in zip(workers, slots, strict=True)]
            return {HOSTFILE: "".join(lines)}
        case TorchLauncher(calls=calls):
            torchruns = [torchrun for _, torchrun in calls]
            return {CALLS: json.dumps(_calls(plan, zip(workers, torchruns, strict=True)))}
    return {}


def _torchrun(launch: Torchrun) -> tuple[str, ...]:
    return (launch.python or _PYTHON, f"{Mount.PROGRAMS}/trun.py", *launch.argv)


def _worker(port: int) -> Start:
    """An sshd that runs what the launcher asks for. Its port answers once it can be asked."""
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 2}
    words = ("/bin/sh", f"{Mount.PROGRAMS}/worker.sh", str(port), Mount.KEYS, Mount.SSH)
    return Start(words, mounts=frozenset(Mount) - {Mount.HOSTS}, probe=probe)


def _launcher(plan: ReplicaPlan, words: tuple[str, ...], env: Mapping[str, str]) -> Start:
    ports = f"{Mount.HOSTS}/{SSH_PORTS}" if plan.host_network else ""
    prepared = ("/bin/sh", f"{Mount.PROGRAMS}/launcher.sh", str(_SSH_PORT), Mount.KEYS, Mount.SSH, ports)
    return Start((*prepared, *words), env=env, mounts=frozenset(Mount))


def _mpirun(launch: MpiLauncher) -> tuple[str, ...]:
    if "--enable-recovery" in launch.argv or "-enable-recovery" in launch.argv:
        raise InvalidCommand("mpirun --enable-recovery waits for ever where a rank is lost; leave it out")
    if launch.wrap:
        return ("mpirun", "-np", str(launch.ranks), *launch.argv)
    return launch.argv


def _mpi_variables() -> dict[str, str]:
    """As variables, so that an mpirun inside the user's own script finds them too. OMPI_: OpenMPI 4; PRTE_: 5."""
    arguments, hostfile = f"-F {_SSH_CONFIG}", f"{Mount.HOSTS}/{HOSTFILE}"
    return {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_plm_rsh_args": arguments,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # workers have no way to one another
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_plm_ssh_args": arguments,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    }


def _calls(plan: ReplicaPlan, calls: Iterable[tuple[str, Torchrun]]) -> dict[str, object]:
    """What a launcher asks of its workers: torchrun in the launcher's folder, with what the launcher's user sets.

    Values of credentials are in no file: the launcher has them, and passes them on by name.
    """
    meeting, said = meeting_of(plan), dict(plan.env)
    known = {**said, **identity(plan)}
    secret = [name for name, _ in plan.credentials]
    secret += [one.name for one in plan.container_or_empty.secrets]
    asked = []
    for host, torchrun in calls:
        words = " ".join(_quoted(word, known, secret) for word in _torchrun(torchrun))
        line = f"cd {shlex.quote(plan.working_dir)} && exec {words}" if plan.working_dir else f"exec {words}"
        asked.append({"host": host, "command": line, "env": rendezvous.torchrun(torchrun, meeting)})
    return {"env": said, "forward": secret, "calls": asked}


def _quoted(word: str, known: Mapping[str, str], secret: Collection[str]) -> str:
    """A word for the worker's shell, which alone fills in the values of credentials."""
    if any(f"\0{{{name}}}" == word for name in secret):
        return f'"${{{word[2:-1]}}}"'
    return shlex.quote(expand(word, known))
