"""One transaction of the leader: events in, a cycle, decisions out, memory and database together or not at all.

Used by the consumer (batches of records), the clock (cycles without events) and rpc.py (an operator's commands). One
lock serialises them: it is taken when a transaction opens the state and given back when it is known to be committed or
rolled back. Readers take the same lock, so nobody sees what is not committed.

A cycle that raises is contained here: the workload that it attended to, or the node pool or cluster, is set aside in
the same transaction, and the rest is decided without it. Where none is to blame, events are taken in and nothing is
decided.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.events import Event, Reject, Retry
from muster_chassis.health import Health
from muster_chassis.text import clean
from muster_chassis.unit import Unit
from muster_scheduler import incomplete, unbound
from muster_scheduler.domain import decisions, events
from muster_scheduler.domain.asked.quarantine import Quarantined
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.life import layouts, quarantine
from muster_scheduler.domain.life.fleet import note_read
from muster_scheduler.domain.life.republication import republish
from muster_scheduler.domain.life.revival import old_enough, spoken_of, submitted_before
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import Plan, State
from muster_scheduler.domain.steps import Step, Steps
from muster_scheduler.ports import Outgoing, Store, Unpublishable
from muster_scheduler.strays import Strays

_log = logs.get(__name__)
Translate = Callable[[Event], events.Event | None]
CYCLE = metrics.histogram(
    "muster_scheduler_cycle_seconds",
    unit="seconds",
    meaning="Computing one transaction: applying its events and one scheduling cycle, without the database.",
    action="Slow: muster_scheduler_step_seconds says in which step; muster_scheduler_waiting how much there is to do.",
)
STEP = metrics.histogram(
    "muster_scheduler_step_seconds",
    unit="seconds",
    meaning="One step of a transaction, of these in order: wait (for the one before), apply (events), due (clocks), "
    "claims, fill, order (whose turn), place, room (making it), grow (the rest of a cycle), write, publish, commit.",
    action="write, commit: PostgreSQL is slow. place: many distinct shapes wait. room: quotas far above what there is.",
    labels=("step",),
    buckets=(0.0001, 0.00025, 0.0005, *metrics.SECONDS),
)
APPLIED = metrics.counter(
    "muster_scheduler_events_total",
    unit="events",
    meaning="Events applied: admissions, reports, changes of projects and node pools.",
    action="Flat while agents report: look at muster_condition and the consumer's lag.",
)
UNFINISHED = metrics.counter(
    "muster_scheduler_unfinished_cycles_total",
    unit="cycles",
    meaning="Cycles whose work was spent before the queue was; the next one goes on from there.",
    action="Grows all the time: raise MUSTER_CYCLE_VISITS, or look for thousands of distinct shapes that wait.",
)
DECIDED = metrics.counter(
    "muster_scheduler_decisions_total",
    unit="decisions",
    meaning="Decisions by kind: Placed, Preempted, Claimed, Waiting, Scaled, Assign and what else goes out.",
    action="Placed flat while workloads wait: `muster why`. Preempted fast: priorities fight over too small a quota.",
    labels=("kind",),
)
WAITING = metrics.gauge(
    "muster_scheduler_waiting",
    unit="workloads",
    meaning="Workloads in the queue.",
    action="Grows: `muster why` says what they wait for.",
)
BATCHES_FAILED = metrics.counter(
    "muster_scheduler_batch_failures_total",
    unit="cycles",
    meaning="Cycles that failed with no workload to blame, after which heads are decided one by one, which is slower.",
    action="The log has the trace. Batches are used again once a workload is set aside, or by the next leader.",
)
_CYCLE: Final = "cycle"
_ASIDE: Final = "places"
_MOST_ASIDE: Final = 20  # workloads that one transaction sets aside; more of them are found by the next ones
_TRACE: Final = 4000
_LOGGED: Final = 20  # contradictions of one transaction; the others are counted only
ODDITIES = metrics.counter(
    "muster_scheduler_contradictions_total",
    unit="contradictions",
    meaning="Things in inventories that cannot be true: a device on two nodes, a MIG layout that no card has.",
    action="The log says which node; what is meant is given to nobody until its agent says otherwise.",
)
CLUSTERS = metrics.gauge(
    "muster_scheduler_silent_clusters",
    unit="clusters",
    meaning="Clusters that have not been heard of for too long.",
    action="Look at their agents; what runs there goes on, nothing new is placed.",
)


def micros(moment: datetime) -> int:
    """A moment in the domain's microseconds."""
    return int(moment.timestamp() * SECOND)


