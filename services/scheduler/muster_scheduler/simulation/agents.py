"""The simulated agents: what they answer to the scheduler's records, and when.

Called by running.py with every decision of a cycle; answers are entries of the agenda, which make their events when
their time has come, from what the books say then. Holds: an answer speaks of one attempt only, so that one that has
been overtaken says nothing; a job that was interrupted goes on where its last checkpoint was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import Replica, ReplicaState, Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Assign, Burst, PhaseChange, Release
from muster_scheduler.domain.tuples import new
from muster_scheduler.simulation.agenda import Agenda
from muster_scheduler.simulation.scenario import Job, Pace


@dataclass(slots=True)
class Progress:
    """How far a job is; times in microseconds."""

    left: int
    began: int = 0
    fails_after: int = 0
    lost: int = 0  # work that was done in vain


@dataclass(slots=True)
class Agents:
    """All agents of the fleet."""

    pace: Pace
    agenda: Agenda
    jobs: dict[str, Progress] = field(default_factory=dict)
    _sequence: int = 0

    def expect(self, workload: str, job: Job) -> None:
        """A job has been submitted."""
        self.jobs[workload] = Progress(job.duration, fails_after=job.fails_after)

    def order(self, cluster: str, now: int) -> events.Order:
        """The next place in the order of a cluster's reports."""
        self._sequence += 1
        return new(events.Order, (f"agent-{cluster}", 1, self._sequence, now))

    def begun(self, world: World, burst: Burst) -> None:
        """Takes the records of many."""
        self.agenda.add(world.now + self.pace.start, self._all_ready, burst)

    def assigned(self, world: World, assign: Assign) -> None:
        """Takes a record as the agent of its cluster would."""
        workload = world.workloads[assign.workload]
        self.agenda.add(world.now + self.pace.start, self._ready, assign.workload, workload.attempt)

    def released(self, world: World, release: Release) -> None:
        """Takes a record's end."""
        if world.workloads[release.workload].remaining:
            self.agenda.add(world.now + self.pace.stop, self._gone, release)

    def changed(self, world: World, change: PhaseChange) -> None:
        """Begins, ends or interrupts the work itself: its phase is another one now."""
        if change.after is Phase.RUNNING:
            job = self.jobs[change.workload]
            job.began = world.now
            fails = 0 < job.fails_after < job.left
            after = job.fails_after if fails else job.left
            self.agenda.add(world.now + after, self._fail if fails else self._end, change.workload, change.attempt)
        elif change.before is Phase.RUNNING and change.after is not Phase.COMPLETED:
            job = self.jobs[change.workload]
            done = world.now - job.began
            saved = done - done % self.pace.checkpoint if self.pace.checkpoint else 0
            job.left -= saved
            job.lost += done - saved

    def _all_ready(self, world: World, burst: Burst) -> Iterator[events.Event]:
        for workload, begun in zip(burst.workloads, burst.begun, strict=True):
            yield from self._ready(world, workload, begun.attempt)

    def _ready(self, world: World, workload_id: str, attempt: int) -> Iterable[events.Event]:
        workload = world.workloads[workload_id]
        if not workload.active or workload.attempt != attempt:
            return ()
        waiting = [replica for replica in _of(workload) if replica.state is ReplicaState.ASSIGNED]
        return [self._report(world, workload, replica, ReplicaState.READY) for replica in waiting]

    def _end(self, world: World, workload_id: str, attempt: int) -> Iterable[events.Event]:
        workload = world.workloads[workload_id]
        if workload.phase is not Phase.RUNNING or workload.attempt != attempt:
            return ()
        return [
            self._report(world, workload, replica, ReplicaState.SUCCEEDED, exit_code=0) for replica in _of(workload)
        ]

    def _fail(self, world: World, workload_id: str, attempt: int) -> Iterator[events.Event]:
        workload = world.workloads[workload_id]
        if workload.phase is Phase.RUNNING and workload.attempt == attempt:
            self.jobs[workload_id].fails_after = 0
            for replica in _of(workload)[:1]:
                yield self._report(
                    world, workload, replica, ReplicaState.FAILED, exit_code=1, failure=FailureClass.EXIT
                )

    def _gone(self, world: World, release: Release) -> Iterator[events.Event]:
        status = events.Status("", 0, 0, "", None, gone=True)
        order = self.order(release.cluster, world.now)
        yield events.ReplicaReported(
            release.cluster, order, release.workload, release.generation, release.attempt, status
        )

    def lose(self, world: World, cluster: str, node: str) -> Iterator[events.Event]:
        """Everything that runs on a node is lost with it."""
        holding = world.inventory.nodes[cluster, node].entries
        for holder in sorted(holding):
            workload = world.workloads[holder.workload]
            replica = workload.find(holder)
            if replica is not None and not replica.gone:
                yield self._report(
                    world, workload, replica, ReplicaState.FAILED, gone=True, failure=FailureClass.INFRASTRUCTURE
                )

    def _report(
        self,
        world: World,
        workload: Workload,
        replica: Replica,
        state: ReplicaState,
        *,
        gone: bool | None = None,
        exit_code: int | None = None,
        failure: FailureClass = FailureClass.NONE,
    ) -> events.Event:
        who, node, cluster, now = replica.holder, replica.node[1], workload.cluster, world.now
        if gone is None:
            gone = state is ReplicaState.SUCCEEDED
        said = who.role, who.rank, who.k, node, state, gone, exit_code, failure, "", "", (), (), 0, now, "", 0
        status, order = new(events.Status, said), self.order(cluster, now)
        report = cluster, order, who.workload, who.generation, who.attempt, status, (), ()
        return new(events.ReplicaReported, report)


def _of(workload: Workload) -> list[Replica]:
    held = workload.replicas
    return [held[key] for key in sorted(held)] if len(held) > 1 else list(held.values())
