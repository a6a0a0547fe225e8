"""What is compiled before the first decision: kernels that would otherwise hold a cycle for seconds.

Called by app.py in a thread, before a candidate follows or leads; cheap where an earlier process has kept the code.
A state machine of its own rehearses on next to nothing what the real one will do: single replicas of each kind, gangs,
room for a queue below its share. So kernels meet the very types that decisions give them.
Holds: it reads nothing and changes nothing but its own memory; without a compiler it is a few milliseconds of Python.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.quantities import GPU
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.requests import Kind, Role, Shape, charge_of
from muster_scheduler.domain.asked.workloads import Request, WorkloadKind
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Device, Mig, Node
from muster_scheduler.domain.placement import ahead
from muster_scheduler.domain.state import State

_CLUSTER: Final = "c"
_POOL: Final = "p"
_CARD: Final = "A100-40GB"
_BYTES: Final = 40 << 30
_START: Final = 1_000_000  # microseconds; any time will do
_ALONE: Final = (
    Shape(1),
    Shape(1, 1, Kind.WHOLE, 1),
    Shape(1, 1, Kind.PORTION, 1, milli=500),
    Shape(1, 1, Kind.MEMORY, 1, bytes=1 << 30),
    Shape(1, 1, Kind.SLICE, 1, profile="1g.5gb"),
)
_WHOLE: Final = Shape(1, 1, Kind.WHOLE, 1)


def warm_up() -> None:
    """Calls each kernel once on next to nothing, with the very types that decisions give it."""
    ahead.warm_up()
    rehearse()
    rehearse_sets()


def rehearse() -> State:
    """A fleet of two nodes on which one queue takes everything and another one takes its share back."""
    state = State()
    _transact(state, events.ClusterRegistered(_CLUSTER), *(_project(name) for name in ("greedy", "late")))
    order = events.Order("agent", 1, 1, _START)
    profile = Profile(mig=Mig.DYNAMIC)
    nodes = (_node("cards"), _node("slices", mig=True))
    _transact(state, events.InventoryReported(_CLUSTER, order, True, 1, profile, nodes, ()))
    _transact(state, *(_admitted(number, "greedy", Shape(1), 1) for number in range(10, 20)))  # enough for a batch
    _transact(state, _admitted(20, "greedy", Shape(1), 2))  # not by a batch: rows are to be written anew
    for number, shape in enumerate(_ALONE):
        _transact(state, _admitted(number, "greedy", shape, 1))
    for number in range(len(_ALONE), len(_ALONE) + 4):
        _transact(state, _admitted(number, "greedy", _WHOLE, 1))
    _transact(state, _admitted(100, "late", _WHOLE, 2))
    return state


def rehearse_sets() -> State:
    """A queue takes back half of a node from one that holds whole nodes: only the search of all sets finds room."""
    state = State()
    _transact(state, events.ClusterRegistered(_CLUSTER), *(_project(name) for name in ("greedy", "late")))
    nodes = (_node("a"), _node("b"))
    order = events.Order("agent", 1, 1, _START)
    _transact(state, events.InventoryReported(_CLUSTER, order, True, 1, Profile(mig=Mig.DYNAMIC), nodes, ()))
    node = Shape(1, 1, Kind.WHOLE, 4)
    _transact(state, *(_admitted(number, "greedy", node, 1) for number in range(2)))
    _transact(state, _admitted(100, "late", _WHOLE, 2))
    return state


def _transact(state: State, *incoming: events.Event) -> None:
    state.begin(_START)
    for event in incoming:
        state.apply(event)
    state.propose()
    state.plan()
    state.commit()


def _project(name: str) -> events.ProjectChanged:
    return events.ProjectChanged(Project(name, "", {_POOL: Quota(2 * GPU)}, 0))


def _node(name: str, *, mig: bool = False) -> Node:
    cards = [Device(f"{name}-{slot}", _CARD, _BYTES, slot, mig=mig) for slot in range(4)]
    for card in cards:
        card.tally()
    return Node(_CLUSTER, name, _POOL, cpu=1_000, memory=1 << 40, devices=cards)


def _admitted(number: int, project: str, shape: Shape, size: int) -> events.Admitted:
    roles = (Role("worker", size, shape, charge_of(shape, _BYTES)),)
    kind = WorkloadKind.TRAINING
    asked = Request(1, roles, (_POOL,), (), frozenset(), kind, False, 50, True, 0, False, None, 0, b"")
    return events.Admitted(f"w{number:03}", project, "", "", f"w{number}", "", number, True, asked)
