"""What the local back end looks at again and again: nodes and the cluster file, all replicas, the disk, what goes.

Used by `backend.py`, which gives the parts and begins the four tasks. Holds: what is looked at is the disk and the
kernel, so a round that is missed or done twice changes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from muster_cluster_agent.adapters.local import access, cluster_file, nvml, procfs
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile
from muster_cluster_agent.adapters.local.confiner import Confiner, Private
from muster_cluster_agent.adapters.local.disk import Disk, too_large
from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.nodes import Nodes
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.tasks import Tasks
from muster_cluster_agent.adapters.local.watcher import Watcher
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.budgets import Spent, pressed_sentence, spent_sentence
from muster_cluster_agent.errors import ClusterFileError

_LOOK_SECONDS: Final = 0.25
_NODES_A_LOOK: Final = 100  # where there are more nodes, their switches are looked at less often
_DISK_SECONDS: Final = 1.0
_DISK_LOOKS: Final = 10  # looks at what is free between two at what the working folders hold
_SCAN_SECONDS: Final = 10.0
_REMOVE_SECONDS: Final = 0.5  # between two turns of removing what is left of deleted workloads
_NVML_LOOKS: Final = 80  # looks at the switches between two looks at the devices

log = structlog.get_logger(__name__)


class DeclaredCluster:
    """The cluster file as it was last read whole. declared: what it says."""

    def __init__(self, file: Path, private: Private) -> None:
        """Reads it. Raises ClusterFileError. private: the folders that it may give to no replica."""
        self._file = file
        self._private = private
        self._stamp = file.stat().st_mtime_ns
        self.declared = self._read()

    def changed(self, *, again: bool) -> bool:
        """Reads a file that has changed, or reads it `again` for the devices that NVML finds.

        A broken file is said and the last good one kept: an editor's half-written file must not stop a cluster.
        """
        try:
            stamp = self._file.stat().st_mtime_ns
            if stamp == self._stamp and not again:
                return False
            self._stamp = stamp
            before, self.declared = self.declared, self._read()
        except (OSError, ClusterFileError) as error:
            log.error("cluster_file_refused", error=str(error))  # noqa: TRY400  the sentence is the whole story
            return False
        return before != self.declared

    def _read(self) -> ClusterFile:
        try:
            text = self._file.read_text()
        except OSError as error:
            raise ClusterFileError(f"{self._file} cannot be read: {error.strerror} (MUSTER_CLUSTER_FILE)") from error
        found = cluster_file.parse(text, where=self._file.name)
        errors = access.check(found.access, self._private.folders, root=os.geteuid() == 0)
        if errors:
            raise ClusterFileError("\n".join(f"{self._file.name}: {error}" for error in errors))
        return nvml.fill(found) if found.nvml else found


@dataclass(frozen=True, slots=True)
class Rounds:
    """The four rounds over the parts of one back end.

    stop: ends a replica by name, with its grace in seconds and the reason. blocking: runs work in a thread.
    """

    cluster: DeclaredCluster
    nodes: Nodes
    confiner: Confiner
    disk: Disk
    replicas: Register
    watcher: Watcher
    workdirs: Workdirs
    leftovers: Leftovers
    stop: Callable[[str, float, str], Awaitable[object]]
    blocking: Callable[[Callable[[], Any]], Awaitable[Any]]

    def begin(self, tasks: Tasks) -> None:
        """Begin all of them."""
        tasks.spawn("nodes", self._watch_nodes)
        tasks.spawn("scan", self._scan)
        tasks.spawn("disk", self._watch_disk)
        tasks.spawn("removal", self._remove_leftovers)

    async def end_the_greedy(self, *, critical: bool) -> None:
        """Ends workloads whose folders are above the budget, or the largest where the disk is nearly full."""
        budget = self.cluster.declared.budgets.disk
        running = [replica for replica in self.replicas if replica.running and "stop" not in replica.spec]
        folders = {r.workload_id: self.workdirs.folders(r.workload_id, r.name).workload for r in running}
        supervisors: dict[str, list[int]] = {}
        for replica in running:
            if (recorded := replica.supervisor()) is not None and procfs.alive(*recorded):
                supervisors.setdefault(replica.workload_id, []).append(recorded[0])
        looking = partial(too_large, folders, budget, critical=critical, supervisors=supervisors)
        found = await self.blocking(lambda: list(looking()))
        for workload_id, size in found:
            above = bool(budget) and size > budget
            why = spent_sentence(Spent.DISK, budget) if above else pressed_sentence(size, self.disk.short)
            log.warning("workload_used_the_disk", workload_id=workload_id, bytes=size, why=why)
            for replica in [each for each in running if each.workload_id == workload_id]:
                await self.stop(replica.name, 0.0, f"{status.DISK}: {why}")

    async def _watch_nodes(self) -> None:
        """The switches, the cluster file, and what NVML sees."""
        looks = itertools.count(1)
        while True:
            await asyncio.sleep(_LOOK_SECONDS * max(1.0, len(self.cluster.declared.nodes) / _NODES_A_LOOK))
            changed = await self.blocking(self.nodes.look)
            again = self.cluster.declared.nvml and next(looks) % _NVML_LOOKS == 0
            if await self.blocking(partial(self._file_changed, again=again)) or changed:
                for replica in self.replicas:
                    self.watcher.reread(replica.name)
                self.watcher.tell_fleet()

    def _file_changed(self, *, again: bool) -> bool:
        if not self.cluster.changed(again=again):
            return False
        self.nodes.declare(self.cluster.declared)
        self.confiner.follow(self.cluster.declared.access)
        return True

    async def _watch_disk(self) -> None:
        """The reserve of the disk, and who uses too much of it."""
        for look in itertools.count():
            budgets = self.cluster.declared.budgets
            if await self.blocking(partial(self.disk.look, budgets.disk_reserve)):
                self.nodes.disk_short = bool(self.disk.short)
                self.watcher.tell_fleet()
                log.warning("disk_reserve", short=self.disk.short or "no longer")
            critical = self.disk.critical(budgets.disk_reserve)
            if critical or (budgets.disk and look % _DISK_LOOKS == 0):
                await self.end_the_greedy(critical=critical)
            await asyncio.sleep(_DISK_SECONDS)

    async def _scan(self) -> None:
        """Everything again, for words and wake-ups that were lost, and for clocks that run out."""
        while True:
            await asyncio.sleep(_SCAN_SECONDS)
            for replica in self.replicas:
                if not replica.gone:
                    self.watcher.reread(replica.name)
                    await asyncio.sleep(0)
            await self.blocking(partial(self.leftovers.tidy, tuple(self.replicas)))
            self.watcher.tell_fleet()

    async def _remove_leftovers(self) -> None:
        """Empties what goes, turn by turn: millions of files must not hold a thread, nor the disk for long."""
        while True:
            left = await self.blocking(self.leftovers.empty)
            await asyncio.sleep(_REMOVE_SECONDS if left else _SCAN_SECONDS)
