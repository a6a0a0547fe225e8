"""What a node would have free if those left whom a waiting class may ask to: who could not use it is not worth a try.

Called by waking.py for nodes on which something changed; a search for room costs milliseconds, this a microsecond.
Holds: an upper bound. Who leaves anyway counts as gone, and so does the surplus of elastic gangs; preemptible work of
queues that hold more than their share where the class stays within its own; lower work of the class's own project. What
is promised to a claim stays. Labels, taints and how devices are cut are not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from muster_scheduler.domain.asked.requests import Grant, Holder, Kind, Shape
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.classes import ClassKey
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.fleet.nodes import Device, Mode, Node

_NOTHING_ELSE = frozenset({Mode.UNHEALTHY, Mode.FOREIGN})


class Offer(NamedTuple):
    """cpu: milli-CPU. memory: bytes. replicas: how many more it would take. whole: devices that nobody would hold.

    parts: those with something free.
    """

    cpu: int
    memory: int
    replicas: int
    whole: int
    parts: int

    def holds(self, shape: Shape) -> bool:
        """Whether a replica might find its place; False is certain."""
        if self.cpu < shape.cpu or self.memory < shape.memory or self.replicas < 1:
            return False
        if shape.kind is Kind.NONE:
            return True
        return shape.devices <= (self.whole if shape.kind is Kind.WHOLE else self.parts)


class Whom(NamedTuple):
    """Whom a class may ask. others: those beyond their share. project: its own, of which lower work goes too."""

    others: bool
    project: str
    priority: int
    preemptible: bool


def whom_of(key: ClassKey, *, reclaims: bool) -> Whom:
    """Whom a class may ask; one that was evicted asks nobody in order to come back."""
    if key.returning:
        return Whom(others=False, project="", priority=0, preemptible=True)
    return Whom(reclaims, key.project, key.priority, key.preemptible)


class _Stay(NamedTuple):
    """Somebody on the node. gone: leaves in any case. asked: may be asked to leave by those who may ask it."""

    holder: Holder
    grant: Grant
    workload: Workload
    gone: bool
    asked: bool


class Offers:
    """One node as classes see it; answers are remembered."""

    def __init__(self, world: World, node: Node, givers: frozenset[str], leaving: frozenset[str]) -> None:
        """givers: projects that hold more than their share. leaving: workloads that leave, promised to nobody."""
        self._node, self._givers = node, givers
        stays = (_stay(world, holder, grant, leaving) for holder, grant in node.entries.items())
        self._stays = [stay for stay in stays if stay.gone or stay.asked]
        self.own = {stay.workload.project for stay in self._stays if stay.asked}
        self._known: dict[Whom, Offer] = {}

    def to(self, whom: Whom) -> Offer:
        """What the node would have for this class; nothing where it takes nobody."""
        if not self._node.open:
            return Offer(-1, -1, 0, 0, 0)
        if whom.project not in self.own:
            whom = whom._replace(project="", priority=0, preemptible=True)
        known = self._known.get(whom)
        if known is None:
            known = self._known[whom] = self._without([stay for stay in self._stays if self._goes(stay, whom)])
        return known

    def _goes(self, stay: _Stay, whom: Whom) -> bool:
        workload = stay.workload
        if stay.gone or (whom.others and workload.project in self._givers):
            return True
        lower = workload.request is not None and workload.request.priority < whom.priority
        return workload.project == whom.project and (lower or not whom.preemptible)

    def _without(self, gone: list[_Stay]) -> Offer:
        node, away = self._node, {stay.holder for stay in gone}
        cpu = node.free_cpu + sum(stay.grant.cpu for stay in gone)
        memory = node.free_memory + sum(stay.grant.memory for stay in gone)
        replicas = node.free_replicas + len(gone)
        if node.slots:
            slots = node.slots - node.foreign_slots - node.used_slots + sum(stay.grant.slots for stay in gone)
            return Offer(cpu, memory, replicas, slots, slots)
        usable = [device for device in node.devices if device.mode not in _NOTHING_ELSE]
        whole = sum(1 for device in usable if device.entries.keys() <= away)
        return Offer(cpu, memory, replicas, whole, sum(1 for device in usable if _has_part(device, away)))


def _has_part(device: Device, away: set[Holder]) -> bool:
    return device.mode is not Mode.WHOLE or not away.isdisjoint(device.entries)


def _stay(world: World, holder: Holder, grant: Grant, leaving: frozenset[str]) -> _Stay:
    workload = world.workloads[holder.workload]
    replica = workload.find(holder)
    if replica is None:  # promised to a coming run
        return _Stay(holder, grant, workload, gone=False, asked=False)
    active, request = workload.active, workload.request
    gone = (workload.id in leaving and (replica.leaving or not active)) or (
        active and workload.beyond(holder.role, holder.rank)
    )
    settled = workload.placed + world.limits.minimum_run <= world.now
    asked = active and settled and request is not None and request.preemptible
    return _Stay(holder, grant, workload, gone=gone, asked=asked)
