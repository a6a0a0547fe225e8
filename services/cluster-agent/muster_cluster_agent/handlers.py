"""The agent's one loop of thought: what should run, what is seen, what is due, what is told.

`stream.py` brings assignments, the back end brings changes, `app.py` runs the eternal tasks. Workloads are worked on
independently and each by one worker at a time, so that one that is slow or broken never stops the others.
Holds: nothing is done before the assignments were read to their end once; the highest epoch rules; a report that may be
lost leads to a resync, in which everything held is told again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from muster_cluster_agent.domain.actions import Action, BackendAction, Create, NothingHere, Outcome, Refuse, Remove
from muster_cluster_agent.domain.fleet import Fleet, difference
from muster_cluster_agent.domain.model import Assignment, NodeView, Observed, Release, State, Status
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan, replica_plans
from muster_cluster_agent.domain.reconcile import Scene, reconcile
from muster_cluster_agent.domain.reports import ReportBook
from muster_cluster_agent.domain.status import judge
from muster_cluster_agent.ports import (
    Backend,
    BeatReport,
    Held,
    HeldReport,
    InventoryReport,
    RefusalReport,
    Report,
    Reporter,
    StatusReport,
)

WORKERS: Final = 8
HEARTBEAT_SECONDS: Final = 10.0
RESYNC_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY: Final = 30.0
_TRIES: Final = 5
_LOG_TAIL: Final = 4096
_HELD_WITH_STATUSES: Final = 500
_HELD_AT_ONCE: Final = 10_000
_REMEMBERED: Final = 50_000  # releases and removed names that are kept in memory; the back end keeps its own for good

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Case:
    """Everything that is known of one workload."""

    desired: Assignment | Release | None = None
    planned: frozenset[str] = frozenset()
    removed: set[str] = field(default_factory=set)
    refused: tuple[int, int, str] | None = None
    answered: bool = False
    idle: bool = False  # nothing of it is here and nothing is due: only a record or the back end wakes it
    tries: int = 0
    traceparent: str | None = None

    @property
    def ignored(self) -> tuple[str, ...]:
        """Fields of its spec that have no effect here."""
        return self.desired.newest.ignored if isinstance(self.desired, Assignment) else ()


class Agent:
    """One cluster's agent. `hold`: assignments are accepted and nothing is started (benchmarks)."""

    def __init__(
        self,
        backend: Backend,
        reporter: Reporter,
        instance: str,
        *,
        hold: bool = False,
        epoch: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._backend = backend
        self._reporter = reporter
        self._instance = instance
        self._hold = hold
        self._clock = clock
        self.epoch = epoch
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._book = ReportBook()
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._busy: set[str] = set()
        self._work = asyncio.Event()
        self._nodes: Mapping[str, NodeView] = {}
        self._told_fleet: Fleet | None = None
        self._reading = True
        self._sound = True
        self.ended: Callable[[Observed], None] | None = None

    # ------------------------------------------------------------------------------------------- what comes in

    def take(self, record: Assignment | Release, traceparent: str | None = None) -> bool:
        """A record of the assignments topic, in its order.

        False where its epoch or its instance is not to be obeyed.
        """
        if record.epoch < self.epoch:
            say = log.info if self._reading else log.warning  # while reading up, old records are what is expected
            say("older_epoch_ignored", workload_id=record.workload_id, epoch=record.epoch, highest=self.epoch)
            return False
        self.epoch = record.epoch
        if isinstance(record, Assignment) and record.instance not in {"", self._instance}:
            log.warning("assignment_of_another_instance", workload_id=record.workload_id, instance=record.instance)
            return False
        case = self._case(record.workload_id)
        case.desired, case.answered, case.refused, case.tries = record, False, None, 0
        case.traceparent = traceparent
        if isinstance(record, Assignment) and self._hold:
            case.idle = True  # accepted; what a held one has to be told about is its release alone
            return True
        if isinstance(record, Assignment):
            case.planned = _names(record)
        self._mark(record.workload_id)
        return True

    def refuse(self, refusal: Refuse) -> None:
        """A record that could not be understood: its workload is told about, everything else goes on."""
        self._reporter.tell(RefusalReport(refusal))

    @property
    def reading(self) -> bool:
        """Whether the assignments have not been read to their end yet."""
        return self._reading

    def caught_up(self) -> None:
        """The assignments have been read to their end: from now on the agent acts."""
        self._reading = False
        self.look_at_everything()

    def reread(self) -> None:
        """The assignments are about to be read from their beginning again, on another bus: nothing is conclude.

        D meanwhile.
        """
        self._reading = True

    def look_at_everything(self) -> None:
        """Every workload is due of which something is here, or of which something is wanted."""
        for workload_id, case in tuple(self._cases.items()):
            if not case.idle:
                self._mark(workload_id)

    def acknowledged(self, report: Report) -> None:
        """The bus has the report on its disks."""
        if isinstance(report, StatusReport):
            self._book.acknowledge(report.status)
            if report.status.state is State.GONE:
                self._mark(report.status.workload_id)

    # ------------------------------------------------------------------------------------------- eternal tasks

    async def adopt(self) -> None:
        """What the back end already has: every workload of it gets a case. Called once, before anything else."""
        self._nodes = await self._backend.nodes()
        for replica in await self._backend.list():
            self._case(replica.workload_id)

    async def watch(self) -> None:
        """Follows the back end. A watch that ends or fails is begun anew, after looking at everything."""
        while True:
            try:
                async for changed in self._backend.watch():
                    self._sound = True
                    await self._notice(changed.workloads, fleet=changed.fleet)
            except OSError as error:
                self._sound = False
                log.warning("watch_failed", error=str(error))
            await asyncio.sleep(_RETRY_SECONDS)
            await self.adopt()
            self.look_at_everything()

    async def work(self) -> None:
        """Works on what is due, for ever; several of these run side by side."""
        async with asyncio.TaskGroup() as workers:
            for number in range(WORKERS):
                workers.create_task(self._worker(), name=f"worker-{number}")

    async def beat(self) -> None:
        """A heartbeat at once, then every ten seconds; the full state every five minutes."""
        since = time.monotonic()
        while True:
            self._reporter.tell(BeatReport(sent_at=time.monotonic(), healthy=self._sound))
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if time.monotonic() - since >= RESYNC_SECONDS:
                since = time.monotonic()
                await self.tell_state()

    async def resync(self) -> None:
        """On start, on reconnect, and when reports may have been lost: everything is told again."""
        self._book.forget()
        await self.tell_state()
        for case in self._cases.values():
            case.answered, case.refused = False, None
            case.idle = case.idle and isinstance(case.desired, Assignment)
        self.look_at_everything()

    async def tell_state(self) -> None:
        """The full inventory and everything that is held."""
        fleet = await self._backend.fleet()
        self._told_fleet = fleet
        self._reporter.tell(InventoryReport(fleet))
        if not self._reading:
            for part in _parts(await self._held()):
                self._reporter.tell(HeldReport(part, self.epoch))
        self._reporter.tell(BeatReport(sent_at=time.monotonic(), healthy=self._sound))

    # ------------------------------------------------------------------------------------------------- inside

    def _case(self, workload_id: str) -> Case:
        case = self._cases.get(workload_id)
        if case is None:
            case = self._cases[workload_id] = Case()
        self._cases.move_to_end(workload_id)
        if len(self._cases) > _REMEMBERED:
            self._forget_one()
        return case

    def _forget_one(self) -> None:
        """The oldest finished case goes; one that still wants something stays."""
        for workload_id, case in self._cases.items():
            if isinstance(case.desired, Release) and case.answered:
                del self._cases[workload_id]
                return

    def _mark(self, workload_id: str) -> None:
        self._queue[workload_id] = None
        if not self._reading:
            self._work.set()

    async def _notice(self, workloads: Iterable[str], *, fleet: bool) -> None:
        for workload_id in workloads:
            self._case(workload_id)
            self._mark(workload_id)
        if fleet or not workloads:
            self._nodes = await self._backend.nodes()
            await self._tell_fleet()
            self.look_at_everything()

    async def _tell_fleet(self) -> None:
        fleet = await self._backend.fleet()
        if self._told_fleet is None or fleet == self._told_fleet:
            return
        changed = difference(self._told_fleet, fleet)
        self._told_fleet = fleet
        self._reporter.tell(InventoryReport(fleet, changed))

    async def _worker(self) -> None:
        while True:
            workload_id = self._next()
            if workload_id is None:
                self._work.clear()
                await self._work.wait()
                continue
            self._busy.add(workload_id)
            try:
                await self._settle(workload_id)
            except Exception:  # one bad workload must not stop the others: said, and tried again later
                log.exception("workload_failed", workload_id=workload_id)
                self._give_up(workload_id)
                self._again(workload_id)
            finally:
                self._busy.discard(workload_id)
                if workload_id in self._queue:
                    self._work.set()

    def _next(self) -> str | None:
        if self._reading:
            return None
        for workload_id in self._queue:
            if workload_id not in self._busy:
                del self._queue[workload_id]
                return workload_id
        return None

    def _give_up(self, workload_id: str) -> None:
        """After bounded tries the scheduler is told, so that the workload does not wait for ever on a fault of ours."""
        case = self._case(workload_id)
        if case.tries == _TRIES and isinstance(case.desired, Assignment):
            newest = case.desired.newest
            text = f"the agent failed {_TRIES} times to work on it; its log says why"
            refusal = Refuse(workload_id, newest.generation, newest.attempt, "AgentError", text, retry_after=60)
            self._refuse_once(case, refusal)

    def _again(self, workload_id: str) -> None:
        case = self._case(workload_id)
        delay = min(_LONGEST_RETRY, _RETRY_SECONDS * 2**case.tries)
        case.tries = min(case.tries + 1, 10)
        asyncio.get_running_loop().call_later(delay, self._mark, workload_id)

    async def _settle(self, workload_id: str) -> None:
        """Tells how the workload's replicas stand, then does what is due."""
        case = self._case(workload_id)
        self._nodes = await self._backend.nodes()
        observed = tuple(await self._backend.list(workload_id))
        await self._tell(case, observed)
        scene = Scene(
            desired=case.desired,
            observed=observed,
            nodes=self._nodes,
            told=frozenset(r.name for r in observed if self._book.has_told_gone(r.name)),
            removed=frozenset(case.removed),
            planned=case.planned,
            answered=case.answered,
            held_back=self._hold,
        )
        actions = reconcile(scene, self._clock())
        creates = [action for action in actions if isinstance(action, Create)]
        for action in actions:
            if not isinstance(action, Create):
                await self._do(workload_id, case, action)
        await asyncio.gather(*(self._do(workload_id, case, action) for action in creates))
        case.idle = not observed and not actions
        if case.desired is None and not observed:
            self._cases.pop(workload_id, None)

    async def _do(self, workload_id: str, case: Case, action: Action) -> None:
        match action:
            case Refuse():
                self._refuse_once(case, action)
            case NothingHere():
                case.answered = True
                self._reporter.tell(StatusReport(_nothing(action), traceparent=case.traceparent))
            case _:
                await self._ask_backend(workload_id, case, action)

    async def _ask_backend(self, workload_id: str, case: Case, action: BackendAction) -> None:
        answer = await self._backend.act(action)
        if answer.outcome in {Outcome.DONE, Outcome.ALREADY}:
            if isinstance(action, Remove):
                case.removed.add(action.name)
                self._book.drop(action.name)
            return
        log.info("action_not_done", action=type(action).__name__, outcome=answer.outcome.value, why=answer.message)
        if isinstance(action, Create) and answer.outcome is Outcome.CONFLICT:
            case.removed.add(action.plan.name)
            self._reporter.tell(StatusReport(_was_here(action.plan, answer.message), traceparent=case.traceparent))
            return
        self._again(workload_id)

    def _refuse_once(self, case: Case, refusal: Refuse) -> None:
        said = (refusal.generation, refusal.attempt, refusal.code)
        if case.refused != said:
            case.refused = said
            self._reporter.tell(RefusalReport(refusal, case.traceparent))

    async def _tell(self, case: Case, observed: Iterable[Observed]) -> None:
        for replica in observed:
            status = judge(replica, self._nodes.get(replica.node))
            due = self._book.due(status)
            if not due:
                continue
            if status.state is State.GONE and self.ended is not None:
                self.ended(replica)
            tail = b""
            if any(one.state is State.FAILED for one in due):
                tail = await self._backend.log_tail(replica.name, _LOG_TAIL)
            for one in due:
                self._reporter.tell(
                    StatusReport(
                        one,
                        endpoints=replica.service if one.state is State.READY else (),
                        ignored=case.ignored if one.state is State.READY else (),
                        log_tail=tail if one.state is State.FAILED else b"",
                        traceparent=case.traceparent,
                    )
                )

    async def _held(self) -> tuple[Held, ...]:
        """What the assignments say should be here, and what is here without one."""
        by_run: dict[tuple[str, int, int], list[Status]] = {}
        for replica in await self._backend.list():
            status = judge(replica, self._nodes.get(replica.node))
            by_run.setdefault((status.workload_id, status.generation, status.attempt), []).append(status)
        for workload_id, case in self._cases.items():
            if isinstance(case.desired, Assignment):
                for revision in case.desired.revisions:
                    by_run.setdefault((workload_id, *revision.key), [])
        return tuple(
            Held(workload_id, generation, attempt, self._epoch_of(workload_id), tuple(statuses))
            for (workload_id, generation, attempt), statuses in by_run.items()
        )

    def _epoch_of(self, workload_id: str) -> int:
        case = self._cases.get(workload_id)
        return case.desired.epoch if case is not None and case.desired is not None else 0


def _parts(held: tuple[Held, ...]) -> Iterator[tuple[Held, ...]]:
    """What fits into one record each.

    Where it is very much, without the statuses, which are told one by one as well.
    """
    if len(held) > _HELD_WITH_STATUSES:
        held = tuple(replace(one, replicas=()) for one in held)
    yield held[:_HELD_AT_ONCE]
    for first in range(_HELD_AT_ONCE, len(held), _HELD_AT_ONCE):
        yield held[first : first + _HELD_AT_ONCE]


def _names(assignment: Assignment) -> frozenset[str]:
    names: set[str] = set()
    for revision in assignment.revisions:
        try:
            names.update(plan.name for plan in replica_plans(assignment, revision))
        except (InvalidCommand, ValueError):
            continue  # reconcile refuses it, with the reason
    return frozenset(names)


def _nothing(action: NothingHere) -> Status:
    """Without a name and a role: nothing of this run is, or will be, here."""
    return Status(
        name="",
        workload_id=action.workload_id,
        generation=action.generation,
        attempt=action.attempt,
        role="",
        index=0,
        k=0,
        node="",
        state=State.GONE,
        evidence="no-process",
        message="nothing of this run is in the cluster",
    )


def _was_here(plan: ReplicaPlan, message: str) -> Status:
    return Status(
        name=plan.name,
        workload_id=plan.workload_id,
        generation=plan.generation,
        attempt=plan.attempt,
        role=plan.role,
        index=plan.index,
        k=plan.k,
        node=plan.node,
        state=State.GONE,
        evidence="no-process",
        message=message,
    )
