"""The nodes of a local cluster: each with a boot id, and a switch that kills, freezes or reboots it.

Used by the local back end, which polls `look`. Holds: a switch is obeyed any number of times with the same result; a
node that is silent is told from one that is gone by time, by another boot id or by being marked out of service, as
rule 7 says.
"""

from __future__ import annotations

import contextlib
import signal
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile, DeclaredNode
from muster_cluster_agent.adapters.local.state import replace_file
from muster_cluster_agent.domain.fleet import Identity, Node, NodeState, Taint
from muster_cluster_agent.domain.model import NodeHealth, NodeView

DISK_PRESSURE: Final = Taint("muster.io/disk-pressure", "reserve", "NoSchedule")
"""What every node of a machine has whose disk is below its reserve."""
ProcessId = tuple[int, int]  # (pid, start time)
_ROUNDS: Final = 20


class Switch(StrEnum):
    """What can be done to a node."""

    UP = "up"
    KILL = "kill"
    FREEZE = "freeze"
    REBOOT = "reboot"
    OUT_OF_SERVICE = "out-of-service"


@dataclass(slots=True)
class _NodeFiles:
    """A node's files and what was last done about them."""

    folder: Path
    boot: str
    switch: Switch = Switch.UP
    since: float = 0.0
    stamp: int = -1


class Nodes:
    """All nodes of the cluster. processes: of a node, every process that must feel its fate."""

    def __init__(self, root: Path, file: ClusterFile, processes: Callable[[str], Iterable[ProcessId]]) -> None:
        """Reads or makes each node's files below `root`."""
        self._root = root
        self._processes = processes
        self._files: dict[str, _NodeFiles] = {}
        self._views: dict[str, NodeView] | None = None
        self.file = file
        self.disk_short = False
        self.declare(file)

    def declare(self, file: ClusterFile) -> None:
        """The file has changed."""
        self.file = file
        self._views = None
        for node in file.nodes:
            if node.name not in self._files:
                self._files[node.name] = self._open(node.name)

    def look(self) -> set[str]:
        """Reads the switches and obeys them; the names of nodes whose health has changed.

        Blocks: call it in a thread.
        """
        changed = set()
        if any(files.switch in {Switch.KILL, Switch.FREEZE} for files in self._files.values()):
            self._views = None  # a silent node becomes a lost one by the clock alone
        for node in self.file.nodes:
            files = self._files[node.name]
            if self._obey(node.name, files):
                changed.add(node.name)
        return changed

    def views(self, now: float) -> dict[str, NodeView]:
        """The nodes as reconciling needs them. `now` in seconds since 1970."""
        views = self._views
        if views is None:
            views = self._views = {node.name: self._view(node, now) for node in self.file.nodes}
        return views

    def boot(self, name: str) -> str:
        """The boot id of a node; empty where there is no such node."""
        return self._files[name].boot if name in self._files else ""

    def reported(self, now: float) -> tuple[Node, ...]:
        """The nodes as they are reported."""
        return tuple(self._reported(node, now) for node in self.file.nodes)

    def _view(self, node: DeclaredNode, now: float) -> NodeView:
        return NodeView(
            name=node.name,
            health=self._health(node, now),
            boot=self._files[node.name].boot,
            devices=frozenset(d.uuid for d in node.devices if d.healthy),
        )

    def _health(self, node: DeclaredNode, now: float) -> NodeHealth:
        files = self._files[node.name]
        if node.state is NodeState.OUT_OF_SERVICE or files.switch is Switch.OUT_OF_SERVICE:
            return NodeHealth.OUT_OF_SERVICE
        if files.switch is Switch.REBOOT:
            return NodeHealth.SILENT
        if files.switch in {Switch.KILL, Switch.FREEZE}:
            return NodeHealth.LOST if now - files.since >= self.file.node_gone_after else NodeHealth.SILENT
        return NodeHealth.UP

    def _reported(self, node: DeclaredNode, now: float) -> Node:
        health = self._health(node, now)
        state = node.state
        if health is NodeHealth.OUT_OF_SERVICE:
            state = NodeState.OUT_OF_SERVICE
        elif health is not NodeHealth.UP:
            state = NodeState.NOT_READY
        counted = self.file.profile.identity is Identity.ANONYMOUS
        return Node(
            name=node.name,
            uid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.file.cluster}/{node.name}")),
            boot_id=self._files[node.name].boot,
            state=state,
            cpu_milli=node.cpu_milli,
            memory_bytes=node.memory_bytes,
            pool=node.pool,
            drain_deadline=node.drain_deadline,
            labels=node.labels,
            taints=(*node.taints, DISK_PRESSURE) if self.disk_short else node.taints,
            foreign=node.foreign,
            devices=() if counted else node.devices,
            slots=node.slots,
            extended=node.extended,
            maintenance=node.maintenance,
        )

    def _open(self, name: str) -> _NodeFiles:
        """A machine that was started anew has started all of its nodes anew."""
        folder = self._root / name
        folder.mkdir(parents=True, exist_ok=True)
        machine = procfs.boot_id()
        boot, known = _read(folder / "boot-id"), _read(folder / "machine")
        if not boot or known != machine:
            boot = str(uuid.uuid4())
            replace_file(folder / "boot-id", boot.encode())
            replace_file(folder / "machine", machine.encode())
        if not (folder / "switch").exists():
            replace_file(folder / "switch", Switch.UP.encode())
        return _NodeFiles(folder, boot)

    def _obey(self, name: str, files: _NodeFiles) -> bool:
        path = files.folder / "switch"
        try:
            stat = path.stat()
        except OSError:
            return False
        if stat.st_mtime_ns == files.stamp:
            if files.switch is Switch.KILL:
                self._end(name)  # what was being forked when the switch fell
            return False
        with contextlib.suppress(ValueError):
            wanted = Switch(_read(path) or Switch.UP)
            return self._turn(name, files, wanted, stat.st_mtime, stat.st_mtime_ns)
        return False

    def _turn(self, name: str, files: _NodeFiles, wanted: Switch, since: float, stamp: int) -> bool:
        before, files.switch, files.since = files.switch, wanted, since
        self._views = None  # before anything dies: who sees a supervisor end must know that its node did
        if before is Switch.FREEZE and wanted is not Switch.FREEZE:
            self._signal(name, signal.SIGCONT)
        if wanted is Switch.FREEZE:
            self._signal(name, signal.SIGSTOP)
        if wanted in {Switch.KILL, Switch.REBOOT, Switch.OUT_OF_SERVICE}:
            self._end(name)
        if wanted is Switch.REBOOT:
            self._end(name)
            files.boot = str(uuid.uuid4())
            replace_file(files.folder / "boot-id", files.boot.encode())
            replace_file(files.folder / "switch", Switch.UP.encode())
            files.switch, stamp = Switch.UP, (files.folder / "switch").stat().st_mtime_ns
            self._views = None
        files.stamp = stamp
        return before is not wanted or wanted is Switch.REBOOT

    def _signal(self, name: str, number: signal.Signals) -> None:
        for pid, start in self._processes(name):
            procfs.send(pid, start, number)

    def _end(self, name: str) -> None:
        """SIGKILL until nothing of the node is left: supervisors first, since they would kill and report in order."""
        for _ in range(_ROUNDS):
            left = [(pid, start) for pid, start in self._processes(name) if procfs.alive(pid, start)]
            if not left:
                return
            self._signal(name, signal.SIGKILL)
            time.sleep(0.005)  # until the kernel has taken them out of /proc


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
