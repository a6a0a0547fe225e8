"""The scheduler under anything: whatever comes in whatever order, its laws hold after every step.

The laws are in tests/support/machine_laws.py and checked_fleet.py: this file says what may happen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import ClassVar

from hypothesis import HealthCheck, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import astuple

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import decisions as d
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.requests import Role, Shape
from muster_scheduler.domain.asked.terms import Terms
from muster_scheduler.domain.asked.workloads import SECOND, ReplicaState, Stretch, Trials, WorkloadKind
from muster_scheduler.domain.room.evictions import may_still_evict
from tests.support import machine_laws as laws
from tests.support import seeds
from tests.support.checked_fleet import Checked
from tests.support.fleets import request, role, whole, workload_id
from tests.support.machine_shapes import CROWD, GANG, MOUNTED, NUMBERS, PLACES, ROLES, SHAPES, first, others, second
from tests.support.machine_surroundings import DYNAMIC, Surroundings
from tests.support.plain_twin import Twin

STEPS = int(os.environ.get("MUSTER_MACHINE_STEPS", "8000"))
STEPS_EACH = 50


class SchedulerMachine(Surroundings):
    """No device is over-given, gangs are whole, quotas keep, nobody is evicted in vain, aborts leave no trace."""

    steps: ClassVar[int] = 0
    twin: ClassVar[Twin | None] = None

    @initialize(beside=st.booleans(), gang=GANG, crowd=CROWD)
    def begin(
        self,
        beside: bool,
        gang: tuple[Shape, int, int, bool] | None,
        crowd: list[tuple[tuple[Role, ...], int, bool, str, Terms]],
    ) -> None:
        twin = SchedulerMachine.twin if beside else None
        self.fleet = Checked(first(), second(), *others(), profile=DYNAMIC, quota=6, twin=twin)
        self.fleet.project("q", {"default": 2, "other": 1})
        self.known: list[int] = []
        if gang is not None:
            self.train_elastic(12, *gang)
            self.fleet.wait(31)  # nobody else is there: it grows
            self.fleet.wait(31)
        for number, (roles, priority, preemptible, project, terms) in enumerate(crowd, 1):
            asked = request(*roles, priority=priority, preemptible=preemptible, backoff_limit=2)
            self.fleet.submit(number, asked._replace(terms=terms), project=project)
            self.note(number)

    @rule(
        number=NUMBERS,
        roles=ROLES,
        priority=st.sampled_from([25, 50, 75]),
        preemptible=st.booleans(),
        project=st.sampled_from("pq"),
        place=PLACES,
        terminate=st.booleans(),
        active=st.sampled_from([True, True, True, False]),
    )
    def submit(
        self,
        number: int,
        roles: tuple[Role, ...],
        priority: int,
        preemptible: bool,
        project: str,
        place: tuple[tuple[str, ...], Terms],
        terminate: bool,
        active: bool,
    ) -> None:
        pools, terms = place
        asked = request(
            *roles,
            priority=priority,
            preemptible=preemptible,
            pools=pools,
            terminate_after_preemption=terminate,
            backoff_limit=2,
        )._replace(terms=terms, keeps_data=number % 3 == 0, mounts=MOUNTED[number % 3])
        self.fleet.submit(number, asked, project=project, active=active)
        self.note(number)

    @rule(number=NUMBERS, size=st.integers(1, 3), most=st.integers(1, 4), generation=st.integers(1, 3))
    def serve(self, number: int, size: int, most: int, generation: int) -> None:
        asked = request(
            role(whole(1), size), kind=WorkloadKind.INFERENCE, max_scale=most, generation=generation, priority=75
        )._replace(keeps_data=number % 2 == 0, mounts=MOUNTED[number % 3])
        self.fleet.submit(number, asked)
        self.note(number)

    @rule(number=NUMBERS, completions=st.integers(2, 6), at_once=st.integers(1, 3), limit=st.integers(0, 3))
    def run_trials(self, number: int, completions: int, at_once: int, limit: int) -> None:
        asked = request(role(whole(1)), backoff_limit=limit)._replace(trials=Trials(completions, at_once))
        self.fleet.submit(number, asked)
        self.note(number)

    @rule(number=NUMBERS, shape=SHAPES, least=st.integers(1, 3), more=st.integers(1, 3), preemptible=st.booleans())
    def train_elastic(self, number: int, shape: Shape, least: int, more: int, preemptible: bool) -> None:
        asked = request(role(shape, least), preemptible=preemptible, backoff_limit=2)
        stretch = Stretch("worker", least, least + more)
        if self.fleet.submit(number, asked._replace(stretch=stretch, mounts=MOUNTED[number % 3])).active:
            self.fleet.run(number)
        self.note(number)

    @rule(number=NUMBERS, replicas=st.integers(0, 5))
    def scale(self, number: int, replicas: int) -> None:
        self.fleet.send(events.ScaleAdvised(self.id(number), replicas))

    @rule(number=NUMBERS, wish=st.sampled_from("srd"))
    def intend(self, number: int, wish: str) -> None:
        intents: dict[str, Callable[[str, str], events.Event]] = {
            "s": events.SuspendRequested,
            "r": events.ResumeRequested,
            "d": events.DeletionRequested,
        }
        self.fleet.send(intents[wish]("e", self.id(number)))
        self.note(number)

    @precondition(lambda self: self.holders)
    @rule(at=NUMBERS, pick=st.integers(0, 5), state=st.sampled_from(list(ReplicaState)[1:]), late=st.booleans())
    def report(self, at: int, pick: int, state: ReplicaState, late: bool) -> None:
        self._report(self.holder(at), pick, state, gone=False, late=late)

    @precondition(lambda self: self.holders)
    @rule(at=NUMBERS)
    def come_up(self, at: int) -> None:
        self.fleet.run(self.holder(at))

    @precondition(lambda self: self.holders)
    @rule(at=NUMBERS, pick=st.integers(0, 5), everything=st.booleans())
    def vanish(self, at: int, pick: int, everything: bool) -> None:
        number = self.holder(at)
        for _ in range(len(self.fleet.workload(number).everyone()) if everything else 1):
            self._report(number, 0 if everything else pick, None, gone=True, late=False)

    def _report(self, number: int, pick: int, state: ReplicaState | None, *, gone: bool, late: bool) -> None:
        left = [r for r in self.fleet.workload(number).everyone() if not r.gone]
        if not left:
            return
        holder = left[pick % len(left)].holder
        status = events.Status(
            holder.role,
            holder.rank,
            holder.k,
            "",
            state,
            gone,
            {ReplicaState.SUCCEEDED: 0, ReplicaState.FAILED: 1}.get(state) if state else None,
            FailureClass.EXIT if state is ReplicaState.FAILED else FailureClass.NONE,
        )
        cluster = self.fleet.workload(number).cluster
        order = self.fleet.order(cluster)
        if late:
            order = order._replace(sequence=1)
        report = events.ReplicaReported(cluster, order, holder.workload, holder.generation, holder.attempt, status)
        self.fleet.send(report, report)

    @precondition(lambda self: self.holders)
    @rule(at=NUMBERS, forever=st.booleans(), scope=st.sampled_from(["node", "cluster", "workload"]), one=st.booleans())
    def refuse(self, at: int, forever: bool, scope: str, one: bool) -> None:
        w = self.fleet.workload(self.holder(at))
        if w.replicas:
            replica = min(w.replicas.values(), key=lambda r: r.holder)
            order = self.fleet.order(w.cluster)
            node_name = replica.node[1] if scope == "node" else ""
            run = (w.cluster, order, w.id, w.revision, w.attempt, "AdmissionDenied", "m", node_name)
            meant = (replica.holder.role, replica.holder.rank, replica.holder.k) if one else ()
            self.fleet.send(events.AssignmentRefused(*run, 0 if forever else 30, scope == "workload", *meant))

    @rule(seconds=st.sampled_from([1, 5, 31, 400]))
    def pass_time(self, seconds: int) -> None:
        self.fleet.wait(seconds)

    @rule(seconds=st.sampled_from([20, 60]))
    def fall_silent(self, seconds: int) -> None:
        self.fleet.now += seconds * 1_000_000
        self.fleet.send()

    @rule(cluster=st.sampled_from(["c1", "c2"]))
    def snapshot(self, cluster: str) -> None:
        held = []
        for number in sorted(set(self.known)):
            w = self.fleet.workload(number)
            if w.cluster == cluster and w.everyone():
                held.append(events.Held(w.id, w.generation, w.attempt, 1, ()))
        self.fleet.send(events.AssignmentsHeld(cluster, self.fleet.order(cluster), tuple(held), 1))

    @rule(number=NUMBERS, before=st.sampled_from([0, 15, 500]))
    def idle(self, number: int, before: int) -> None:
        since = max(0, self.fleet.now - before * SECOND) if before else 0
        self.fleet.send(events.IdleReported(self.id(number), since))

    @rule()
    def rebuild(self) -> None:
        self.fleet.rebuild()

    @rule()
    def follow(self) -> None:
        self.fleet.follow()

    @rule(lead=st.sampled_from([False, False, True]))
    def stand_by(self, lead: bool) -> None:
        self.fleet.stand_by(lead=lead)

    @rule()
    def retire(self) -> None:
        before = set(self.fleet.world.workloads)
        self.fleet.retire()
        gone = before - set(self.fleet.world.workloads)
        self.known = [number for number in self.known if self.id(number) not in gone]

    @rule()
    def leave(self) -> None:
        """Nothing arrives, whoever is told to leave leaves: evictions come to an end, by the number that proves it."""
        bound = may_still_evict(self.fleet.world)
        leaving: list[int] = []
        for _ in range(1 + (bound + 1) * len(set(self.known))):
            leaving = [number for number in sorted(set(self.known)) if self._leaves(number)]
            if not leaving:
                return
            before, seen = may_still_evict(self.fleet.world), len(self.fleet.decisions)
            self.fleet.gone(leaving[0])
            evicted = [one for one in self.fleet.decisions[seen:] if isinstance(one, d.Preempted)]
            assert not evicted or may_still_evict(self.fleet.world) < before
        raise AssertionError(f"evictions go on: {bound} workloads that might evict, and still {leaving} leave")

    def _leaves(self, number: int) -> bool:
        w = self.fleet.workload(number)
        return w.phase is Phase.TERMINATING and any(not replica.gone for replica in w.everyone())

    @property
    def holders(self) -> list[int]:
        """The numbers of those of which something may still run."""
        known = sorted(set(self.known)) if hasattr(self, "fleet") else []
        return [number for number in known if self.fleet.workload(number).remaining]

    def holder(self, at: int) -> int:
        """One of them."""
        return self.holders[at % len(self.holders)]

    def id(self, number: int) -> str:
        return workload_id(number)

    def note(self, number: int) -> None:
        self.known.append(number)
        w = self.fleet.workload(number)
        note(f"{number}: {w.phase} on {[astuple(r.holder)[2:] for r in w.everyone()]}")

    @invariant()
    def nothing_is_over_given(self) -> None:
        if hasattr(self, "fleet"):
            SchedulerMachine.steps += 1
            laws.nothing_over_given(self.fleet.world)
            laws.elastic_gangs_are_whole(self.fleet.world)

    @invariant()
    def nobody_waits_beside_room(self) -> None:
        """By brute force; and a class that is blocked for want of room would fail again if the cycle tried it."""
        if hasattr(self, "fleet") and not self.fleet.seen():
            laws.nobody_waits_beside_room(self.fleet.world)
            moved = [one for one in self.fleet.tried_again() if isinstance(one, d.Placed | d.Preempted)]
            assert not moved, f"a blocked class could have been placed: {moved}"
            started = self.fleet.tried_without_surplus()
            assert not started, f"it waits for what gangs can do without: {started}"

    @invariant()
    def active_have_their_record(self) -> None:
        if not hasattr(self, "fleet"):
            return
        for number in set(self.known):
            w = self.fleet.workload(number)
            records = self.fleet.records(number)
            if w.phase in ACTIVE:
                assert isinstance(records[-1], d.Assign), f"{w.phase} without a record"
            elif records and w.phase is not Phase.UNKNOWN:
                assert isinstance(records[-1], d.Release), f"{w.phase} with a record"


def run_machine(wanted: int) -> None:
    """At least so many checked steps; some examples end early, so that their number says little."""
    drawn = seeds.seed()
    print(f"the state machine's stories are drawn with {seeds.NAME}={drawn}")  # shown where it fails
    SchedulerMachine.steps, SchedulerMachine.twin = 0, Twin()
    try:
        while SchedulerMachine.steps < wanted:
            before = SchedulerMachine.steps
            many = settings(
                max_examples=max(1, (wanted - before) // STEPS_EACH),
                stateful_step_count=STEPS_EACH,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            run_state_machine_as_test(seed(drawn + SchedulerMachine.steps)(SchedulerMachine), settings=many)
            assert SchedulerMachine.steps > before, "no step was run"
    finally:
        SchedulerMachine.twin.close()


def test_its_laws_hold_after_every_step() -> None:
    """MUSTER_MACHINE_STEPS: checked steps, 8,000 by default. MUSTER_SEED: which stories; "random" draws new ones."""
    run_machine(STEPS)
