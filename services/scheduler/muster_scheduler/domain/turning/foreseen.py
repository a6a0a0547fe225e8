"""When and where a blocked head will fit: who leaves by when is known of some, of the others nobody knows.

Called by reservation.py for one (cluster, pool). Those who leave are lifted from scratch columns, first those of whom
it is known when (run-time limits, nodes that have to be empty), in that order, then those on the nodes that have most
free already; the shortest beginning of that line after which the head fits says where it will go.
Holds: nothing in the books is touched; what is found fits once those have left; the same state gives the same answer;
at most `_MOST` workloads are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from muster_scheduler.domain.asked.requests import Kind
from muster_scheduler.domain.asked.rules import NO_RULES
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.eligible import rules_of
from muster_scheduler.domain.books.models import asked_of
from muster_scheduler.domain.fleet.clocks import certain_end
from muster_scheduler.domain.fleet.eligibility import Eligibility
from muster_scheduler.domain.gangs.place import place_gang
from muster_scheduler.domain.gangs.verdicts import Placement, Refusal
from muster_scheduler.domain.placement.place import Budget, amount_before
from muster_scheduler.domain.room.listing import held_of
from muster_scheduler.domain.room.sites import Site
from muster_scheduler.domain.room.stock import lift, stock_of
from muster_scheduler.domain.room.values import Ints

_MOST: Final = 4_096
_FEWEST_NODES: Final = 16
_NODES_A_REPLICA: Final = 4
_NOBODY: Final = -1
_UNKNOWN: Final[Mapping[str, int]] = {}


class Foreseen(NamedTuple):
    """The nodes on which the head will fit, by name, and by when (microseconds since 1970; 0: nobody knows)."""

    nodes: tuple[str, ...]
    until: int


class _Step(NamedTuple):
    """Somebody leaves, or a node opens (row -1). at: when, 0: nobody knows."""

    at: int
    row: int


def foresee(head: Workload, site: Site, budget: Budget, usual: Mapping[str, int] = _UNKNOWN) -> Foreseen | None:
    """Where the head will fit by when; None: not even if everybody left who is looked at.

    usual: when workloads will probably have ended, by id, for an estimate that rests on it.
    """
    if head.request is None:
        return None
    world = site.world
    asked = asked_of(world, head, amount_before(world, head.request, site.pool).gpu)
    line, steps = _line(site, asked, usual)
    budget.evictions -= len(line)
    view = _View(site, asked, line, steps)
    if view.place(len(steps)) is None:
        return None
    fewest, most = 0, len(steps)
    while fewest < most:
        tried = (fewest + most) // 2
        if view.place(tried) is None:
            fewest = tried + 1
        else:
            most = tried
    placements = view.place(fewest)
    if placements is None:  # windows may close between two times at which it fits
        return None
    nodes = {site.capacity.nodes[run.node].name for each in placements for run in each.runs}
    return Foreseen(tuple(sorted(nodes)), steps[fewest - 1].at if fewest else 0)


class _View:
    """The pool as it will be after so many steps."""

    def __init__(self, site: Site, asked: Eligibility, line: list[Workload], steps: list[_Step]) -> None:
        self._site, self._asked, self._steps = site, asked, steps
        self._rows: Ints = np.array([step.row for step in steps], np.int64)
        self._columns = site.columns.scratch()
        self._stock = stock_of(self._columns)
        self._held = held_of(site.world, site.capacity, line)
        self._done = 0

    def place(self, steps: int) -> tuple[Placement, ...] | None:
        """Where the head would go then; None where it does not fit."""
        low, high = sorted((self._done, steps))
        rows = self._rows[low:high]
        lift(self._stock, self._held, rows[rows != _NOBODY], 1 if steps > self._done else -1)
        self._done = steps
        site = self._site
        mask = site.capacity.usable.mask(self._asked, self._time(steps))
        found = place_gang(self._columns, site.topology, site.roles, site.wish, mask)
        return None if isinstance(found, Refusal) else found

    def _time(self, steps: int) -> int:
        known = (step.at for step in self._steps[:steps] if step.at)
        return max(known, default=self._site.world.now)


def _line(site: Site, asked: Eligibility, usual: Mapping[str, int]) -> tuple[list[Workload], list[_Step]]:
    """Who leaves, and the steps of it: those whose time is known by that, the others by how near their nodes are."""
    world = site.world
    near = {site.capacity.nodes[n].key: rank for rank, n in enumerate(_nearest(site, asked))}
    ends = {**usual, **{name: min(end, usual.get(name, end)) for name, end in _known_ends(site)}}
    known = sorted(ends, key=lambda name: (ends[name], name))[:_MOST]
    others = sorted((_rank(world.workloads[name], near), name) for name in _holders(site, near) if name not in ends)
    names = [*known, *(name for _, name in others[: _MOST - len(known)])]
    steps = [_Step(ends.get(name, 0), row) for row, name in enumerate(names)]
    opening = (end for node in site.capacity.nodes for _, end in node.windows if end > world.now)
    timed = [*steps[: len(known)], *(_Step(end, _NOBODY) for end in set(opening))]
    return [world.workloads[name] for name in names], [*sorted(timed), *steps[len(known) :]]


def _known_ends(site: Site) -> Iterator[tuple[str, int]]:
    """By when, a grace for ending included, workloads of the pool will have left by a clock; in no order."""
    world, grace = site.world, site.world.limits.grace
    leaving = {each.id for each in site.leaving}
    closing = {holder.workload for node in site.capacity.nodes if node.closes for holder in node.entries}
    for (cluster, pool, _), members in world.placed.items():
        if pool != site.pool or cluster != site.cluster:
            continue
        some = next(iter(members), "")
        ruled = bool(some) and rules_of(world.queues, world.workloads[some]) != NO_RULES
        for name in members if ruled else closing & members.keys():
            workload = world.workloads[name]
            end = certain_end(workload, rules_of(world.queues, workload), world.inventory.nodes, grace)
            end = None if end is None else end + grace * SECOND
            if end is not None and end > world.now and workload.active and name not in leaving:
                yield name, end


def _holders(site: Site, near: dict[tuple[str, str], int]) -> list[str]:
    """Who runs on these nodes and does not leave anyway."""
    world = site.world
    leaving = {each.id for each in site.leaving}
    found = {holder.workload for key in near for holder in world.inventory.nodes[key].entries} - leaving
    return sorted(name for name in found if name in world.workloads and not world.workloads[name].claim)


def _rank(workload: Workload, near: dict[tuple[str, str], int]) -> int:
    """The place in line of the furthest node that has to be left: all of a gang goes at once."""
    return max((near.get(each.node, len(near)) for each in workload.everyone() if each.charged), default=0)


def _nearest(site: Site, asked: Eligibility) -> list[int]:
    """The nodes that have most of what the head lacks free, the first by name of equal ones."""
    columns, nodes = site.columns, site.capacity.nodes
    mask = site.capacity.usable.mask(asked, site.world.now)
    mask |= np.array([node.closes for node in nodes], np.bool_)
    devices = np.maximum(columns.milli, 0).sum(axis=1) + 1000 * columns.idle.astype(np.int64)
    host_only = all(role.shape.kind is Kind.NONE for role in site.roles)
    free = np.where(mask, np.maximum(columns.cpu if host_only else devices, 0), -1)
    best = np.argsort(-free, kind="stable")
    few = max(_FEWEST_NODES, _NODES_A_REPLICA * sum(role.size for role in site.roles))
    wanted = best[:few] if site.wish.anywhere else best
    return [n for n in wanted.tolist() if free[n] >= 0]
