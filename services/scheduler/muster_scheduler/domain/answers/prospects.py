"""What would become of workloads if they were admitted now: tried on the live state, told, and taken back.

Called when somebody asks, under the lock of readers. The workloads are admitted in a transaction of their own, cycles
run until nothing moves, and the transaction is aborted: what is told is what the scheduler does, not what somebody
thinks it would do. Holds: the digest afterwards is the one before; on a copy at the same version the same admissions
and cycles give the same placements, victims and reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from muster_kernel.lifecycle import WAITING
from muster_scheduler.domain.answers.explain import Explanation, explain
from muster_scheduler.domain.answers.viewing import EVERYONE, Viewer
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Preempted, Scaled
from muster_scheduler.domain.events import Admitted
from muster_scheduler.domain.placement.place import Budget
from muster_scheduler.domain.state import State

CYCLES: Final = 8


class Outlook(Enum):
    """What the scheduler would do with a workload."""

    STARTS = "starts"
    STARTS_AFTER = "starts after others have left"
    WAITS = "waits"


class Part(NamedTuple):
    """What a workload would have of one node; `charge` in 1/7,000 GPU."""

    node: str
    replicas: int
    charge: int


class Prospect(NamedTuple):
    """What would become of one workload. `workload`: as it would stand; `explanation`: where it would wait."""

    workload: Workload
    outlook: Outlook
    cluster: str
    pool: str
    parts: tuple[Part, ...]
    waits_for: tuple[str, ...]
    explanation: Explanation | None


class Displaced(NamedTuple):
    """Who would give a place up, of what charge in 1/7,000 GPU. `by`: for whom; `moves`: it has another one already.

    given_up: so many of its `replicas` alone, since it is an elastic gang and goes on with fewer; 0: all of it.
    """

    workload: str
    name: str
    project: str
    charge: int
    by: str
    moves: bool = False
    given_up: int = 0
    replicas: int = 0


class Prospects(NamedTuple):
    """The whole answer. `unfinished`: the work allowed was spent before everything was quiet."""

    prospects: tuple[Prospect, ...]
    displaced: tuple[Displaced, ...]
    unfinished: bool


def what_if(
    state: State, admitted: Sequence[Admitted], now: int, cycles: int = CYCLES, viewer: Viewer = EVERYONE
) -> Prospects:
    """The answer for workloads that the state does not know. `cycles`: how many may run before it is told.

    viewer: whom explanations name others to; who is displaced is told whole, for submission to hide.
    """
    state.begin(now)
    try:
        for event in admitted:
            state.apply(event)
        unfinished = not _until_quiet(state, cycles)
        leave = [_displaced(state.world, d) for d in state.world.decisions if isinstance(d, Preempted)]
        displaced = (*leave, *_shrunk(state.world, admitted, {each.workload for each in leave}))
        # Explanations try changes of their own under marks of the journal: they come last.
        prospects = tuple(_prospect(state.world, state.world.workloads[event.workload], viewer) for event in admitted)
        return Prospects(prospects, displaced, unfinished)
    finally:
        state.abort()


def _until_quiet(state: State, cycles: int) -> bool:
    """Runs cycles until one decides nothing. Whether that came about."""
    for _ in range(cycles):
        before = len(state.world.decisions)
        if not state.propose(Budget()) and len(state.world.decisions) == before:
            return True
    return False


def _displaced(world: World, decision: Preempted) -> Displaced:
    victim = world.workloads[decision.workload]
    charge = sum(replica.grant.charge for replica in victim.everyone())
    return Displaced(victim.id, victim.name, victim.project, charge, decision.by, victim.claim is not None)


def _shrunk(world: World, admitted: Sequence[Admitted], left: AbstractSet[str]) -> Iterator[Displaced]:
    """Elastic gangs that go on with fewer replicas; those of `left` have given all of their place up."""
    sizes: dict[str, tuple[int, int]] = {}
    for decision in world.decisions:
        if isinstance(decision, Scaled) and decision.workload not in left:
            before = sizes.get(decision.workload, (decision.before, 0))[0]
            sizes[decision.workload] = before, decision.after
    for gang, (before, after) in sizes.items():
        if after < before:
            workload = world.workloads[gang]
            going = sorted(workload.leaving.values(), key=lambda replica: -replica.holder.rank)[: before - after]
            charge = sum(replica.grant.charge for replica in going)
            by = next((each.workload for each in admitted if gang in _waits_for(world, each.workload)), "")
            yield Displaced(gang, workload.name, workload.project, charge, by, False, before - after, before)


def _waits_for(world: World, workload: str) -> tuple[str, ...]:
    claim = world.workloads[workload].claim
    return claim.waits_for if claim else ()


def _prospect(world: World, workload: Workload, viewer: Viewer) -> Prospect:
    claim = workload.claim
    if claim is not None:
        parts = _parts([(planned.node[1], planned.grant) for planned in claim.planned])
        told = replace(workload)
        return Prospect(told, Outlook.STARTS_AFTER, claim.cluster, claim.pool, parts, claim.waits_for, None)
    if workload.phase in WAITING:
        explained = explain(world, workload, viewer)
        return Prospect(replace(workload), Outlook.WAITS, "", explained.pool, (), (), explained)
    parts = _parts([(replica.node[1], replica.grant) for replica in workload.everyone()])
    return Prospect(replace(workload), Outlook.STARTS, workload.cluster, workload.pool, parts, (), None)


def _parts(held: Sequence[tuple[str, Grant]]) -> tuple[Part, ...]:
    """The nodes by name, each with what it gives."""
    found: dict[str, Part] = {}
    for node, grant in held:
        known = found.get(node, Part(node, 0, 0))
        found[node] = Part(node, known.replicas + 1, known.charge + grant.charge)
    return tuple(found[node] for node in sorted(found))
