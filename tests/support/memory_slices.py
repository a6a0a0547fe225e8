"""Fleets whose node pool gives GPU memory as MIG slices, and what workloads that ask for it hold and are told."""

from __future__ import annotations

from muster_scheduler.domain import events
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.asked.requests import Share
from muster_scheduler.domain.asked.workloads import Request
from muster_scheduler.domain.books.pools import NodePool
from muster_scheduler.domain.fleet.clusters import Profile
from muster_scheduler.domain.fleet.nodes import Mig, Node
from tests.support.fleets import (
    GIB,
    Fleet,
    device_memory,
    devices,
    node,
    request,
    role,
)

CUT = NodePool(7, "c1", "default", 1, memory_as_slices=True)
CARVES = Profile(mig=Mig.DYNAMIC)


def small(name: str, number: int = 1) -> Node:
    """A node of A100-40GB cards in MIG mode."""
    return node(name, cards=devices(name, number, model="A100-40GB", memory=40 * GIB, mig=True))


def large(name: str, number: int = 1) -> Node:
    """The same of H100-80GB."""
    return node(name, cards=devices(name, number, model="H100-80GB", memory=80 * GIB, mig=True))


def fleet(*nodes: Node, said: NodePool = CUT, profile: Profile = CARVES, quota: int = 100) -> Fleet:
    """A fleet of these nodes in one cluster, whose pool is as `said`."""
    made = Fleet(*nodes, profile=profile, quota=quota)
    made.send(events.NodePoolChanged(said))
    return made


def asks(amount: int, size: int = 1, *, preemptible: bool = True) -> Request:
    """So many replicas with that much GPU memory each, in bytes."""
    return request(role(device_memory(amount), size), preemptible=preemptible)


def told(made: Fleet, number: int) -> str:
    """The sentence of why it waits; empty where it does not."""
    reason = explain(made.world, made.workload(number)).reason
    return reason.sentence() if reason else ""


def shares_of(made: Fleet, number: int) -> list[Share]:
    """What its replicas hold of cards."""
    return [share for each in made.workload(number).everyone() for share in each.grant.shares]
