"""The local back end: replicas as supervised processes on the nodes of a cluster file.

The first implementation of `ports.Backend`. Memory is a cache of the state folder: what is on the disk is the truth,
and a restarted agent finds it there (architecture rule 10). Blocking work runs in a few threads of its own. Holds:
the folder is fsynced before the fork server is asked; nothing is removed that still has processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from muster_chassis.threads import filled_pool
from muster_cluster_agent.adapters.local import cgroups, logfile, machine
from muster_cluster_agent.adapters.local.addresses import Ports
from muster_cluster_agent.adapters.local.checks import findings
from muster_cluster_agent.adapters.local.cluster_file import ClusterFile
from muster_cluster_agent.adapters.local.confiner import Confiner, Private
from muster_cluster_agent.adapters.local.dead_man import DeadMan
from muster_cluster_agent.adapters.local.disk import Disk
from muster_cluster_agent.adapters.local.leftovers import Leftovers
from muster_cluster_agent.adapters.local.nodes import Nodes
from muster_cluster_agent.adapters.local.nursery import Nursery
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore, facts
from muster_cluster_agent.adapters.local.rounds import DeclaredCluster, Rounds
from muster_cluster_agent.adapters.local.service_ports import ServicePorts
from muster_cluster_agent.adapters.local.services import Services
from muster_cluster_agent.adapters.local.specs import SpecWriter
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.tasks import Tasks
from muster_cluster_agent.adapters.local.watcher import Watcher
from muster_cluster_agent.adapters.local.workdirs import Workdirs
from muster_cluster_agent.domain import retirement
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
from muster_cluster_agent.domain.findings import Finding
from muster_cluster_agent.domain.fleet import Fleet
from muster_cluster_agent.domain.holdings import device_conflict
from muster_cluster_agent.domain.layouts import LayoutAnswer
from muster_cluster_agent.domain.model import NodeHealth, NodeView, Observed, RunKey
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_cluster_agent.domain.retirement import RETIRED, Retirement
from muster_cluster_agent.errors import BackendError, NotAllowed
from muster_cluster_agent.ports import Changed, Kept
from muster_kernel import ids
from muster_kernel.reasons import RefusalCode

_THREADS: Final = 4
_LOG_PIECE: Final = 64 << 10
_LOG_SECONDS: Final = 0.2  # between two looks at a log that is followed

T = TypeVar("T")
log = structlog.get_logger(__name__)


class LocalBackend:
    """All replicas of one state folder. Use `open` and `close`, or as an async context manager."""

    def __init__(self, file: Path, state: StateFolder, *, data: Path | None = None, confined: bool = False) -> None:
        """Reads the cluster file. Raises ClusterFileError.

        data: the stack's data folder, which no replica may reach. confined: no replica starts unconfined, unless the
        cluster file says so.
        """
        self._private = Private(tuple({str(folder) for folder in (state.root, data or state.root)}), str(state.lock))
        self._cluster = DeclaredCluster(file, self._private)
        self._state = state
        self._workdirs = Workdirs(state.work)
        self._owners = self._workdirs.owners()  # up to where `kept` has come
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
        self._dead_man = DeadMan(state, lambda: self.declared.dead_man, self._replicas, self._blocking)
        self._threads = filled_pool(_THREADS, "local-backend")
        self._tasks = Tasks()
        self._rounds = Rounds(
            cluster=self._cluster,
            nodes=self._nodes,
            confiner=self._confiner,
            disk=self._disk,
            replicas=self._replicas,
            watcher=self._watcher,
            workdirs=self._workdirs,
            leftovers=self._leftovers,
            stop=self._stop,
            blocking=self._blocking,
        )

    @property
    def declared(self) -> ClusterFile:
        """What the cluster file says now."""
        return self._cluster.declared

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
            self._watcher.adopt_found(replica)
        await self._services.restore(self._replicas)
        self._watcher.open()
        await self._nursery.open()
        self._rounds.begin(self._tasks)

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

    async def portions(self) -> AsyncIterator[Sequence[Observed]]:
        """Yield every replica at once: one machine has some hundreds."""
        yield await self.list()

    def observed_at(self) -> float:
        """Now: the machine is always seen."""
        return time.time()

    def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on."""
        return self._watcher.changes()

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """A run has nothing here beside its replicas' folders, which go with its workload (`forget`)."""

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        """Refuses: MIG slices are made here as replicas need them."""
        return LayoutAnswer(None, f"node {node} has no mig-manager: its MIG slices are made as replicas need them")

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

    async def read_log(
        self, name: str, *, since: float | None = None, tail: int = 0, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """A replica's log, piece by piece."""
        folder = str(self._state.log(name))
        position = await self._blocking(lambda: logfile.first_position(folder, since, tail))
        last_look = not follow
        while True:
            position, data = await self._blocking(partial(logfile.read_from, folder, position, _LOG_PIECE))
            if data:
                yield data
            elif last_look:
                return
            else:
                replica = self._replicas.get(name)
                last_look = (
                    replica is None or replica.gone or replica.line("exited") is not None
                )  # what it wrote at its end is still to be read
                await asyncio.sleep(_LOG_SECONDS)

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        return await self._blocking(lambda: logfile.tail(str(self._state.log(name)), limit))

    async def kept(self, most: int) -> Sequence[Kept]:
        """Whose working folders are kept here although nothing of them runs: the next ones, of `most` folders."""
        owners = await self._blocking(lambda: tuple(islice(self._owners, most)))
        if len(owners) < most:
            self._owners = self._workdirs.owners()
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

    async def check(self) -> Sequence[Finding]:
        """Return the findings of a check of this machine."""
        return [*findings(await self.fleet(), self._confiner.ability, self._groups.missing, self._disk.short)]

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        """A local cluster leaves nothing behind but its state folder; by force its replicas are stopped."""
        running = [replica for replica in self._replicas if not replica.gone]
        obstacles = (retirement.running(len(running)),) if running else ()
        if not retirement.may_delete(obstacles, force=force, dry_run=dry_run):
            return Retirement(obstacles=obstacles)
        for replica in running:
            await self._stop(replica.name, 0.0, RETIRED)
        return Retirement()

    async def dead_man(self) -> float | None:
        """The largest dead-man's deadline that a replica is held to."""
        return await self._dead_man.told()

    async def renew(self, sent_at: float, dead_man: float | None) -> None:
        """Supervisors with a dead-man's deadline read when the bus was last reached."""
        await self._dead_man.renew(sent_at, dead_man)

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
            boot = self._nodes.boot(plan.node)
            spec = self._writer.spec(plan, boot, self.declared, others, dead_man=self._dead_man.granted)
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
        """Asks for the supervisor. Without an answer the journal tells: if no process holds it, the replica is gone."""
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
        objection = self._dead_man.objection(time.monotonic())
        if objection:
            return Answer(Outcome.REFUSED, objection)
        conflict = self._conflict(plan)
        return Answer(Outcome.REFUSED, conflict, RefusalCode.DEVICE_IN_USE) if conflict else None

    def _conflict(self, plan: ReplicaPlan) -> str:
        """Which device of the plan has no room next to replicas that are not gone; empty: all have room.

        No await between this and adding the replica to the register: two plans for one device exclude each other.
        """
        held = self._replicas.holdings({share.device for share in plan.shares})
        if not held:
            return ""
        known = {device.uuid: device for node in self.declared.nodes for device in node.devices}
        return device_conflict(plan.shares, held, known)

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

    # ----------------------------------------------------------------------------------------------------- of the parts

    def _found(self, replica: Replica) -> None:
        """A replica that was on the disk: its ports are in use."""
        self._writer.keep_ports(replica.spec)

    def _processes_of(self, node: str) -> Sequence[tuple[int, int]]:
        return self._store.processes([r for r in self._replicas if r.spec["node"] == node and not r.gone])

    async def _blocking(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
