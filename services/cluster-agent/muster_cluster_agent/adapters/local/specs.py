"""Turns a plan into the spec that its supervisor reads: ports, paths, environment.

Used by the local back end. Holds: replicas of one gang meet at one port, which the first of them is given.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.cgroups import Groups
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile
from muster_cluster_agent.adapters.local.machine import Machine
from muster_cluster_agent.adapters.local.replicas import CALLS, Replica, ReplicaStore, write_text
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain import launch, usage
from muster_cluster_agent.domain.budgets import budget_of
from muster_cluster_agent.domain.model import Pattern
from muster_cluster_agent.domain.plan import MpiLauncher, ReplicaPlan, TorchLauncher, Torchrun

_DEAD_MAN_MARGIN: Final = 60.0  # seconds by which a supervisor gives up before the scheduler gives its devices away


class SpecWriter:
    """Writes specs for one state folder on one machine."""

    def __init__(self, state: StateFolder, machine: Machine, ports: Ports, groups: Groups) -> None:
        """Keep no state but the ports."""
        self._state = state
        self._groups = groups
        self._machine = machine
        self._ports = ports

    def spec(self, plan: ReplicaPlan, boot: str, file: ClusterFile, others: Sequence[Replica]) -> dict[str, Any]:
        """The spec of a replica that is about to be made. `others`: those of its workload. Raises BackendError."""
        ports = {container: self._ports.take() for container in plan.ports}
        master = self._master_port(plan, others)
        process = launch.process(plan, self._places(plan, ports, master))
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
            "devices": [launch.described(share) for share in plan.shares],
            "anonymous": plan.anonymous,
            "charge": usage.charge(plan.shares, plan.anonymous, {d.uuid: d for n in file.nodes for d in n.devices}),
            "argv": list(process.argv),
            "env": process.env,
            "cwd": self._cwd(plan),
            "grace": plan.grace,
            "ports": {str(container): port for container, port in ports.items()},
            "master_port": master,
            "log": {"folder": str(self._state.log(plan.name)), "budget": file.log_budget},
            "notify": str(self._state.socket),
        }
        budget = budget_of(plan.limits, file.budgets, self._groups.memory)
        spec["budget"] = self._groups.described(plan.name, budget)
        spec["service_port"] = self._service_port(plan, others)
        spec["probe"] = self._probe(plan, ports)
        if file.lost_timeout is not None:
            spec["deadline"] = {"file": str(self._state.alive), "seconds": file.lost_timeout - _DEAD_MAN_MARGIN}
        return spec

    def write(self, store: ReplicaStore, spec: dict[str, Any], plan: ReplicaPlan) -> bool:
        """Puts the spec on the disk; a launcher's files go beside the log, where they exist before it starts.

        Blocks.
        """
        if isinstance(plan.launch, MpiLauncher):
            folder = self._launcher_folder(plan)
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / "hostfile", launch.hostfile(plan.launch))
            hosts = {host: str(self._state.replica(host) / "exec.sock") for host, _ in plan.launch.hosts}
            write_text(folder / "hosts.json", json.dumps(hosts))
        if isinstance(plan.launch, TorchLauncher):
            folder = self._launcher_folder(plan)
            folder.mkdir(parents=True, exist_ok=True)
            places = self._places(plan, {}, int(spec["master_port"]))
            asked = launch.calls(plan.launch, plan, places, spec["env"])
            sockets = [{**each, "socket": str(self._state.replica(str(each["host"])) / "exec.sock")} for each in asked]
            write_text(folder / CALLS, json.dumps(sockets))
        return store.create(spec)

    def keep_ports(self, spec: dict[str, Any]) -> None:
        """The ports of a replica that was found running."""
        for port in _ports_of(spec):
            self._ports.keep(port)

    def give_back_ports(self, spec: dict[str, Any], others: Iterable[Replica]) -> None:
        """The ports of a removed replica, except those that it shared with others."""
        shared = {port for other in others for port in _ports_of(other.spec)}
        for port in set(_ports_of(spec)) - shared:
            self._ports.give_back(port)

    def _places(self, plan: ReplicaPlan, ports: dict[int, int], master: int) -> launch.Places:
        folder = self._launcher_folder(plan)
        return launch.Places(
            folder=str(self._state.replica(plan.name)),
            cwd=self._cwd(plan),
            python=self._machine.python,
            shims=self._machine.shims,
            tools=self._machine.tools,
            base_env=self._machine.base_env,
            master_port=master,
            ports=ports,
            mpi_prefix=self._machine.mpi_prefix,
            torch_python=self._machine.torch_python,
            hosts_file=str(folder / "hostfile"),
            host_map=str(folder / "hosts.json"),
            calls_file=str(folder / CALLS),
            gang=plan.gang,
        )

    def _launcher_folder(self, plan: ReplicaPlan) -> Path:
        return self._state.log(plan.name)

    def _master_port(self, plan: ReplicaPlan, others: Iterable[Replica]) -> int:
        if plan.pattern is not Pattern.TORCH and not isinstance(plan.launch, Torchrun | TorchLauncher):
            return 0
        for other in others:
            if other.spec["gang"] == plan.gang and other.spec["master_port"]:
                return int(other.spec["master_port"])
        return self._ports.take()

    def _service_port(self, plan: ReplicaPlan, others: Iterable[Replica]) -> int:
        """The workload's one address, kept over revisions and attempts as long as one replica of it is here."""
        if not plan.ports:
            return 0
        for other in others:
            if other.spec.get("service_port"):
                return int(other.spec["service_port"])
        return self._ports.take()

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

    def _cwd(self, plan: ReplicaPlan) -> str:
        """The folder asked for where this machine has it: images are not used here, so it may well be missing."""
        return plan.working_dir if plan.working_dir and Path(plan.working_dir).is_dir() else self._machine.cwd


def _ports_of(spec: dict[str, Any]) -> list[int]:
    ports = [*spec.get("ports", {}).values(), spec.get("master_port", 0), spec.get("service_port", 0)]
    return [int(port) for port in ports if port]
