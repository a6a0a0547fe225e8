"""Thousands of random events over several topics: whatever the interleaving and however often each comes, one end.

Each topic keeps its own order, as Kafka does; between topics anything may happen. The fleet has room for all, so that
the end does not depend on who came first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import FailureClass
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND, Replica, ReplicaState, Workload
from muster_scheduler.domain.state import State
from tests.support.fleets import START, Fleet, host, node, portion, request, role, whole, workload_id


def admissions(chance: random.Random, number: int) -> list[events.Event]:
    """The admissions topic: each workload once, some refused."""
    fleet = Fleet(node("n"))
    made: list[events.Event] = []
    for n in range(1, number + 1):
        if chance.random() < 0.1:
            made.append(events.Rejected(workload_id(n), 1, "p", f"w{n}", START, "no"))
        else:
            shape = chance.choice([whole(1), whole(2), portion(250), host()])
            made.append(fleet.admitted(n, request(role(shape, chance.randint(1, 3)))))
    return made


def intents(chance: random.Random, number: int) -> list[events.Event]:
    """The submissions topic: wishes, each workload's last one is what counts."""
    kinds: list[Callable[[str, str], events.Event]] = [
        events.SuspendRequested,
        events.ResumeRequested,
        events.DeletionRequested,
    ]
    made: list[events.Event] = []
    for count in range(number):
        kind = chance.choice(kinds if chance.random() < 0.3 else kinds[:2])
        made.append(kind(f"e{count}", workload_id(chance.randint(1, number))))
    return made


@dataclass
class Agent:
    """Runs what the books say should run and stops the rest, some steps behind; says things twice."""

    fleet: Fleet
    chance: random.Random

    def step(self) -> None:
        """One report about something."""
        busy = [w for w in self.fleet.world.workloads.values() if w.remaining]
        if not busy:
            return
        w = self.chance.choice(sorted(busy, key=lambda each: each.id))
        self.tell(w, self.chance.choice([r for r in w.everyone() if not r.gone]))

    def settle(self) -> None:
        """Says everything that there is to say, until nothing is left to be said."""
        while todo := [
            (w, r)
            for w in self.fleet.world.workloads.values()
            for r in w.everyone()
            if not r.gone and (not w.active or r.state is not ReplicaState.READY)
        ]:
            self.tell(*todo[0])

    def tell(self, w: Workload, replica: Replica) -> None:
        """One report about one replica, or the same twice."""
        h = replica.holder
        if w.active:
            status = events.Status(h.role, h.rank, h.k, replica.node[1], ReplicaState.READY, gone=False)
        else:
            status = events.Status(h.role, h.rank, h.k, replica.node[1], None, gone=True, failure=FailureClass.OURS)
        report = events.ReplicaReported(w.cluster, self.fleet.order(), h.workload, h.generation, h.attempt, status)
        self.fleet.send(*[report] * self.chance.randint(1, 2))


def run(seed: int, order: int, number: int = 300) -> dict[str, tuple[Phase, DesiredPhase | None]]:
    """One interleaving (`order`) of the same topics (`seed`), until nothing moves any more."""
    chance = random.Random(seed)
    topics = [admissions(chance, number), intents(chance, number)]
    dice = random.Random(order)
    fleet = Fleet(*(node(f"n{n:03}", 16, cpu=10**9, memory=1 << 60) for n in range(120)), quota=10**6)
    fleet.checked = 0.02
    agent = Agent(fleet, dice)
    while any(topics):
        topic = dice.choice([each for each in topics if each])
        size = dice.randint(1, 5)
        batch, topic[:] = topic[:size], topic[size:]
        fleet.send(*(event for event in batch for _ in range(dice.randint(1, 2))))
        if dice.random() < 0.5:
            agent.step()
    agent.settle()
    fleet.wait(1)
    agent.settle()
    ended = {Phase.FAILED, Phase.COMPLETED}  # what was wished of them means nothing any more
    return {w.id: (w.phase, None if w.phase in ended else w.desired) for w in fleet.world.workloads.values()}


@pytest.mark.parametrize("seed", range(3))
def test_every_interleaving_ends_alike(seed: int) -> None:
    ends = [run(seed, order) for order in range(3)]
    assert ends[0] == ends[1] == ends[2]
    assert {phase for phase, _ in ends[0].values()} <= {
        Phase.RUNNING,
        Phase.STOPPED,
        Phase.DELETED,
        Phase.FAILED,
        Phase.CREATING,
    }


def test_a_state_is_what_its_events_made_it() -> None:
    """The same events in the same order make the same state, to the last bit."""
    digests = set()
    for _ in range(2):
        state = State()
        fleet = Fleet(node("n1"), node("n2"))
        fleet.state = state
        chance = random.Random(7)
        state.begin(START)
        for event in [*admissions(chance, 60), *intents(chance, 60)]:
            state.apply(event)
        state.propose()
        state.commit()
        digests.add(state.digest())
        assert state.world.now >= START
        assert SECOND == 1_000_000
    assert len(digests) == 1
