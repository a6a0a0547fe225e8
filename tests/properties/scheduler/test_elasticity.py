"""Laws of elastic gangs over random stories: nobody waits for a surplus, a gang is whole, and sizes come to rest."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_kernel.lifecycle import ACTIVE, Phase
from muster_scheduler.domain.asked.workloads import ReplicaState, Request, Stretch, Workload
from muster_scheduler.domain.books.course import gone
from muster_scheduler.domain.books.deriving import derive
from muster_scheduler.domain.decisions import Placed, Scaled
from muster_scheduler.domain.life.elastic import shed
from tests.support.fleets import Fleet, node, request, role, whole, workload_id

ROUNDS = 30  # of agents' answers after one event; a story that needs more does not come to rest


def asked(least: int, more: int, devices: int, *, preemptible: bool) -> Request:
    """A gang of `least` replicas, elastic where it may have more."""
    made = request(role(whole(devices), least), preemptible=preemptible)
    return made._replace(stretch=Stretch("worker", least, least + more)) if more else made


GANGS = st.builds(asked, st.integers(1, 4), st.integers(0, 4), st.integers(1, 2), preemptible=st.booleans())
STEPS = st.one_of(GANGS, st.integers(1, 8), st.none())
"""A gang arrives, the workload of that number ends, or half a minute passes."""


def workloads(fleet: Fleet) -> list[Workload]:
    return [fleet.world.workloads[each] for each in sorted(fleet.world.workloads)]


def settle(fleet: Fleet) -> None:
    """The agents do what they are told until there is nothing left to do."""
    for _ in range(ROUNDS):
        before = fleet.state.digest()
        for number in range(1, len(fleet.world.workloads) + 1):
            answer(fleet, number)
        if fleet.state.digest() == before:
            return
    raise AssertionError("sizes do not come to rest")


def answer(fleet: Fleet, number: int) -> None:
    workload = fleet.workload(number)
    going = workload.leaving if workload.active else {each.holder: each for each in workload.everyone()}
    left = [holder for holder, replica in sorted(going.items()) if not replica.gone]
    fleet.send(*(fleet.status(number, None, rank=h.rank, k=h.k, gone=True, attempt=h.attempt) for h in left))
    if workload.active and any(r.state is not ReplicaState.READY for r in workload.replicas.values()):
        fleet.run(number)


def take(fleet: Fleet, step: Request | int | None) -> None:
    """One step of the story, and what the agents make of it."""
    known = len(fleet.world.workloads)
    if step is None:
        fleet.wait(31)
    elif isinstance(step, Request):
        fleet.submit(known + 1, step)
    elif step <= known and fleet.workload(step).phase is Phase.RUNNING:
        fleet.finish(step)
    settle(fleet)


def waiting(fleet: Fleet) -> list[str]:
    return [w.id for w in workloads(fleet) if w.phase is Phase.PENDING and w.claim is None]


def placed_without_surplus(fleet: Fleet) -> set[str]:
    """Who of those that wait would start at once if no gang had more than it needs. Nothing changes."""
    before = fleet.state.digest()
    fleet.state.begin(fleet.now)
    for workload in workloads(fleet):
        if workload.active:
            shed(fleet.world, workload, len(workload.surplus()))
            for replica in list(workload.leaving.values()):
                gone(fleet.world, workload, replica)
    fleet.world.waiting.wake_all()
    fleet.state.propose()
    started = {d.workload for d in fleet.state.plan().decisions if isinstance(d, Placed)}
    fleet.state.abort()
    assert fleet.state.digest() == before
    return started


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(STEPS, min_size=1, max_size=14))
def test_nobody_waits_for_what_gangs_can_do_without(cards: list[int], story: list[Request | int | None]) -> None:
    fleet = Fleet(*(node(chr(ord("a") + at), number) for at, number in enumerate(cards)))
    for step in story:
        take(fleet, step)
        assert not placed_without_surplus(fleet) & set(waiting(fleet))
        for workload in workloads(fleet):
            held = {rank for _, rank in workload.replicas}
            least = workload.request.roles[0].size if workload.request else 0
            assert workload.phase not in ACTIVE or held >= set(range(least)), "whole or not there"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.lists(GANGS, min_size=1, max_size=6))
def test_with_nobody_waiting_they_take_what_there_is_and_then_rest(cards: list[int], gangs: list[Request]) -> None:
    fleet = Fleet(*(node(chr(ord("a") + at), number) for at, number in enumerate(cards)))
    for gang in gangs:
        take(fleet, gang)
    take(fleet, None)
    take(fleet, None)
    if not fleet.world.waiting.pressing.get("default"):
        free = [sum(not card.entries for card in each.devices) for each in fleet.world.inventory.nodes.values()]
        for workload in workloads(fleet):
            could = workload.surplus_wanted - len(workload.surplus()) if workload.phase is Phase.RUNNING else 0
            devices = workload.request.roles[0].shape.devices if workload.request else 0
            assert not could or all(idle < devices for idle in free), f"{workload.id} could have one more on {free}"
    before = len(fleet.decisions)
    take(fleet, None)
    take(fleet, None)
    assert not [d for d in fleet.decisions[before:] if isinstance(d, Scaled)]


def test_a_state_made_anew_decides_the_same() -> None:
    fleet = Fleet(node("a", 4))
    take(fleet, asked(1, 4, 1, preemptible=True))
    take(fleet, None)
    take(fleet, asked(2, 0, 1, preemptible=True))
    before = fleet.state.digest()
    derive(fleet.world)
    fleet.wait(0)
    assert fleet.state.digest() == before
    fleet.finish(2)
    derive(fleet.world)
    take(fleet, None)
    assert len(fleet.world.workloads[workload_id(1)].replicas) == 4


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_nobody_gives_anything_up_for_who_gets_no_room_by_it(rng: random.Random) -> None:
    fleet = Fleet(node("a", 8), quota=rng.randint(0, 12))
    for project in "qrs":
        fleet.project(project, {"default": rng.randint(0, 8)})
    least, owner = rng.randint(1, 2), rng.choice("pqrs")
    gang = request(role(whole(), least))._replace(stretch=Stretch("worker", least, rng.randint(3, 6)))
    fleet.submit(1, gang, project=owner)
    fleet.run(1)
    fleet.wait(31)
    for number in range(2, 8):
        fleet.submit(number, request(role(whole(rng.randint(1, 4)))), project=rng.choice("qrs"))
    fleet.project("p", {"default": rng.randint(2, 12)})
    before = len(fleet.workload(1).replicas)
    taker = fleet.submit(20, request(role(whole(rng.randint(2, 6)))), project="p")
    shrank = fleet.workload(1).active and len(fleet.workload(1).replicas) < before
    assert not shrank or taker.claim is not None or taker.active
