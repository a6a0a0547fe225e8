"""Turns a plan into the spec that its supervisor reads: ports, paths, environment.

Used by the local back end. Holds: replicas of one gang meet at the same ports, which the first of them is given.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from muster_cluster_agent.adapters.local import mounts, procfs
from muster_cluster_agent.adapters.local.accounts import Account
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.beneath import open_beneath
from muster_cluster_agent.adapters.local.cgroups import Groups
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile
from muster_cluster_agent.adapters.local.confiner import Confiner
from muster_cluster_agent.adapters.local.machine import Machine
from muster_cluster_agent.adapters.local.replicas import CALLS, EXEC_SOCKET, Replica, ReplicaStore
from muster_cluster_agent.adapters.local.service_ports import ServicePorts
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.workdirs import Folders, Workdirs
from muster_cluster_agent.domain import environment, launch, rendezvous, usage
from muster_cluster_agent.domain.budgets import budget_of
from muster_cluster_agent.domain.confinement import Root, below, roots_of
from muster_cluster_agent.domain.plan import MpiLauncher, ReplicaPlan, TorchLauncher
from muster_cluster_agent.errors import NotAllowed

_TMP: Final = "/tmp"  # noqa: S108  what stands for it is the replica's own
_NO_USER: Final = -1


class SpecWriter:
    """Writes specs for one state folder on one machine."""

    def __init__(
        self,
        state: StateFolder,
        machine: Machine,
        ports: Ports,
        groups: Groups,
        workdirs: Workdirs,
        confiner: Confiner,
        kept: ServicePorts,
    ) -> None:
        """Keep no state but the ports."""
        self._state = state
        self._groups = groups
        self._kept = kept
        self._machine = machine
        self._ports = ports
        self._workdirs = workdirs
        self._confiner = confiner

    def spec(
        self,
        plan: ReplicaPlan,
        boot: str,
        file: ClusterFile,
        others: Sequence[Replica],
        *,
        dead_man: float | None = None,
        starts: bool = True,
    ) -> dict[str, Any]:
        """The spec of a replica that is about to be made. `others`: those of its workload. Raises BackendError.

        dead_man: its deadline in seconds; None: it has none. starts: False for one that is only written down as given
        up. Raises NotAllowed where it names a folder that its project was not given, and NotConfined.
        """
        folders = self._workdirs.folders(plan.workload_id, plan.name)
        account = self._confiner.account(plan.project) if starts else None
        confinement = self._confiner.of(plan.project, folders, account) if starts else None
        cwd = self._cwd(plan, folders, file) if starts else str(folders.work)
        ports = {container: self._ports.take() for container in plan.ports}
        meeting = self._meeting_ports(plan, others)
        process = launch.process(plan, self._places(plan, folders, account, cwd, ports, meeting))
        spec: dict[str, Any] = {
            "name": plan.name,
            "gang": plan.gang,
            "workload_id": plan.workload_id,
            "workload": plan.workload,
            "project": plan.project,
            "generation": plan.generation,
            "attempt": plan.attempt,
            "role": plan.role,
            "index": plan.index,
            "k": plan.k,
            "node": plan.node,
            "node_boot": boot,
            "boot": procfs.boot_id(),
            "pattern": plan.pattern.value,
            "launch": type(plan.launch).__name__,
            "created_at": time.time(),
            "devices": [environment.described(share) for share in plan.shares],
            "charge": usage.charge(plan.shares, plan.slots, {d.uuid: d for n in file.nodes for d in n.devices}),
            "argv": list(process.argv),
            "env": {**process.env, procfs.AGENT_MARK: self._state.instance},
            "cwd": cwd,
            "run_folder": str(folders.run),
            "keep_folder": str(folders.keep),
            "told": str(folders.told),
            "given": str(folders.given),
            "confinement": confinement.as_spec() if confinement is not None else None,
            "grace": plan.grace,
            "ports": {str(container): port for container, port in ports.items()},
            "meeting_ports": list(meeting),
            "log": {"folder": str(self._state.log(plan.name)), "budget": file.log_budget},
            "notify": str(self._state.socket),
        }
        budget = budget_of(plan.limits, file.budgets, self._groups.memory)
        spec["budget"] = self._groups.described(f"{plan.name}.{self._state.instance[:8]}", budget)
        spec["service_port"] = self._kept.of(plan.workload_id) if plan.ports else 0
        spec["probe"] = self._probe(plan, ports)
        if dead_man is not None:
            spec["deadline"] = {"file": str(self._state.alive), "seconds": dead_man}
        return spec

    def write(self, store: ReplicaStore, spec: dict[str, Any], plan: ReplicaPlan) -> bool:
        """Makes the replica's folders, writes what its launcher reads, and puts the spec on the disk. Blocks."""
        folders = self._workdirs.folders(plan.workload_id, plan.name)
        uid = spec["confinement"]["uid"] if spec["confinement"] else None
        self._workdirs.make(folders, plan.workload_id, uid)
        given = self._given(plan, spec)
        if given:
            self._workdirs.give(folders, given, uid)
        self._kept.save()
        return store.create(spec)

    def _given(self, plan: ReplicaPlan, spec: dict[str, Any]) -> dict[str, str]:
        """What a launcher reads: its workers' hosts and sockets, or what it asks of them."""
        if isinstance(plan.launch, MpiLauncher):
            hosts = {host: self._socket(plan, host) for host, _ in plan.launch.hosts}
            return {"hostfile": launch.hostfile(plan.launch), "hosts.json": json.dumps(hosts)}
        if isinstance(plan.launch, TorchLauncher):
            folders = self._workdirs.folders(plan.workload_id, plan.name)
            places = self._places(plan, folders, None, str(spec["cwd"]), {}, tuple(spec["meeting_ports"]))
            asked = launch.calls(plan.launch, plan, places, spec["env"])
            return {CALLS: json.dumps([{**call, "socket": self._socket(plan, str(call["host"]))} for call in asked])}
        return {}

    def _socket(self, plan: ReplicaPlan, host: str) -> str:
        return str(self._workdirs.folders(plan.workload_id, host).told / EXEC_SOCKET)

    def keep_ports(self, spec: dict[str, Any]) -> None:
        """The ports of a replica that was found running."""
        for port in _ports_of(spec):
            self._ports.keep(port)

    def give_back_ports(self, spec: dict[str, Any], others: Iterable[Replica]) -> None:
        """The ports of a removed replica, except those that it shared with others."""
        shared = {port for other in others for port in _ports_of(other.spec)}
        for port in set(_ports_of(spec)) - shared:
            self._ports.give_back(port)

    def _places(
        self,
        plan: ReplicaPlan,
        folders: Folders,
        account: Account | None,
        cwd: str,
        ports: dict[int, int],
        meeting: tuple[int, ...],
    ) -> launch.Places:
        return launch.Places(
            folder=str(folders.told),
            cwd=cwd,
            python=self._machine.python,
            shims=self._machine.shims,
            tools=self._machine.tools,
            base_env=(*self._machine.base_env, ("PATH", self._confiner.path), *_own_env(folders, account)),
            work_env=(
                ("MUSTER_WORKDIR", str(folders.work)),
                ("MUSTER_RUN_DIR", str(folders.run)),
                ("MUSTER_WORKLOAD_DIR", str(folders.keep)),
            ),
            meeting_ports=meeting,
            ports=ports,
            mpi_prefix=self._machine.mpi_prefix,
            torch_python=self._machine.torch_python,
            hosts_file=str(folders.given / "hostfile"),
            host_map=str(folders.given / "hosts.json"),
            calls_file=str(folders.given / CALLS),
            gang=plan.gang,
        )

    def _meeting_ports(self, plan: ReplicaPlan, others: Iterable[Replica]) -> tuple[int, ...]:
        """The ports of its gang, which the first of its replicas is given."""
        for other in others:
            if other.spec["gang"] == plan.gang and other.spec["meeting_ports"]:
                return tuple(other.spec["meeting_ports"])
        return tuple(self._ports.take() for _ in range(rendezvous.ports_of(plan)))

    def _probe(self, plan: ReplicaPlan, ports: dict[int, int]) -> dict[str, Any] | None:
        if plan.probe is None:
            return None
        asked = plan.probe.port or next(iter(ports))
        return {
            "path": plan.probe.path,
            "port": ports[asked],  # its own, and no other process of this machine
            "host": plan.probe.host,
            "tls": plan.probe.tls,
            "pace": {
                "delay": plan.probe.delay,
                "period": plan.probe.period,
                "timeout": plan.probe.timeout,
                "successes": plan.probe.successes,
                "failures": plan.probe.failures,
            },
        }

    def _cwd(self, plan: ReplicaPlan, folders: Folders, file: ClusterFile) -> str:
        """Where the command starts. Raises NotAllowed."""
        wanted = os.path.normpath(plan.working_dir) if plan.working_dir else ""
        if not wanted:
            return str(folders.work)
        mine = roots_of(plan.project, file.access.roots)
        root = below(wanted, mine)
        if root is not None:
            _open_folder(root, wanted)
            return wanted
        if wanted == _TMP or wanted.startswith(f"{_TMP}/"):
            return str(folders.tmp)
        if _plain_to_see(wanted):
            names = ", ".join(each.path for each in mine) or "none"
            raise NotAllowed(
                f"workingDir: {wanted} is a folder of the cluster's machine, and project {plan.project} may name only "
                f"folders below its roots ({names}); leave workingDir out, or have the cluster's owner add the folder "
                "to `roots` of the cluster file"
            )
        return str(folders.work)  # a folder of the image, which is not used here


