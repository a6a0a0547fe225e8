"""A scenario, run: the state machine of the service in virtual time, one transaction a cycle.

Called by the command and by tests. The loop is the service's own: what has come is applied, one cycle is proposed, its
plan is committed; agents hear the decisions and answer later. Deterministic: the same scenario gives the same figures.
Holds: time only grows, by whole cycles; nothing here changes the domain's books except through its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from muster_scheduler.domain import events
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.queues import Department, Project
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Assign, Burst, PhaseChange, Placed, Preempted, Release
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node, NodeState
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State
from muster_scheduler.domain.tuples import new
from muster_scheduler.simulation.agenda import Agenda
from muster_scheduler.simulation.agents import Agents
from muster_scheduler.simulation.record import Figures, Record
from muster_scheduler.simulation.scenario import Change, NodeGroup, Outage, Scenario, Tenant

START: Final = 1_700_000_000 * SECOND  # the domain's clock at the start: any time will do, 0 means never
_FOREVER: Final = 1 << 60
_VISITS: Final = 200_000
Progress = Callable[[int, Record], None]


class Simulation:
    """One run of one scenario."""

    def __init__(self, scenario: Scenario, progress: Progress | None = None) -> None:
        """`progress` is called at every sample with the virtual time since the start and the record so far."""
        self.scenario = scenario
        # Simulated agents never fall silent: nobody would gain from a heartbeat for every ten seconds of a day.
        self.state = State(Limits(stale_after=_FOREVER, silent_after=_FOREVER))
        self.agenda = Agenda()
        self.agents = Agents(scenario.pace, self.agenda)
        self.record = Record(scenario)
        self._hear: dict[type, tuple[Callable[[World, Any], None], ...]] = {
            Burst: (self.record.begun, self.agents.begun),
            PhaseChange: (self._changed,),
            Placed: (self.record.placed,),
            Preempted: (self.record.preempted,),
            Assign: (self.agents.assigned,),
            Release: (self.agents.released,),
        }
        self._progress = progress
        self._arrived = 0
        self._inventory: dict[str, int] = {}
        self._nodes = {(group.cluster, name): (group, n) for group, n, name in _named(scenario.fleet)}

    def run(self) -> Figures:
        """From the first moment to the last."""
        self._begin()
        end = START + self.scenario.pace.length
        now = START
        while now < end:
            now = min(self._next(now), end)
            self._tick(now, ())
        return self.record.figures()

    def _begin(self) -> None:
        clusters = sorted({group.cluster for group in self.scenario.fleet})
        opening: list[events.Event] = [events.ClusterRegistered(cluster) for cluster in clusters]
        opening += [events.NodePoolChanged(pool) for pool in self.scenario.pools]
        opening += [
            events.DepartmentChanged(Department(unit.department, dict(unit.quotas), 0, rank=unit.rank))
            for unit in self.scenario.departments
        ]
        opening += [_project(tenant) for tenant in self.scenario.tenants]
        opening += [self._report(cluster, START, full=True) for cluster in clusters]
        for outage in self.scenario.outages:
            self.agenda.add(START + outage.at, self._break, outage)
            self.agenda.add(START + outage.until, self._mend, outage)
        for change in self.scenario.changes:
            self.agenda.add(START + change.at, self._requota, change)
        for moment in range(0, self.scenario.pace.length + 1, self.scenario.pace.sample):
            self.agenda.add(START + moment, self._sample, moment)
        self._tick(START, opening)

    def _tick(self, now: int, opening: list[events.Event] | tuple[()]) -> None:
        state, world = self.state, self.state.world
        state.begin(now)
        for event in opening:
            state.apply(event)
        for event in self._arrivals(now):
            state.apply(event)
        for makes, arguments in self.agenda.due(now):
            for event in makes(world, *arguments):
                state.apply(event)
        unfinished = state.propose(Budget(_VISITS))
        plan = state.plan(unfinished=unfinished)
        for taken in plan.taken:
            for hear in self._hear.get(type(taken), ()):
                hear(world, taken)
        again = now if unfinished else plan.again_at
        state.commit()
        if again is not None:
            self.agenda.add(again, _nothing)

    def _changed(self, world: World, change: PhaseChange) -> None:
        if change.before is not change.after:  # else no more is told than that something of its replicas is known
            self.record.changed(change)
            self.agents.changed(world, change)

    def _next(self, now: int) -> int:
        """The end of the first cycle in which anything happens."""
        jobs, cycle = self.scenario.jobs, self.scenario.pace.cycle
        times = [self.agenda.next()]
        if self._arrived < len(jobs):
            times.append(START + jobs[self._arrived].at)
        first = min((time for time in times if time is not None), default=_FOREVER)
        return max(now + cycle, START + -(-(first - START) // cycle) * cycle)

    def _arrivals(self, now: int) -> Iterator[events.Event]:
        jobs = self.scenario.jobs
        while self._arrived < len(jobs) and START + jobs[self._arrived].at <= now:
            job, number = jobs[self._arrived], self._arrived
            workload = f"00000000-0000-7000-8000-{number:012x}"
            self._arrived += 1
            self.agents.expect(workload, job)
            self.record.expect(workload, job)
            department = self.record.department(job.project)
            said = workload, job.project, department, job.project, job.name, "", START + job.at, True, job.request
            yield new(events.Admitted, said)

    def _sample(self, world: World, moment: int) -> tuple[events.Event, ...]:
        self.record.sample(world, moment)
        if self._progress is not None:
            self._progress(moment, self.record)
        return ()

    def _requota(self, world: World, change: Change) -> tuple[events.Event, ...]:
        del world
        self.record.requota(change.tenant.project, sum(quota.deserved for _, quota in change.tenant.quotas))
        return (_project(change.tenant),)

    # -- the fleet ---------------------------------------------------------------------------------------------------

    def _report(self, cluster: str, now: int, *, full: bool, nodes: tuple[Node, ...] | None = None) -> events.Event:
        order = self.agents.order(cluster, now)
        self._inventory[cluster] = self._inventory.get(cluster, 0) + 1
        if nodes is None:
            nodes = tuple(_node(group, n, name) for (at, name), (group, n) in self._nodes.items() if at == cluster)
        profile = Profile(mig=Mig.DYNAMIC)
        return events.InventoryReported(cluster, order, full, self._inventory[cluster], profile, nodes, ())

    def _break(self, world: World, outage: Outage) -> Iterator[events.Event]:
        yield self._change(world, outage, NodeState.NOT_READY)
        yield from self.agents.lose(world, outage.cluster, outage.node)

    def _mend(self, world: World, outage: Outage) -> Iterator[events.Event]:
        yield self._change(world, outage, NodeState.READY)

    def _change(self, world: World, outage: Outage, state: NodeState) -> events.Event:
        group, number = self._nodes[outage.cluster, outage.node]
        node = _node(group, number, outage.node, state)
        return self._report(outage.cluster, world.now, full=False, nodes=(node,))


def _nothing(world: World) -> tuple[events.Event, ...]:
    """A cycle wants to be called then; there is nothing to tell it."""
    del world
    return ()


def _project(tenant: Tenant) -> events.Event:
    return events.ProjectChanged(Project(tenant.project, tenant.department, dict(tenant.quotas), 0, rank=tenant.rank))


def _named(fleet: tuple[NodeGroup, ...]) -> Iterator[tuple[NodeGroup, int, str]]:
    for group in fleet:
        for number in range(group.nodes):
            yield group, number, group.name if group.nodes == 1 else f"{group.name}-{number}"


def _node(group: NodeGroup, number: int, name: str, state: NodeState = NodeState.READY) -> Node:
    devices = [
        Device(f"{group.cluster}/{name}/{slot}", group.model, group.gpu_memory, slot) for slot in range(group.gpus)
    ]
    for device in devices:
        device.tally()
    return Node(
        group.cluster,
        name,
        group.pool,
        uid=f"{name}-{number}",
        boot="1",
        state=state,
        cpu=group.cpu,
        memory=group.memory,
        labels=group.labels,
        devices=devices,
    )