class Handlers:
    """Everything that changes the state, for one term of leading."""

    def __init__(
        self,
        state: State,
        store: Store,
        outgoing: Outgoing,
        translate: Translate,
        *,
        visits: int = 20_000,
        health: Health | None = None,
        oldest_admission: timedelta | None = None,
    ) -> None:
        """`translate`: what a record means to the domain. `visits`: exact tests of nodes that one cycle may do.

        oldest_admission: the age from which the admission of an unknown workload is refused; None: never.
        """
        self.state = state
        self.deciding = False
        """Whether cycles run: not before every partition that can be read was read to its end (rule 5)."""
        self.unread: frozenset[str] = frozenset()
        """Clusters whose reports could not be read since this term began: their clocks of silence stand still."""
        self.read_until: Callable[[], Mapping[str, int]] = dict
        """Until when the reports of each cluster are read, in microseconds since 1970; without one: until now."""
        self.again = asyncio.Event()
        """Set when a cycle should follow although no event comes."""
        self._store = store
        self._outgoing = outgoing
        self._translate = translate
        self._visits = visits
        self._oldest_admission = oldest_admission
        self._lock = asyncio.Lock()
        self._health = health or Health()
        self._strays = Strays(self._health)
        self._still = ""  # why nothing is decided
        self._batches_failed = ""  # the failure of a batch that the log has already
        self._suspects: dict[str, Quarantined] = {}  # whose decisions could not be published; set aside next time

    async def on_events(self, unit: Unit, batch: Sequence[Event]) -> None:
        """A batch of records, in one transaction."""
        await self.transact(unit, (made for event in batch if (made := self._translate(event)) is not None))

    async def transact(
        self,
        unit: Unit,
        incoming: Iterable[events.Event],
        *,
        before: Callable[[World], None] | None = None,
        revive: Sequence[str] = (),
    ) -> Plan:
        """Applies events and runs a cycle within the unit. Memory follows the unit's outcome.

        before: runs on the state before the events are applied, and again where the cycle is repeated. What it raises
        ends the transaction, and nothing is changed. revive: workloads that are taken back, though no event names them.
        """
        steps = Steps(time.perf_counter)
        await self._lock.acquire()
        unit.after_commit(self._commit)
        unit.after_rollback(self._abort)
        steps.done(Step.WAIT)
        arrived = tuple(incoming)
        revived = await self._revived(unit, [*revive, *spoken_of(arrived)])
        self._check_age(unit, arrived, revived)
        began = time.perf_counter()
        plan = self._decide(micros(unit.now), arrived, revived, before, steps)
        CYCLE.observe(time.perf_counter() - began)
        await self._stage(unit, plan, steps)
        unit.after_commit(lambda: self._count(plan, steps))
        return plan

    async def _revived(self, unit: Unit, workload_ids: Iterable[str]) -> list[Workload]:
        """Those of these workloads that had left the memory. New ones are not asked for: they cannot have."""
        unknown = dict.fromkeys(name for name in workload_ids if name not in self.state.world.workloads)
        asked = old_enough(unknown, micros(unit.now)) if unknown else []
        return await self._store.revive(unit, asked) if asked else []

    def _check_age(self, unit: Unit, arrived: Sequence[events.Event], revived: Sequence[Workload]) -> None:
        """Raise Reject for the admission of an unknown workload that may have ended and been removed (rule 3)."""
        oldest, known = self._oldest_admission, self.state.world.workloads
        if oldest is None:
            return
        for workload_id in submitted_before(arrived, micros(unit.now - oldest)):
            if workload_id not in known and all(workload_id != workload.id for workload in revived):
                days = oldest / timedelta(days=1)
                raise Reject(
                    f"workload {workload_id} is not known here and was submitted more than {days:g} days ago: it may "
                    "have ended and been removed, so it is not started. Submit it again if it has to run"
                )

    def _decide(
        self,
        now: int,
        arrived: tuple[events.Event, ...],
        revived: Sequence[Workload],
        before: Callable[[World], None] | None,
        steps: Steps,
    ) -> Plan:
        """The plan. What a cycle fails on is set aside, and all of it is done again without that."""
        world = self.state.world
        aside, places = dict(self._suspects), list[str]()
        for _ in range(_MOST_ASIDE):
            self._take_in(now, arrived, revived, before, aside.values())
            steps.done(Step.APPLY)
            if not self.deciding:
                return self.state.plan()
            try:
                unfinished = self.state.propose(Budget(self._visits, steps=steps))
                plan = self.state.plan(unfinished=unfinished)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the others
                culprit, place = world.attending, world.attending_place
                self.state.abort()
                if culprit and culprit not in aside:
                    aside[culprit] = _found(culprit, error, now)
                elif place and not culprit and place not in world.places_aside:
                    world.places_aside[place] = _found(place, error, now)
                    places.append(place)
                elif world.batches:
                    self._without_batches(error)
                else:
                    for name in places:  # setting them aside did not help
                        del world.places_aside[name]
                    self._stand_still(error)
                    break
            else:
                self._decides(aside, places)
                return plan
        self._take_in(now, arrived, revived, before, self._suspects.values())
        return self.state.plan()

    def _take_in(
        self,
        now: int,
        incoming: Iterable[events.Event],
        revived: Iterable[Workload],
        before: Callable[[World], None] | None,
        aside: Iterable[Quarantined],
    ) -> None:
        self.state.begin(now)
        note_read(self.state.world, {**self.read_until(), **dict.fromkeys(self.unread, 0)})
        for workload in revived:
            self.state.world.revive(replace(workload))  # a copy: what is taken back is taken in again
        if before is not None:
            before(self.state.world)
        for event in incoming:
            self.state.apply(event)
            APPLIED.inc()
        for found in aside:
            self.state.set_aside(found)

    def _decides(self, aside: Mapping[str, Quarantined], places: Sequence[str]) -> None:
        """A cycle has ended well. places: node pools and clusters that it set aside."""
        known = self.state.world.places_aside
        for found in map(known.__getitem__, places):
            _log.error(
                "a node pool or cluster is set aside", place=found.workload, error=found.error, trace=found.trace
            )
        for found in aside.values():
            _log.error("a workload is set aside", workload=found.workload, error=found.error, trace=found.trace)
        if known:
            said = "; ".join(f"{found.workload}: {found.error}" for found in known.values())
            self._health.degraded(_ASIDE, f"set aside, the rest is decided: {said}")
        elif _ASIDE in self._health.waiting:
            self._health.good(_ASIDE)
        if aside or places:
            self.state.world.batches = True
        if self._still:
            self._still = ""
            self._health.good(_CYCLE)

    def _without_batches(self, error: Exception) -> None:
        """Decide one head after the other: that shows which of a batch it was. Where none is, they stay off."""
        self.state.world.batches = False
        BATCHES_FAILED.inc()
        said = f"{type(error).__name__}: {error}"
        if said != self._batches_failed:
            self._batches_failed = said
            _log.error("batches of heads are switched off: one failed and no workload is to blame", exc_info=error)

    def _stand_still(self, error: Exception) -> None:
        """Nothing is decided by this transaction: a failure that no workload is to blame for."""
        self.state.world.batches = True
        said = f"{type(error).__name__}: {error}"
        if said != self._still:
            _log.exception("a cycle failed, and no workload is to blame: nothing is decided")
            self._still = said
        self._health.degraded(_CYCLE, f"nothing is decided, events are taken in: {said}")

    async def _stage(self, unit: Unit, plan: Plan, steps: Steps) -> None:
        """Write the rows, then what goes out.

        Raises Retry where a workload has a row or a record that cannot be encoded: it is set aside then. Where that was
        done and did not help, an event is to blame: Unpublishable, which makes a dead letter of its record.
        """
        world = self.state.world
        try:
            await self._store.write(unit, plan, world)
            steps.done(Step.WRITE)
            self._outgoing.publish(unit, plan, world)
            steps.done(Step.PUBLISH)
        except Unpublishable as failed:
            if failed.workload in world.quarantined:
                raise
            self._suspects[failed.workload] = _found(failed.workload, failed, world.now)
            raise Retry(f"what was decided about workload {failed.workload} cannot be encoded") from failed

    def _commit(self) -> None:
        self._suspects.clear()
        self.state.commit()
        self._lock.release()

    def _abort(self) -> None:
        if self.state.is_open:  # not yet, where it could not be asked for what had left the memory
            self.state.abort()
        self._lock.release()

    def clear_conditions(self) -> None:
        """Clear what health says of this term: as a standby this process knows nothing of it."""
        self._strays.forget()
        incomplete.forget(self._health)
        unbound.forget(self._health)

    def _count(self, plan: Plan, steps: Steps) -> None:
        steps.done(Step.COMMIT)
        for step, seconds in steps.seconds.items():
            STEP.labels(step=step).observe(seconds)
        for kind, number in decisions.tally(plan.taken).items():
            DECIDED.labels(kind=kind).inc(number)
        ODDITIES.inc(len(plan.oddities))
        for said in plan.oddities[:_LOGGED]:
            _log.warning("an inventory contradicts itself", what=said)
        WAITING.set(len(self.state.world.waiting))
        CLUSTERS.set(sum(1 for cluster in self.state.world.clusters.values() if cluster.silent))
        incomplete.tell(plan, self.state.world, self._health)
        unbound.tell(self.state.world, self._health)
        self._strays.look(self.state.world)
        if plan.unfinished:
            UNFINISHED.inc()
            self.again.set()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[State]:
        """The state as committed; nobody changes it meanwhile."""
        async with self._lock:
            yield self.state

    async def start_deciding(self, now: datetime, unread: frozenset[str]) -> None:
        """Start the clocks of silence and run cycles from now on: what can be read was read to its end.

        unread: the clusters whose reports cannot be read. They get no new work before a first report.
        """
        async with self._lock:
            self.state.restart_clocks(micros(now), unread)
            self.unread = unread
            self.deciding = True
        self.again.set()
        _log.info("decides from now on", workloads=len(self.state.world.workloads), unread=sorted(unread))

    def pause(self, now: datetime, shortest: float, longest: float) -> float:
        """Seconds until a cycle has something to do by time alone, within these bounds."""
        due = self.state.next_time()
        return longest if due is None else min(longest, max(shortest, (due - micros(now)) / SECOND))

    async def release(self, unit: Unit, workloads: Sequence[str]) -> None:
        """Lets workloads in again that were set aside."""

        def released(world: World) -> None:
            for workload_id in workloads:
                quarantine.release(world, workload_id)

        await self.transact(unit, (), before=released)

    async def republish_layouts(self, unit: Unit) -> None:
        """Writes anew the record of each node whose MIG layout an agent changes."""
        await self.transact(unit, (), before=layouts.tell_again)

    async def republish(self, unit: Unit, workloads: Sequence[str]) -> None:
        """Writes anew the record of each of these of which something may still run: a new leader owes it (rule 5)."""
        await self.transact(unit, (), before=partial(republish, workloads=workloads))


def _found(workload: str, error: BaseException, now: int) -> Quarantined:
    trace = "".join(traceback.format_exception(error))
    return Quarantined(workload, clean(f"{type(error).__name__}: {error}", 500), clean(trace[-_TRACE:], _TRACE), now)
