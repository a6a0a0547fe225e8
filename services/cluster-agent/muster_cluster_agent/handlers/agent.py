"""The agent's one loop of thought: what should run, what is seen, what is due, what is told.

`stream.py` brings assignments, the back end brings changes, `app.py` runs the eternal tasks. Workloads are worked on
independently and each by one worker at a time, so that one that is slow or broken never stops the others.
Holds: nothing is done before the assignments were read to their end once; the highest epoch rules, and within one no
record undoes a newer one; a report that may be
lost leads to a resync, in which everything held is told again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import structlog

from muster_cluster_agent.domain.actions import (
    Absent,
    Action,
    BackendAction,
    Create,
    NothingHere,
    Outcome,
    Refuse,
    Remove,
    refusal_of,
    steps_of,
)
from muster_cluster_agent.domain.layouts import NodeWish, WishEnd
from muster_cluster_agent.domain.model import Assignment, NodeView, Release, State, Status, is_stale
from muster_cluster_agent.domain.plan import ReplicaPlan, plans_of
from muster_cluster_agent.domain.reconcile import Scene, reconcile
from muster_cluster_agent.domain.sealed import is_sealed, opened
from muster_cluster_agent.errors import BackendError, SecretsError
from muster_cluster_agent.handlers.agenda import Agenda, Case
from muster_cluster_agent.handlers.layouts import Layouts
from muster_cluster_agent.handlers.telling import Telling
from muster_cluster_agent.ports import (
    WORKERS,
    Backend,
    Changed,
    Report,
    Reporter,
    Secrets,
    StatusReport,
)
from muster_kernel.reasons import RefusalCode

HEARTBEAT_SECONDS: Final = 10.0
RESYNC_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 0.5
_TRIES: Final = 5

log = structlog.get_logger(__name__)


class Taken(StrEnum):
    """What became of a record. STALE: a newer one of the same epoch was obeyed before."""

    TAKEN = "taken"
    STALE = "stale"
    REFUSED = "refused"


class Agent:
    """One cluster's agent.

    `secrets`: who hands out credentials. `hold`: assignments are accepted and nothing is started (benchmarks).
    `workers`: workloads that are worked on at the same time.
    """

    def __init__(
        self,
        backend: Backend,
        reporter: Reporter,
        instance: str,
        *,
        secrets: Secrets | None = None,
        hold: bool = False,
        epoch: int = 0,
        workers: int = WORKERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._backend = backend
        self._instance = instance
        self._secrets = secrets
        self._hold = hold
        self._clock = clock
        self._workers = workers
        self.least_epoch: Callable[[], int] = lambda: 0
        """The first epoch that counts on this Kafka. An emptied one gets the past again before the present."""
        self.epoch = epoch
        self.agenda = Agenda()
        self.telling = Telling(backend, reporter, self.agenda)
        self.layouts = Layouts(backend, reporter)
        self._nodes: Mapping[str, NodeView] = {}
        self._sound = True

    # ------------------------------------------------------------------------------------------- what comes in

    @property
    def first_epoch(self) -> int:
        """The first epoch that is obeyed."""
        return max(self.epoch, self.least_epoch())

    def take(self, record: Assignment | Release, traceparent: str | None = None) -> Taken:
        """A record of the assignments topic, in its order."""
        if record.epoch < self.first_epoch:
            say = log.info if self.agenda.held_up else log.warning  # while reading up, old records are what is expected
            say("older_epoch_ignored", workload_id=record.workload_id, epoch=record.epoch, first=self.first_epoch)
            return Taken.REFUSED
        self.epoch = record.epoch
        if isinstance(record, Assignment) and record.instance not in {"", self._instance}:
            log.warning("assignment_of_another_instance", workload_id=record.workload_id, instance=record.instance)
            return Taken.REFUSED
        if is_stale(record, self.agenda.newest(record.workload_id)):
            log.info("older_record_ignored", workload_id=record.workload_id, epoch=record.epoch)
            return Taken.STALE
        case = self.agenda.case(record.workload_id)
        case.obey(record, traceparent)
        if isinstance(record, Assignment) and self._hold:
            case.idle = True  # accepted; what a held one has to be told about is its release alone
            return Taken.TAKEN
        if isinstance(record, Assignment):
            case.plans = plans_of(record)
            # A revision that cannot be planned has no names: reconciling refuses it, with the reason.
            case.planned = frozenset(
                plan.name for plans in case.plans.values() if not isinstance(plans, str) for plan in plans
            )
        self.agenda.mark(record.workload_id)
        return Taken.TAKEN

    def take_wish(self, record: NodeWish | WishEnd) -> Taken:
        """A node's record of the assignments topic, in its order."""
        if record.epoch < self.first_epoch:
            log.info("older_epoch_ignored", node=record.node, epoch=record.epoch, first=self.first_epoch)
            return Taken.REFUSED
        self.epoch = record.epoch
        if isinstance(record, NodeWish) and record.instance not in {"", self._instance}:
            log.warning("layout_for_another_instance", node=record.node, instance=record.instance)
            return Taken.REFUSED
        return Taken.TAKEN if self.layouts.take(record) else Taken.STALE

    def refuse(self, refusal: Refuse) -> None:
        """A record that could not be understood: its workload is told about, everything else goes on."""
        self.telling.refuse(refusal)

    @property
    def reading(self) -> bool:
        """Whether the assignments have not been read to their end yet."""
        return self.agenda.held_up

    def caught_up(self) -> None:
        """The assignments have been read to their end: from now on the agent acts."""
        self.layouts.held_up = False
        self.agenda.resume()

    def reread(self) -> None:
        """The assignments are about to be read from their beginning again, on another bus.

        Nothing is concluded meanwhile.
        """
        self.agenda.held_up = True
        self.layouts.held_up = True

    def acknowledged(self, report: Report) -> None:
        """The bus has the report on its disks."""
        if isinstance(report, StatusReport):
            self.telling.book.acknowledge(report.status)
            if report.status.state is State.GONE:
                self._end_is_known(report.status)

    def _end_is_known(self, status: Status) -> None:
        """The bus has the end of a replica or, where the status names none, of a whole run."""
        case = self.agenda.known(status.workload_id)
        if case is not None and isinstance(case.desired, Release):
            run = (status.generation, status.attempt)
            case.acknowledged = case.acknowledged or (not status.name and run == case.desired.key)
        self.agenda.mark(status.workload_id)

    # ------------------------------------------------------------------------------------------- eternal tasks

    async def adopt(self) -> None:
        """What the back end already has: every workload of it gets a case. Called once, before anything else."""
        self._nodes = await self._backend.nodes()
        for replica in await self._backend.list():
            self.agenda.case(replica.workload_id)

    async def watch(self) -> None:
        """Follows the back end. A watch that ends or fails is begun anew, after looking at everything."""
        while True:
            try:
                async for changed in self._backend.watch():
                    self._sound = True
                    await self._notice(changed)
            except OSError as error:
                self._sound = False
                log.warning("watch_failed", error=str(error))
            except Exception:  # one bad workload must not end the agent: said, and everything is looked at again
                self._sound = False
                log.exception("watch_failed")
            await asyncio.sleep(_RETRY_SECONDS)
            await self.adopt()
            self.agenda.mark_everything()

    async def work(self) -> None:
        """Works on what is due, for ever; several of these run side by side."""
        async with asyncio.TaskGroup() as workers:
            for number in range(self._workers):
                workers.create_task(self._worker(), name=f"worker-{number}")

    async def beat(self) -> None:
        """A heartbeat at once, then every ten seconds; the full state every five minutes."""
        since = time.monotonic()
        while True:
            await self.telling.beat(sound=self._is_sound())
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if time.monotonic() - since >= RESYNC_SECONDS:
                since = time.monotonic()
                await self.tell_state()

    async def resync(self) -> None:
        """On start, on reconnect, and when reports may have been lost: everything is told again."""
        self.telling.book.forget()
        await self.tell_state()
        self.layouts.tell_again()
        for case in self.agenda.cases():
            case.answered, case.acknowledged = False, False
            case.refused.clear()
            case.idle = case.idle and isinstance(case.desired, Assignment) and not case.denied
            case.denied.clear()
        self.agenda.mark_everything()

    async def tell_state(self) -> None:
        """Reports the full inventory and everything that is held, and each refusal again: one may have been missed."""
        for workload_id, case in self.agenda.items():
            if case.refused:
                case.refused.clear()
                self.agenda.mark(workload_id)
        await self.telling.everything(self._nodes, epoch=self.epoch, held=not self.reading)
        await self.telling.beat(sound=self._is_sound())

    def _is_sound(self) -> bool:
        """Whether the back end can be seen."""
        return self._sound and self._clock() - self._backend.observed_at() < HEARTBEAT_SECONDS

    # ------------------------------------------------------------------------------------------------- inside

    async def _notice(self, changed: Changed) -> None:
        for workload_id in changed.workloads:
            self.agenda.case(workload_id)
            self.agenda.mark(workload_id)
        everything = changed.everything or not (changed.workloads or changed.fleet)
        if changed.fleet or everything:
            self._nodes = await self._backend.nodes()
            await self.telling.fleet()
        if everything:
            self.agenda.mark_everything()

    async def _worker(self) -> None:
        while True:
            workload_id, left_over = await self.agenda.take()
            try:
                await self._settle(workload_id, left_over=left_over)
            except BackendError as error:  # it does not answer now: no fault of the workload, and none of ours
                log.warning("workload_not_settled", workload_id=workload_id, error=str(error))
                self.agenda.again(workload_id)
            except Exception:  # one bad workload must not stop the others: said, and tried again later
                log.exception("workload_failed", workload_id=workload_id)
                self._give_up(workload_id)
                self.agenda.again(workload_id)
            finally:
                self.agenda.done(workload_id)

    def _give_up(self, workload_id: str) -> None:
        """After bounded tries the scheduler is told, so that the workload does not wait for ever on a fault of ours."""
        case = self.agenda.case(workload_id)
        if case.tries == _TRIES and isinstance(case.desired, Assignment):
            newest = case.desired.newest
            text = f"the agent failed {_TRIES} times to work on it; its log says why"
            refusal = Refuse(workload_id, newest.generation, newest.attempt, RefusalCode.AGENT_ERROR, text)
            self.telling.refuse_once(case, refusal)

    async def _settle(self, workload_id: str, *, left_over: bool) -> None:
        """Tells how the workload's replicas stand, then does what is due.

        left_over: the objects of runs that are over are deleted too; otherwise that waits until few workers are busy.
        """
        case = self.agenda.case(workload_id)
        self._nodes = await self._backend.nodes()
        observed = tuple(await self._backend.list(workload_id))
        if case.desired is None and observed:
            case.desired = self.agenda.newest(workload_id)  # seen late, after its release was carried out
        await self.telling.statuses(case, observed, self._nodes)
        scene = Scene(
            desired=case.desired,
            observed=observed,
            nodes=self._nodes,
            told=frozenset(r.name for r in observed if self.telling.book.has_told_gone(r.name)),
            removed=frozenset(case.removed),
            planned=case.planned,
            plans=case.plans,
            answered=case.answered,
            denied=frozenset(case.denied),
            held_back=self._hold,
        )
        actions = reconcile(scene, self._clock())
        unsettled = False
        for step in steps_of(actions):
            unsettled |= any(await asyncio.gather(*(self._do(case, action) for action in step)))
        if unsettled:  # once for all of them: each time it is due later than before
            self.agenda.again(workload_id)
        if case.desired is not scene.desired:
            return  # a record came meanwhile, which has made the workload due again
        if any(isinstance(action, Remove) for action in actions) and not unsettled:
            self.agenda.mark_left_over(workload_id)  # its runs may be over, and nothing else tells of it
        idle = not observed and not actions
        # What was here went only after the bus had acknowledged its GONE; what never was is answered for.
        finished = isinstance(case.desired, Release) and (case.acknowledged or not case.answered)
        if idle and finished and isinstance(case.desired, Release):
            if not left_over:
                self.agenda.mark_left_over(workload_id)
                return
            case.idle = False  # until it has worked: it is tried again where it fails
            await self._backend.close_runs(workload_id, case.desired.key)
            if case.desired is not scene.desired:
                return
        case.idle = idle
        if idle and (case.desired is None or finished):
            self.agenda.drop(workload_id)

    async def _do(self, case: Case, action: Action) -> bool:
        """Do one action; return whether it has to be tried again."""
        match action:
            case Refuse():
                self.telling.refuse_once(case, action)
            case NothingHere():
                self.telling.nothing_here(case, action)
            case Absent():
                self.telling.absent(case, action)
            case _:
                return await self._ask_backend(case, action)
        return False

    async def _ask_backend(self, case: Case, action: BackendAction) -> bool:
        if isinstance(action, Create) and is_sealed(action.plan):
            found = await self._opened(action.plan)
            if found is None:
                return True
            action = Create(found)
        answer = await self._backend.act(action)
        if answer.outcome in {Outcome.DONE, Outcome.ALREADY}:
            if isinstance(action, Remove):
                case.removed.add(action.name)
                self.telling.book.drop(action.name)
            return False
        log.info("action_not_done", action=type(action).__name__, outcome=answer.outcome.value, why=answer.message)
        if isinstance(action, Create) and answer.outcome is Outcome.CONFLICT:
            # A resync clears `denied`, so that a lost report is sent again; `removed` stays.
            case.denied.add(action.plan.name)
            self.telling.was_here(case, action.plan, answer.message)
            return False
        if isinstance(action, Create) and answer.code is not None:
            # The scheduler may place it elsewhere. Until it does, it is still wanted here, and tried again.
            self.telling.refuse_once(case, refusal_of(action.plan, answer.code, answer.message))
        return True

    async def _opened(self, plan: ReplicaPlan) -> ReplicaPlan | None:
        """The plan with its credentials, or None where they cannot be had now: it is tried again."""
        if self._secrets is None:
            return None
        try:
            found = opened(plan, await self._secrets.of(plan.workload_id))
        except SecretsError as error:
            log.warning("credentials_not_had", workload_id=plan.workload_id, error=str(error))
            return None
        if found is None:
            log.warning("credentials_missing", workload_id=plan.workload_id)
        return found
