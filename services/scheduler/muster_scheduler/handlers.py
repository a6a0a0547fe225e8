"""One transaction of the leader: events in, a cycle, decisions out, memory and database together or not at all.

Used by the consumer (batches of records), the clock (cycles without events) and rpc.py (an operator's commands). One
lock serialises them: it is taken when a transaction opens the state and given back when it is known to be committed or
rolled back. Readers take the same lock, so nobody sees what is not committed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.events import Event
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import Phase
from muster_scheduler.domain import decisions, events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import Plan, State
from muster_scheduler.domain.steps import Step, Steps
from muster_scheduler.ports import Outgoing, Store

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
        self, state: State, store: Store, outgoing: Outgoing, translate: Translate, *, visits: int = 20_000
    ) -> None:
        """`translate`: what a record means to the domain. `visits`: exact tests of nodes that one cycle may do."""
        self.state = state
        self.deciding = False
        """Whether cycles run: not before every partition was read to its end (rule 5)."""
        self.again = asyncio.Event()
        """Set when a cycle should follow although no event comes."""
        self._store = store
        self._outgoing = outgoing
        self._translate = translate
        self._visits = visits
        self._lock = asyncio.Lock()

    async def on_events(self, unit: Unit, batch: Sequence[Event]) -> None:
        """A batch of records, in one transaction."""
        await self.transact(unit, (made for event in batch if (made := self._translate(event)) is not None))

    async def transact(
        self, unit: Unit, incoming: Iterable[events.Event], *, before: Callable[[World], None] | None = None
    ) -> Plan:
        """Applies events and runs a cycle within the unit. Memory follows the unit's outcome."""
        steps = Steps(time.perf_counter)
        await self._lock.acquire()
        unit.after_commit(self._commit)
        unit.after_rollback(self._abort)
        steps.done(Step.WAIT)
        began = time.perf_counter()
        plan = self._decide(micros(unit.now), incoming, before, steps)
        CYCLE.observe(time.perf_counter() - began)
        await self._store.write(unit, plan, self.state.world)
        steps.done(Step.WRITE)
        self._outgoing.publish(unit, plan, self.state.world)
        steps.done(Step.PUBLISH)
        unit.after_commit(lambda: self._count(plan, steps))
        return plan

    def _decide(
        self, now: int, incoming: Iterable[events.Event], before: Callable[[World], None] | None, steps: Steps
    ) -> Plan:
        self.state.begin(now)
        if before is not None:
            before(self.state.world)
        for event in incoming:
            self.state.apply(event)
            APPLIED.inc()
        steps.done(Step.APPLY)
        unfinished = self.deciding and self.state.propose(Budget(self._visits, steps=steps))
        return self.state.plan(unfinished=unfinished)

    def _commit(self) -> None:
        self.state.commit()
        self._lock.release()

    def _abort(self) -> None:
        self.state.abort()
        self._lock.release()

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
        if plan.unfinished:
            UNFINISHED.inc()
            self.again.set()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[State]:
        """The state as committed; nobody changes it meanwhile."""
        async with self._lock:
            yield self.state

    async def start_deciding(self, now: datetime) -> None:
        """Every partition is read to its end: clocks of silence start, cycles run from now on."""
        async with self._lock:
            self.state.restart_clocks(micros(now))
            self.deciding = True
        self.again.set()
        _log.info("decides from now on", workloads=len(self.state.world.workloads))

    def pause(self, now: datetime, shortest: float, longest: float) -> float:
        """Seconds until a cycle has something to do by time alone, within these bounds."""
        due = self.state.next_time()
        return longest if due is None else min(longest, max(shortest, (due - micros(now)) / SECOND))

    async def republish(self, unit: Unit) -> None:
        """Writes anew the record of every workload of which something may still run: a new leader owes it (rule 5)."""
        await self.transact(unit, (), before=republish)


def republish(world: World) -> None:
    """Decides every record anew: an assignment for what should run, a tombstone for what is still leaving."""
    for workload_id in sorted(world.workloads):
        workload = world.workloads[workload_id]
        if not workload.remaining:
            continue
        if workload.active or workload.phase is Phase.UNKNOWN:
            world.rewrite(workload)
            continue
        grace, reason = world.limits.grace, workload.reason.value
        run = (workload.revision, workload.attempt)
        world.decide(decisions.Release(workload.cluster, workload.id, *run, grace, reason))
