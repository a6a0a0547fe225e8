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
from muster_scheduler.ports import Outgoing, Store

_log = logs.get(__name__)
Translate = Callable[[Event], events.Event | None]
CYCLE = metrics.histogram(
    "muster_scheduler_cycle_seconds",
    unit="seconds",
    meaning="Computing one transaction: applying its events and one scheduling cycle, without the database.",
    action="Slow: look at muster_scheduler_waiting and at the number of distinct shapes that wait.",
)
PLACED = metrics.counter(
    "muster_scheduler_placed_total",
    unit="workloads",
    meaning="Workloads placed.",
    action="Flat while workloads wait: `muster why` on one of them.",
)
PREEMPTED = metrics.counter(
    "muster_scheduler_preempted_total",
    unit="workloads",
    meaning="Workloads that gave their place up.",
    action="Grows fast: priorities fight over too small a quota.",
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
        await self._lock.acquire()
        unit.after_commit(self._commit)
        unit.after_rollback(self._abort)
        began = time.perf_counter()
        self.state.begin(micros(unit.now))
        if before is not None:
            before(self.state.world)
        for event in incoming:
            self.state.apply(event)
        unfinished = self.deciding and self.state.propose(Budget(self._visits))
        plan = self.state.plan(unfinished=unfinished)
        CYCLE.observe(time.perf_counter() - began)
        await self._store.write(unit, plan, self.state.world)
        self._outgoing.publish(unit, plan, self.state.world)
        unit.after_commit(lambda: self._count(plan))
        return plan

    def _commit(self) -> None:
        self.state.commit()
        self._lock.release()

    def _abort(self) -> None:
        self.state.abort()
        self._lock.release()

    def _count(self, plan: Plan) -> None:
        ODDITIES.inc(len(plan.oddities))
        for said in plan.oddities[:_LOGGED]:
            _log.warning("an inventory contradicts itself", what=said)
        for decision in plan.decisions:
            if isinstance(decision, decisions.Placed):
                PLACED.inc()
            elif isinstance(decision, decisions.Preempted):
                PREEMPTED.inc()
        WAITING.set(len(self.state.world.waiting))
        CLUSTERS.set(sum(1 for cluster in self.state.world.clusters.values() if cluster.silent))
        if plan.unfinished:
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
        run = (workload.generation, workload.attempt)
        world.decide(decisions.Release(workload.cluster, workload.id, *run, grace, reason))
