"""The local back end: replicas as supervised processes on the nodes of a cluster file.

The first implementation of `ports.Backend`. Memory is a cache of the state folder: what is on the disk is the truth,
and a restarted agent finds it there (architecture rule 10). Blocking work runs in a few threads of its own. Holds:
the folder is fsynced before the fork server is asked; nothing is removed that still has processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from muster_cluster_agent.adapters.local import cluster_file, logfile, machine, nvml, procfs, readiness
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.nodes import Nodes
from muster_cluster_agent.adapters.local.nursery import Nursery
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore, facts
from muster_cluster_agent.adapters.local.services import Services
from muster_cluster_agent.adapters.local.specs import SpecWriter
from muster_cluster_agent.adapters.local.state import StateFolder
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
from muster_cluster_agent.domain.fleet import Fleet
from muster_cluster_agent.domain.model import NodeHealth, NodeView, Observed
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_cluster_agent.errors import BackendError, ClusterFileError
from muster_cluster_agent.ports import Changed, LogPiece
from muster_kernel import ids

_LOOK_SECONDS: Final = 0.25
_SCAN_SECONDS: Final = 10.0
_NVML_LOOKS: Final = 80  # looks at the switches between two looks at the devices
_THREADS: Final = 4
_LOGS_KEPT: Final = 2000  # log folders of removed replicas; the oldest go first

T = TypeVar("T")
log = structlog.get_logger(__name__)


class LocalBackend:
    """All replicas of one state folder. Use `open` and `close`, or as an async context manager."""

    def __init__(self, file: Path, state: StateFolder) -> None:
        """Reads the cluster file. Raises ClusterFileError."""
        self._file = file
        self._file_stamp = file.stat().st_mtime_ns
        self.declared = _read_file(file)
        self._state = state
        self._store = ReplicaStore(state)
        self._replicas: dict[str, Replica] = {}
        self._nodes = Nodes(state.root / "nodes", self.declared, self._processes_of)
        self._nursery = Nursery(state.root / "supervisors.err")
        self._ports = Ports(str(state.root))
        self._services = Services(self._ports)
        self._writer = SpecWriter(state, machine.find(state.root / "tools"), self._ports)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="local-backend")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pidfds: dict[str, int] = {}
        self._listener: socket.socket | None = None
        self._changes: asyncio.Event = asyncio.Event()
        self._changed: set[str] = set()
        self._fleet_changed = False

    async def __aenter__(self) -> Self:
        """Opens it."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

    # ------------------------------------------------------------------------------------------------ life of the agent

    async def open(self) -> None:
        """Finds what runs and begins to watch it."""
        await self._blocking(self._nodes.look)
        for replica in await self._blocking(self._store.load):
            self._adopt(replica)
        await self._services.restore(self._replicas.values())
        self._listen()
        await self._nursery.open()
        self._spawn("nodes", self._watch_nodes())
        self._spawn("scan", self._scan())

    async def close(self) -> None:
        """Stops watching. Replicas and their supervisors go on."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        loop = asyncio.get_running_loop()
        for handle in self._pidfds.values():
            loop.remove_reader(handle)
            os.close(handle)
        self._pidfds.clear()
        if self._listener is not None:
            loop.remove_reader(self._listener.fileno())
            self._listener.close()
        await self._services.close()
        await self._nursery.close()
        self._threads.shutdown(wait=True)

    # ---------------------------------------------------------------------------------------------------------- reading

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        """Every replica that is not removed, or those of one workload."""
        return [
            facts(replica, self._services.addresses(str(replica.spec["workload_id"])))
            for replica in self._replicas.values()
            if workload_id is None or replica.spec["workload_id"] == workload_id
        ]

    async def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on."""
        while True:
            await self._changes.wait()
            self._changes.clear()
            changed, self._changed = frozenset(self._changed), set()
            fleet, self._fleet_changed = self._fleet_changed, False
            yield Changed(changed, fleet)

    async def fleet(self) -> Fleet:
        """The nodes and devices of now."""
        return Fleet(self.declared.profile, self._nodes.reported(time.time()))

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

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        return await self._blocking(lambda: logfile.tail(str(self._state.log(name)), limit))

    async def renew(self, sent_at: float) -> None:
        """Supervisors with a dead-man's deadline read here when the bus was last reached."""
        if self.declared.lost_timeout is not None:
            content = json.dumps({"boot": procfs.boot_id(), "monotonic": sent_at}).encode()
            await self._blocking(lambda: self._state.alive.write_bytes(content))

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
                return DONE

    async def _create(self, plan: ReplicaPlan) -> Answer:
        """Writes the folder, then asks for its supervisor.

        Whatever happens between the two, the folder is never started again.
        """
        refusal = self._refusal(plan)
        if refusal is not None:
            return refusal
        spec = self._writer.spec(plan, self._nodes.boot(plan.node), self.declared, self._replicas.values())
        replica = Replica(spec, [], starting=True)
        self._replicas[plan.name] = replica
        try:
            made = await self._blocking(lambda: self._writer.write(self._store, spec, plan))
        except BaseException:
            self._replicas.pop(plan.name, None)  # no folder, no replica; a folder after all is found by the next look
            raise
        if not made:
            self._reread(plan.name)
            return ALREADY
        await self._services.offer(replica)
        await self._fork(replica)
        return DONE

    async def _fork(self, replica: Replica) -> None:
        """Asks for the supervisor. Without an answer the journal tells: one that nobody holds will be buried."""
        try:
            self._attend(replica, await self._nursery.fork(self._state.replica(replica.name)))
        finally:
            replica.starting = False
            self._reread(replica.name)

    def _refusal(self, plan: ReplicaPlan) -> Answer | None:
        if plan.name in self._replicas:
            return ALREADY
        if plan.name in self._state.removed:
            return Answer(Outcome.CONFLICT, f"{plan.name} ran here before and was removed; a name is used once")
        node = self._nodes.views(time.time()).get(plan.node)
        if node is None or node.health is not NodeHealth.UP:
            return Answer(Outcome.REFUSED, f"node {plan.node} takes nothing")
        return None

    async def _abandon(self, plan: ReplicaPlan, message: str) -> Answer:
        if plan.name in self._replicas:
            return ALREADY
        spec = self._writer.spec(plan, self._nodes.boot(plan.node), self.declared, self._replicas.values())
        stamp = {"at": time.time(), "monotonic": time.monotonic(), "by": "agent"}
        lines: list[dict[str, Any]] = [
            {"event": "abandoned", "reason": message, "start_failed": True, **stamp},
            {"event": "gone", "evidence": "no-process", **stamp},
        ]
        await self._blocking(lambda: self._store.create(spec, lines))
        self._reread(plan.name)
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
        self._reread(name)
        return DONE if buried else Answer(Outcome.CONFLICT, f"{name} still has a supervisor or processes")

    async def _remove(self, name: str) -> Answer:
        replica = self._replicas.get(name)
        if replica is None:
            return ALREADY
        if not replica.gone:
            return Answer(Outcome.REFUSED, f"{name} still has processes")
        await self._blocking(lambda: self._store.remove(replica))
        self._dismiss(replica)
        return DONE

    # --------------------------------------------------------------------------------------------------------- watching

    def _adopt(self, replica: Replica) -> None:
        self._replicas[replica.name] = replica
        self._writer.keep_ports(replica.spec)
        if replica.gone:
            return
        supervisor = replica.supervisor()
        if replica.supervised and supervisor is not None:
            self._attend(replica, supervisor[0])
        self._ask_readiness(replica)

    def _attend(self, replica: Replica, pid: int) -> None:
        """Wakes up when the supervisor ends, however it ends."""
        if replica.name in self._pidfds:
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            self._reread(replica.name)  # it has ended already, or there are no descriptors left: the scan will see it
            return
        self._pidfds[replica.name] = handle
        asyncio.get_running_loop().add_reader(handle, self._supervisor_ended, replica.name)

    def _supervisor_ended(self, name: str) -> None:
        handle = self._pidfds.pop(name, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
        self._reread(name)

    def _listen(self) -> None:
        """Supervisors tell here that their journal has grown; a lost word costs time, not truth."""
        path = self._state.socket
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hear)

    def _hear(self) -> None:
        names = set()
        with contextlib.suppress(BlockingIOError):
            while self._listener is not None:
                names.add(self._listener.recv(256).decode(errors="replace"))
        for name in names:
            self._reread(name)

    def _reread(self, name: str) -> None:
        """Takes the journal's truth into memory. Small files that were just written: read at once, not in a thread."""
        fresh = self._store.read(name)
        if fresh is None:
            return
        known = self._replicas.get(name)
        if known is None:
            self._adopt(fresh)
        else:
            known.lines, known.supervised = fresh.lines, fresh.supervised or self._starting(known, fresh)
            self._ask_readiness(known)
        self._tell(self._replicas[name])

    def _starting(self, known: Replica, fresh: Replica) -> bool:
        """Between the fork and the first line nobody holds the journal, and yet somebody is coming."""
        return known.starting or (known.supervised and not fresh.lines and known.name in self._pidfds)

    def _ask_readiness(self, replica: Replica) -> None:
        task = f"ready {replica.name}"
        if not replica.running:
            replica.ready = False
            if task in self._tasks:
                self._tasks.pop(task).cancel()
            return
        question = _question(replica, self._state)
        if question is None:
            replica.ready = True
        elif task not in self._tasks:
            probe = replica.spec.get("probe") or {}

            def tell(ready: bool) -> None:  # noqa: FBT001  the one thing that there is to tell
                replica.ready = ready
                self._tell(replica)

            asking = readiness.watch(
                question, delay=float(probe.get("delay", 0)), period=float(probe.get("period", 0)), tell=tell
            )
            self._spawn(task, asking)

    def _tell(self, replica: Replica) -> None:
        self._changed.add(str(replica.spec["workload_id"]))
        self._changes.set()

    def _dismiss(self, replica: Replica) -> None:
        self._replicas.pop(replica.name, None)
        self._writer.give_back_ports(replica.spec, self._replicas.values())
        self._tell(replica)

    async def _watch_nodes(self) -> None:
        """The switches, the cluster file, and what NVML sees."""
        looks = itertools.count(1)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            changed = await self._blocking(self._nodes.look)
            again = self.declared.nvml and next(looks) % _NVML_LOOKS == 0
            if await self._blocking(partial(self._file_changed, again=again)) or changed:
                self._fleet_changed = True
                for replica in self._replicas.values():
                    self._reread(replica.name)
                self._changes.set()

    def _file_changed(self, *, again: bool) -> bool:
        """Reads a file that has changed, or reads it `again` for the devices that NVML finds.

        A broken file is said and the last good one kept: an editor's half-written file must not stop a cluster.
        """
        try:
            stamp = self._file.stat().st_mtime_ns
            if stamp == self._file_stamp and not again:
                return False
            self._file_stamp = stamp
            before, self.declared = self.declared, _read_file(self._file)
            if before == self.declared:
                return False
        except (OSError, ClusterFileError) as error:
            log.error("cluster_file_refused", error=str(error))  # noqa: TRY400  the sentence is the whole story
            return False
        self._nodes.declare(self.declared)
        return True

    async def _scan(self) -> None:
        """Everything again, for words and wake-ups that were lost, and for clocks that run out."""
        while True:
            await asyncio.sleep(_SCAN_SECONDS)
            for name, replica in tuple(self._replicas.items()):
                if not replica.gone:
                    self._reread(name)
                    await asyncio.sleep(0)
            await self._blocking(self._drop_old_logs)
            self._fleet_changed = True
            self._changes.set()

    def _drop_old_logs(self) -> None:
        """Logs of removed replicas stay within a number; each has its own budget in bytes."""
        folders = [path for path in (self._state.root / "logs").iterdir() if path.name not in self._replicas]
        if len(folders) <= _LOGS_KEPT:
            return
        for path in sorted(folders, key=lambda p: p.stat().st_mtime)[:-_LOGS_KEPT]:
            for file in path.iterdir():
                file.unlink(missing_ok=True)
            path.rmdir()

    def _processes_of(self, node: str) -> Sequence[tuple[int, int]]:
        return self._store.processes(
            [r for r in tuple(self._replicas.values()) if r.spec["node"] == node and not r.gone]
        )

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task_failed", task=name, exc_info=error)

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _read_file(path: Path) -> cluster_file.ClusterFile:
    try:
        text = path.read_text()
    except OSError as error:
        raise ClusterFileError(f"{path} cannot be read: {error.strerror} (MUSTER_CLUSTER_FILE)") from error
    file = cluster_file.parse(text, where=path.name)
    return nvml.fill(file) if file.nvml else file


def _question(replica: Replica, state: StateFolder) -> readiness.Question | None:
    """What this replica is asked before it counts as ready; None: running is enough."""
    if replica.spec["launch"] == "MpiWorker":
        return readiness.unix(state.replica(replica.name) / "exec.sock")
    probe = replica.spec.get("probe")
    if not probe:
        return None
    port = int(probe["port"])
    return readiness.http(port, probe["path"]) if probe.get("path") else readiness.tcp(port)
