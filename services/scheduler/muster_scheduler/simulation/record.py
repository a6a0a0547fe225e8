"""What a simulation writes down: every decision as it is taken, and the fleet at regular moments.

Fed by running.py. Follows phases, not the books: what a project holds is what its workloads that are placed ask for,
what it wants is that and what its waiting ones ask for, without those that could never run on this fleet.
Holds: the sums per project follow every change of a phase; `figures` does not change anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster_kernel.lifecycle import ACTIVE, RELEASING, WAITING, Phase
from muster_kernel.quantities import GPU, UNITS_PER_MILLI
from muster_kernel.reasons import IN_VAIN
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Burst, PhaseChange, Placed, Preempted
from muster_scheduler.simulation.scenario import Job, Scenario, gpus_of, units_of


class Sample(NamedTuple):
    """The fleet at one moment; amounts in 1/7,000 GPU. `at`: microseconds since the start."""

    at: int
    held: int
    wanted: int  # held, and asked for by what waits and could run
    served: int  # of `entitled`, what is held
    entitled: int  # what the projects deserve, as far as they want it
    free: int  # on nodes that are up
    whole: int  # of `free`, on nodes that are wholly free
    running: int  # workloads
    waiting: int


class Standing(NamedTuple):
    """A project over the whole time; amounts are means over the samples in 1/7,000 GPU, waits are microseconds."""

    project: str
    department: str
    deserved: int
    wanted: int
    held: int
    arrived: int
    completed: int
    failed: int
    preempted: int
    unplaced: int
    waits: tuple[int, ...]  # of what was placed, sorted
    series: tuple[int, ...]  # what it held at each sample


class Figures(NamedTuple):
    """All that is known at the end."""

    scenario: Scenario
    samples: tuple[Sample, ...]
    projects: tuple[Standing, ...]


@dataclass(slots=True)
class Account:
    """One project, as it goes."""

    department: str
    deserved: int
    held: int = 0
    waiting: int = 0
    arrived: int = 0
    completed: int = 0
    failed: int = 0
    preempted: int = 0
    sum_deserved: int = 0
    sum_wanted: int = 0
    sum_held: int = 0
    waits: list[int] = field(default_factory=list)
    series: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Known:
    """One job: whose it is, what it asks for, when it came."""

    account: Account
    units: int
    placed: bool = False


class Step(NamedTuple):
    """What a change of phase does to the sums: 1, 0 or -1 each."""

    holding: int
    waiting: int
    running: int
    completed: int
    failed: int


_HOLDING = ACTIVE | RELEASING | {Phase.UNKNOWN}


def _step(before: Phase, after: Phase) -> Step:
    holding, waiting, running = ((after in kind) - (before in kind) for kind in (_HOLDING, WAITING, ACTIVE))
    return Step(holding, waiting, running, int(after is Phase.COMPLETED), int(after is Phase.FAILED))


_STEPS: Final = {(before, after): step for before in Phase for after in Phase if any(step := _step(before, after))}
"""Of the changes that mean something to a sum; most workloads only become ready."""


class Record:
    """The book of one run."""

    def __init__(self, scenario: Scenario) -> None:
        """Begins with the projects of the scenario."""
        self.scenario = scenario
        self.accounts = {
            tenant.project: Account(tenant.department, sum(quota.deserved for _, quota in tenant.quotas))
            for tenant in scenario.tenants
        }
        self.samples: list[Sample] = []
        self.running = self.waiting = 0
        self._jobs: dict[str, Known] = {}
        self._pools = sorted({(group.cluster, group.pool) for group in scenario.fleet})

    def department(self, project: str) -> str:
        """The department of a project."""
        return self.accounts[project].department

    def expect(self, workload: str, job: Job) -> None:
        """A job has been submitted."""
        account = self.accounts[job.project]
        account.arrived += 1
        self._jobs[workload] = Known(account, units_of(job.request))

    def requota(self, project: str, deserved: int) -> None:
        """A project deserves something else from now on."""
        self.accounts[project].deserved = deserved

    def changed(self, change: PhaseChange) -> None:
        """A workload has entered another phase."""
        step = _STEPS.get((change.before, change.after))
        if step is not None:
            self._move(self._jobs[change.workload], step)

    def begun(self, world: World, burst: Burst) -> None:
        """Many workloads have got their places."""
        for workload, begun in zip(burst.workloads, burst.begun, strict=True):
            job = self._jobs[workload]
            self._serve(job, burst.at - world.workloads[workload].submitted)
            self._move(job, _STEPS[begun.before, begun.after])

    def _move(self, job: Known, step: Step) -> None:
        account, (holding, waiting, running, completed, failed) = job.account, step
        self.running += running
        if holding:
            account.held += holding * job.units
        if waiting:
            account.waiting += waiting * job.units
            self.waiting += waiting
        if completed or failed:
            account.completed += completed
            account.failed += failed

    def placed(self, world: World, placed: Placed) -> None:
        """A workload has got its place; how long it waited counts for its first one."""
        self._serve(self._jobs[placed.workload], placed.at - world.workloads[placed.workload].submitted)

    def _serve(self, job: Known, waited: int) -> None:
        if not job.placed:
            job.placed = True
            job.account.waits.append(waited)

    def preempted(self, world: World, preempted: Preempted) -> None:
        """A workload gives its place up."""
        del world
        self._jobs[preempted.workload].account.preempted += 1

    def sample(self, world: World, at: int) -> None:
        """Looks at the fleet; `at` in microseconds since the start."""
        served = entitled = demand = 0
        never = _asked_in_vain(world)
        for project, account in self.accounts.items():
            wanted = account.held + account.waiting - never.get(project, 0)
            demand += wanted
            account.sum_deserved += account.deserved
            account.sum_wanted += wanted
            account.sum_held += account.held
            account.series.append(account.held)
            due = min(account.deserved, wanted)
            entitled += due
            served += min(due, account.held)
        free, whole = self._left(world)
        held = sum(account.held for account in self.accounts.values())
        self.samples.append(
            Sample(
                at,
                held,
                demand,
                served,
                entitled,
                free,
                whole,
                self.running,
                self.waiting,
            )
        )

    def _left(self, world: World) -> tuple[int, int]:
        """What nodes that are up could still give, and as much of it as is on wholly free ones; in 1/7,000 GPU."""
        free = whole = 0
        for cluster, pool in self._pools:
            columns = world.inventory.columns(cluster, pool)
            if columns is not None:
                milli = columns.milli.sum(axis=1) * columns.open
                taken = (columns.cpu != columns.cpu_total) | (columns.memory != columns.memory_total)
                free += int(milli.sum())
                whole += int(milli[~taken & (columns.idle == columns.idle_total)].sum())
        return free * UNITS_PER_MILLI, whole * UNITS_PER_MILLI

    def figures(self) -> Figures:
        """What is known by now."""
        return Figures(
            self.scenario, tuple(self.samples), tuple(self._standing(name) for name in sorted(self.accounts))
        )

    def _standing(self, name: str) -> Standing:
        account, samples = self.accounts[name], len(self.samples) or 1
        return Standing(
            name,
            account.department,
            account.sum_deserved // samples,
            account.sum_wanted // samples,
            account.sum_held // samples,
            account.arrived,
            account.completed,
            account.failed,
            account.preempted,
            account.arrived - len(account.waits),
            tuple(sorted(account.waits)),
            tuple(account.series),
        )


def _asked_in_vain(world: World) -> dict[str, int]:
    """What waits and could never run on this fleet, by project, in 1/7,000 GPU: nobody is owed that."""
    found: dict[str, int] = {}
    for key, bucket in world.waiting.buckets.items():
        if bucket.reason is not None and bucket.reason.code in IN_VAIN:
            found[key.project] = found.get(key.project, 0) + bucket.count * bucket.each.gpu
    return found


def capacity_units(scenario: Scenario) -> int:
    """What the whole fleet has, in 1/7,000 GPU."""
    return GPU * gpus_of(scenario.fleet)