def _open_folder(root: Root, wanted: str) -> None:
    """Raises NotAllowed where the folder is not there, or lies across a link."""
    inside = os.path.relpath(wanted, root.path)
    try:
        top = os.open(root.path, os.O_PATH | os.O_DIRECTORY)
        try:
            os.close(open_beneath(top, inside, os.O_PATH | os.O_DIRECTORY))
        finally:
            os.close(top)
    except OSError as error:
        why = "it leads across a link" if error.errno in {errno.ELOOP, errno.EXDEV} else error.strerror
        raise NotAllowed(f"workingDir: {wanted} cannot be used below the root {root.path}: {why}") from error


def _plain_to_see(wanted: str) -> bool:
    """Whether any user of the machine can tell that the folder is there: what root alone sees must not be told."""
    return not mounts.unreachable(wanted, _NO_USER) and os.path.isdir(wanted)


def _own_env(folders: Folders, account: Account | None) -> tuple[tuple[str, str], ...]:
    """What a user's programs expect of their home; the user may set it otherwise."""
    own = (("HOME", str(folders.home)), ("TMPDIR", str(folders.tmp)))
    return (*own, ("USER", account.name), ("LOGNAME", account.name)) if account else own


def _ports_of(spec: dict[str, Any]) -> list[int]:
    """The ports that are its run's own. The workload's address is kept apart, for the workload's life."""
    return [int(port) for port in (*spec.get("ports", {}).values(), *spec.get("meeting_ports", ()))]
