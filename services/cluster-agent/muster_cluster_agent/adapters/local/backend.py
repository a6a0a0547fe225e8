"""The local back end: replicas as supervised processes on the nodes of a cluster file.

The first implementation of `ports.Backend`. Memory is a cache of the state folder: what is on the disk is the truth,
and a restarted agent finds it there (architecture rule 10). Blocking work runs in a few threads of its own. Holds:
the folder is fsynced before the fork server is asked; nothing is removed that still has processes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from muster_cluster_agent.adapters.local import access, cgroups, cluster_file, logfile, machine, nvml, procfs
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.confiner import Confiner, Private
from muster_cluster_agent.adapters.local.disk import Disk, too_large
from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.nodes import Nodes
from muster_cluster_agent.adapters.local.nursery import Nursery
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore, facts
from muster_cluster_agent.adapters.local.service_ports import ServicePorts
from muster_cluster_agent.adapters.local.services import Services
from muster_cluster_agent.adapters.local.specs import SpecWriter
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.tasks import Tasks
from muster_cluster_agent.adapters.local.watcher import Watcher
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.actions import (
    ALREADY,
    DONE,
    Abandon,
    Answer,
    BackendAction,
    Bury,
    Create,
    Outcome,
    Remove,
    Route,
    Stop,
)
from muster_cluster_agent.domain.budgets import Spent, pressed_sentence, spent_sentence
from muster_cluster_agent.domain.fleet import Fleet
from muster_cluster_agent.domain.model import NodeHealth, NodeView, Observed
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_cluster_agent.errors import BackendError, ClusterFileError, NotAllowed
from muster_cluster_agent.ports import Changed, Kept, LogPiece
from muster_kernel import ids

_LOOK_SECONDS: Final = 0.25
_NODES_A_LOOK: Final = 100  # where there are more nodes, their switches are looked at less often
_DISK_SECONDS: Final = 1.0
_DISK_LOOKS: Final = 10  # looks at what is free between two at what the working folders hold
_SCAN_SECONDS: Final = 10.0
_REMOVE_SECONDS: Final = 0.5  # between two turns of removing what is left of deleted workloads
_NVML_LOOKS: Final = 80  # looks at the switches between two looks at the devices
_THREADS: Final = 4

T = TypeVar("T")
log = structlog.get_logger(__name__)


class LocalBackend:
    """All replicas of one state folder. Use `open` and `close`, or as an async context manager."""

    def __init__(self, file: Path, state: StateFolder, *, data: Path | None = None, confined: bool = False) -> None:
        """Reads the cluster file. Raises ClusterFileError.

        data: the stack's data folder, which no replica may reach. confined: no replica starts unconfined, unless the
        cluster file says so.
        """
        self._file = file
        self._file_stamp = file.stat().st_mtime_ns
        self._private = Private(tuple({str(folder) for folder in (state.root, data or state.root)}), str(state.lock))
        self.declared = _read_file(file, self._private)
        self._state = state
        self._workdirs = Workdirs(state.work)
        here = machine.find(state.root / "tools")
        self._confiner = Confiner(here, state.root / "accounts", self._private, required=confined)
        self._leftovers = Leftovers(state, self._workdirs)
        self._store = ReplicaStore(state)
        self._replicas = Register()
        self._watcher = Watcher(state, self._store, self._replicas, self._found)
        self._nodes = Nodes(state.root / "nodes", self.declared, self._processes_of)
        self._nursery = Nursery(state.root / "supervisors.err")
        self._ports = Ports(str(state.root))
        self._disk = Disk(state.root)
        self._kept = ServicePorts(state.root / "ports.json", self._ports)
        self._services = Services(state.root, self._kept)
        self._groups = cgroups.find(self.declared.budgets.processes)
        self._writer = SpecWriter(state, here, self._ports, self._groups, self._workdirs, self._confiner, self._kept)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="local-backend")
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        """Opens it."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

    # ------------------------------------------------------------------------------------------------ life of the agent

    async def open(self) -> None:
        """Finds what runs and begins to watch it. Raises ClusterFileError."""
        if self._groups.missing:
            log.warning(
                "replicas_not_limited",
                controllers=", ".join(self._groups.missing),
                why="no control group of these can be made here; the kernel takes replicas first where memory ends",
            )
        await self._blocking(partial(self._confiner.settle, self.declared.access))
        await self._blocking(partial(self._state.tell_confinement, self._confiner.ability.text))
        log.info("confinement", found=self._confiner.ability.text)
        await self._blocking(self._nodes.look)
        served = await self._services.found()
        for replica in await self._blocking(self._store.load):
            # A replica that served when the last agent ended serves until its probe says otherwise.
            replica.ready = replica.running and not served.isdisjoint(replica.spec.get("ports", {}).values())
            self._watcher.find(replica)
        await self._services.restore(self._replicas)
        self._watcher.open()
        await self._nursery.open()
        self._tasks.spawn("nodes", self._watch_nodes)
        self._tasks.spawn("scan", self._scan)
        self._tasks.spawn("disk", self._watch_disk)
        self._tasks.spawn("removal", self._remove_leftovers)

    async def close(self) -> None:
        """Stops watching. Replicas and their supervisors go on."""
        await self._tasks.close()
        await self._watcher.close()
        await self._services.close()
        await self._nursery.close()
        self._threads.shutdown(wait=True)

    # ---------------------------------------------------------------------------------------------------------- reading

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        """Every replica that is not removed, or those of one workload."""
        chosen = self._replicas if workload_id is None else self._replicas.of(workload_id)
        return [facts(replica, self._services.addresses(replica.workload_id)) for replica in chosen]

    def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on."""
        return self._watcher.changes()

    async def fleet(self) -> Fleet:
        """The nodes and devices of now."""
        profile = replace(self.declared.profile, confinement=self._confiner.ability.text)
        return Fleet(profile, self._nodes.reported(time.time()))

    async def nodes(self) -> Mapping[str, NodeView]:
        """The nodes as reconciling needs them."""
        return self._nodes.views(time.time())

    async def replicas_with_logs(self, workload_id: str) -> Sequence[str]:
        """Names of the workload's replicas of which a log is kept, the newest run last."""
        prefix = f"w-{ids.digest(workload_id)}-g"
        folders = await self._blocking(
            lambda: [p for p in (self._state.root / "logs").iterdir() if p.name.startswith(prefix)]
        )
        return [path.name for path in sorted(folders, key=lambda p: (p.stat().st_ctime if p.exists() else 0, p.name))]

    async def read_log(self, name: str, position: int, limit: int) -> LogPiece:
        """At most `limit` bytes of a replica's log from `position` on."""
        after, data = await self._blocking(lambda: logfile.read_from(str(self._state.log(name)), position, limit))
        return LogPiece(data, after)

    async def log_position(self, name: str, moment: float) -> int:
        """Where what was written since a moment begins in a replica's log."""
        return await self._blocking(lambda: logfile.position_since(str(self._state.log(name)), moment))

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        return await self._blocking(lambda: logfile.tail(str(self._state.log(name)), limit))

    async def kept(self) -> Sequence[Kept]:
        """Whose working folders are kept here although nothing of them runs."""
        owners = await self._blocking(lambda: tuple(self._workdirs.owners()))
        return [owner for owner in owners if not self._replicas.of(owner.workload_id)]

    async def forget(self, workload_ids: Iterable[str]) -> None:
        """Removes the working folders and logs of deleted workloads; one that has replicas here keeps them.

        A workload whose folders cannot be removed is a line in the log: the others go, and it is tried again.
        """
        for workload_id in workload_ids:
            if not self._replicas.of(workload_id):
                try:
                    await self._blocking(partial(self._leftovers.remove, workload_id))
                except Exception as error:  # noqa: BLE001  what a replica has left must not end the agent
                    log.warning("folders_not_removed", workload_id=workload_id, why=str(error)[:300])

    async def renew(self, sent_at: float) -> None:
        """Supervisors with a dead-man's deadline read here when the bus was last reached."""
        if self.declared.lost_timeout is not None:
            content = json.dumps({"boot": procfs.boot_id(), "monotonic": sent_at}).encode()
            await self._blocking(lambda: self._state.tell_alive(content))

    # ----------------------------------------------------------------------------------------------------------- acting

    async def act(self, action: BackendAction) -> Answer:
        """Does one action."""
        try:
            return await self._act(action)
        except TimeoutError:
            return Answer(Outcome.UNKNOWN, "it took too long; its journal will tell")
        except (BackendError, OSError) as error:
            return Answer(Outcome.UNKNOWN, str(error))

    async def _act(self, action: BackendAction) -> Answer:
        match action:
            case Create(plan=plan):
                return await self._create(plan)
            case Abandon(plan=plan, message=message):
                return await self._abandon(plan, message)
            case Stop(name=name, grace=grace, reason=reason):
                return await self._stop(name, grace, reason)
            case Bury(name=name, evidence=evidence, fault=fault):
                return await self._bury(name, evidence, fault)
            case Remove(name=name):
                return await self._remove(name)
            case Route():
                await self._services.route(action, self._replicas)
                if action.deleted:
                    await self._blocking(self._kept.save)
                return DONE

    async def _create(self, plan: ReplicaPlan) -> Answer:
        """Writes the folder, then asks for its supervisor.

        Whatever happens between the two, the folder is never started again.
        """
        refusal = self._refusal(plan)
        if refusal is not None:
            return refusal
        try:
            others = self._replicas.of(plan.workload_id)
            spec = self._writer.spec(plan, self._nodes.boot(plan.node), self.declared, others)
        except NotAllowed as error:
            return await self._abandon(plan, str(error))
        replica = Replica(spec, [], starting=True)
        self._replicas.add(replica)
        try:
            made = await self._blocking(lambda: self._writer.write(self._store, spec, plan))
        except BaseException:
            self._replicas.drop(replica)  # no folder, no replica; a folder after all is found by the next look
            raise
        if not made:
            self._watcher.reread(plan.name)
            return ALREADY
        await self._services.offer(replica)
        await self._fork(replica)
        return DONE

    async def _fork(self, replica: Replica) -> None:
        """Asks for the supervisor. Without an answer the journal tells: one that nobody holds will be buried."""
        attended = False
        try:
            attended = self._watcher.attend(replica, await self._nursery.fork(self._state.replica(replica.name)))
        finally:
            replica.starting = False
            if not attended:
                self._watcher.reread(replica.name)

    def _refusal(self, plan: ReplicaPlan) -> Answer | None:
        if plan.name in self._replicas:
            return ALREADY
        if plan.name in self._state.removed:
            return Answer(Outcome.CONFLICT, f"{plan.name} ran here before and was removed; a name is used once")
        node = self._nodes.views(time.time()).get(plan.node)
        if node is None or node.health is not NodeHealth.UP:
            return Answer(Outcome.REFUSED, f"node {plan.node} takes nothing")
        if self._disk.short:
            return Answer(Outcome.REFUSED, f"{self._disk.short}; nothing is started until there is more")
        return None

    async def _abandon(self, plan: ReplicaPlan, message: str) -> Answer:
        if plan.name in self._replicas:
            return ALREADY
        others = self._replicas.of(plan.workload_id)
        spec = self._writer.spec(plan, self._nodes.boot(plan.node), self.declared, others, starts=False)
        stamp = {"at": time.time(), "monotonic": time.monotonic(), "by": "agent"}
        lines: list[dict[str, Any]] = [
            {"event": "abandoned", "reason": message, "start_failed": True, **stamp},
            {"event": "gone", "evidence": "no-process", **stamp},
        ]
        await self._blocking(lambda: self._store.create(spec, lines))
        self._watcher.reread(plan.name)
        return DONE

    async def _stop(self, name: str, grace: float, reason: str) -> Answer:
        replica = self._replicas.get(name)
        if replica is None or replica.gone:
            return ALREADY
        await self._blocking(lambda: self._store.ask_to_stop(replica, grace, reason))
        return DONE

    async def _bury(self, name: str, evidence: str, fault: str) -> Answer:
        replica = self._replicas.get(name)
        if replica is None or replica.gone:
            return ALREADY
        buried = await self._blocking(lambda: self._store.bury(replica, evidence, fault))
        self._watcher.reread(name)
        return DONE if buried else Answer(Outcome.CONFLICT, f"{name} still has a supervisor or processes")

    async def _remove(self, name: str) -> Answer:
        replica = self._replicas.get(name)
        if replica is None:
            return ALREADY
        if not replica.gone:
            return Answer(Outcome.REFUSED, f"{name} still has processes")
        await self._blocking(lambda: self._store.remove(replica))
        self._replicas.drop(replica)
        self._writer.give_back_ports(replica.spec, self._replicas.of(replica.workload_id))
        self._watcher.tell(replica.workload_id)
        return DONE

    # --------------------------------------------------------------------------------------------------------- watching

    def _found(self, replica: Replica) -> None:
        """A replica that was on the disk: its ports are in use."""
        self._writer.keep_ports(replica.spec)

    async def _watch_nodes(self) -> None:
        """The switches, the cluster file, and what NVML sees."""
        looks = itertools.count(1)
        while True:
            await asyncio.sleep(_LOOK_SECONDS * max(1.0, len(self.declared.nodes) / _NODES_A_LOOK))
            changed = await self._blocking(self._nodes.look)
            again = self.declared.nvml and next(looks) % _NVML_LOOKS == 0
            if await self._blocking(partial(self._file_changed, again=again)) or changed:
                for replica in self._replicas:
                    self._watcher.reread(replica.name)
                self._watcher.tell_fleet()

    async def _watch_disk(self) -> None:
        """The reserve of the disk, and who uses too much of it."""
        for look in itertools.count():
            budgets = self.declared.budgets
            if await self._blocking(partial(self._disk.look, budgets.disk_reserve)):
                self._nodes.disk_short = bool(self._disk.short)
                self._watcher.tell_fleet()
                log.warning("disk_reserve", short=self._disk.short or "no longer")
            critical = self._disk.critical(budgets.disk_reserve)
            if critical or (budgets.disk and look % _DISK_LOOKS == 0):
                await self._end_the_greedy(critical=critical)
            await asyncio.sleep(_DISK_SECONDS)

    async def _end_the_greedy(self, *, critical: bool) -> None:
        """Ends workloads whose folders are above the budget, or the largest where the disk is nearly full."""
        budget = self.declared.budgets.disk
        running = [replica for replica in self._replicas if replica.running and "stop" not in replica.spec]
        folders = {r.workload_id: self._workdirs.folders(r.workload_id, r.name).workload for r in running}
        supervisors: dict[str, list[int]] = {}
        for replica in running:
            if (recorded := replica.supervisor()) is not None and procfs.alive(*recorded):
                supervisors.setdefault(replica.workload_id, []).append(recorded[0])
        looking = partial(too_large, folders, budget, critical=critical, supervisors=supervisors)
        found = await self._blocking(lambda: list(looking()))
        for workload_id, size in found:
            above = bool(budget) and size > budget
            why = spent_sentence(Spent.DISK, budget) if above else pressed_sentence(size, self._disk.short)
            log.warning("workload_used_the_disk", workload_id=workload_id, bytes=size, why=why)
            for replica in [each for each in running if each.workload_id == workload_id]:
                await self._stop(replica.name, 0.0, f"{status.DISK}: {why}")

    def _file_changed(self, *, again: bool) -> bool:
        """Reads a file that has changed, or reads it `again` for the devices that NVML finds.

        A broken file is said and the last good one kept: an editor's half-written file must not stop a cluster.
        """
        try:
            stamp = self._file.stat().st_mtime_ns
            if stamp == self._file_stamp and not again:
                return False
            self._file_stamp = stamp
            before, self.declared = self.declared, _read_file(self._file, self._private)
            if before == self.declared:
                return False
        except (OSError, ClusterFileError) as error:
            log.error("cluster_file_refused", error=str(error))  # noqa: TRY400  the sentence is the whole story
            return False
        self._nodes.declare(self.declared)
        self._confiner.follow(self.declared.access)
        return True

    async def _scan(self) -> None:
        """Everything again, for words and wake-ups that were lost, and for clocks that run out."""
        while True:
            await asyncio.sleep(_SCAN_SECONDS)
            for replica in self._replicas:
                if not replica.gone:
                    self._watcher.reread(replica.name)
                    await asyncio.sleep(0)
            await self._blocking(partial(self._leftovers.tidy, tuple(self._replicas)))
            self._watcher.tell_fleet()

    async def _remove_leftovers(self) -> None:
        """Empties what goes, turn by turn: millions of files must not hold a thread, nor the disk for long."""
        while True:
            left = await self._blocking(self._leftovers.empty)
            await asyncio.sleep(_REMOVE_SECONDS if left else _SCAN_SECONDS)

    def _processes_of(self, node: str) -> Sequence[tuple[int, int]]:
        return self._store.processes([r for r in self._replicas if r.spec["node"] == node and not r.gone])

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _read_file(path: Path, private: Private) -> cluster_file.ClusterFile:
    try:
        text = path.read_text()
    except OSError as error:
        raise ClusterFileError(f"{path} cannot be read: {error.strerror} (MUSTER_CLUSTER_FILE)") from error
    file = cluster_file.parse(text, where=path.name)
    errors = access.check(file.access, private.folders, root=os.geteuid() == 0)
    if errors:
        raise ClusterFileError("\n".join(f"{path.name}: {error}" for error in errors))
    return nvml.fill(file) if file.nvml else file
