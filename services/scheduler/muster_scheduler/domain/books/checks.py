"""What must hold over the whole state between transactions. Tests and simulation run it after every step."""

from __future__ import annotations

from collections.abc import Iterator

from muster_kernel.lifecycle import ACTIVE, FINAL, WAITING, Phase
from muster_scheduler.domain.asked.quotas import Amount
from muster_scheduler.domain.asked.requests import Holder
from muster_scheduler.domain.asked.workloads import Trials, Workload
from muster_scheduler.domain.books.accounts import Owner
from muster_scheduler.domain.books.claims import promised_holder
from muster_scheduler.domain.books.pools import pool_of
from muster_scheduler.domain.books.world import World, amount_of, owner_of


def check(world: World) -> None:
    """Raises AssertionError naming the first thing that does not hold."""
    promised = frozenset(
        promised_holder(world.workloads[w], claim, p)
        for w in world.claims
        if (claim := world.workloads[w].claim)
        for p in claim.planned
    )
    world.inventory.check(promised)
    labels = {cluster: world.pools.labels(cluster) for cluster in world.clusters}
    for node in world.inventory.nodes.values():
        _require(node.pool == pool_of(node, labels[node.cluster]), f"{node.key} is in node pool {node.pool}")
    for workload in world.workloads.values():
        _check_workload(world, workload)
    _check_derived(world)
    _check_holders(world, promised)
    _check_accounts(world)


def _check_workload(world: World, workload: Workload) -> None:
    where = f"workload {workload.id} ({workload.phase})"
    if workload.phase in ACTIVE and workload.request is not None and not workload.independent:
        roles = {(role.name, index) for role in workload.request.roles for index in range(role.size)}
        gang = {key for key in workload.replicas if not workload.beyond(*key)}
        _require(gang == roles, f"{where} has {sorted(workload.replicas)}, should {sorted(roles)}")
        _require(len(workload.surplus()) <= workload.surplus_wanted, f"{where} has {sorted(workload.replicas)}")
    if workload.request is not None and workload.request.trials is not None:
        _check_trials(workload, workload.request.trials)
    if workload.phase in WAITING or workload.phase in {Phase.STOPPED, Phase.CREATING, Phase.DELETED}:
        _require(not workload.everyone(), f"{where} still holds {workload.everyone()}")
    if workload.phase in FINAL or workload.phase in ACTIVE:
        _require(workload.id not in world.waiting, f"{where} stands in the queue")
    if workload.claim is not None:
        _require(workload.phase in WAITING or workload.phase is Phase.TERMINATING, f"{where} has a claim")
        _require(workload.id in world.claims, f"{where} has a claim that is not listed")
        starts = workload.id in world.ready or bool(workload.claim.waits_for)
        _require(starts, f"{where} has a claim that waits for nobody, and nobody starts it")
    if workload.phase in WAITING and workload.claim is None and workload.not_before <= world.now:
        _require(workload.id in world.waiting, f"{where} waits and does not stand in the queue")


def _check_derived(world: World) -> None:
    """Whoever reads the state back knows nobody whom this one does not look at: both would decide otherwise."""
    listed, over = world.timers.listed(), {name for _, name in world.over.listed()}
    first: dict[str, int] = {}
    for at, name in listed:
        first[name] = min(at, first.get(name, at))
    for workload in world.workloads.values():
        where = f"workload {workload.id} ({workload.phase})"
        forgotten = {(at, workload.id) for at in world.times_of(workload) if at > world.now} - listed
        due = world.due(workload) if forgotten else None
        if due is not None and first.get(workload.id, due.at) < due.at:
            # It was due earlier, on a node that it has left since: the look at that time sets the next timer.
            forgotten.discard((due.at, workload.id))
        _require(not forgotten, f"{where} is not looked at again at {sorted(forgotten)}")
        if workload.phase in FINAL:
            _require(workload.id in over, f"{where} never leaves the memory")
        if world.leaving(workload) and workload.remaining:
            here = world.departing.of((workload.cluster, workload.pool))
            _require(workload.id in here, f"{where} is not known to leave there")
        for leaver in workload.claim.waits_for if workload.claim else ():
            _require(workload.id in world.departing.claimants(leaver), f"{where} is not known to wait for {leaver}")
        if workload.replicas and workload.surplus_wanted:
            _require(workload.id in world.elastic, f"{where} is not known to be elastic")
        if workload.below_since:
            _require(workload.id in world.short, f"{where} is not known to lack replicas")
        known = world.placed.get((workload.cluster, workload.pool, workload.project), {})
        there = bool(workload.everyone()) or workload.phase in ACTIVE or workload.phase is Phase.UNKNOWN
        _require((workload.id in known) is there, f"{where} is placed, or is not, otherwise than is known")


def _check_trials(workload: Workload, trials: Trials) -> None:
    running = {rank for _, rank in workload.replicas}
    _require(running <= set(workload.open_trials), f"{workload.id} runs {running}, of {workload.open_trials}")
    _require(len(workload.open_trials) <= trials.at_once, f"{workload.id} has too many at once: {workload.open_trials}")
    _require(workload.next_trial <= trials.completions, f"{workload.id} began trial {workload.next_trial - 1}")


def _check_holders(world: World, promised: frozenset[Holder]) -> None:
    booked = {holder for node in world.inventory.nodes.values() for holder in node.entries}
    holding = {r.holder for w in world.workloads.values() for r in w.everyone() if r.charged}
    _require(booked == holding | promised, f"inventory and workloads disagree: {booked ^ (holding | promised)}")


def _check_accounts(world: World) -> None:
    world.queues.check(_charged(world))


def _charged(world: World) -> Iterator[tuple[Owner, str, Amount]]:
    for workload in world.workloads.values():
        owner = owner_of(workload)
        for replica in workload.everyone():
            if replica.accounted:
                surplus = workload.beyond(replica.holder.role, replica.holder.rank)
                yield owner_of(workload, surplus=surplus), workload.pool, amount_of((replica.grant,))
        if workload.claim is not None:
            yield owner, workload.claim.pool, amount_of(planned.grant for planned in workload.claim.planned)


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - a condition and what it means
    if not holds:
        raise AssertionError(message)
