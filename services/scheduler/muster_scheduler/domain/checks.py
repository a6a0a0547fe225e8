"""What must hold over the whole state between transactions. Tests and simulation run it after every step."""

from __future__ import annotations

from muster_kernel.lifecycle import ACTIVE, FINAL, WAITING, Phase
from muster_kernel.quantities import GPU
from muster_scheduler.domain.course import claim_holder
from muster_scheduler.domain.requests import Holder
from muster_scheduler.domain.workloads import Workload
from muster_scheduler.domain.world import World


def check(world: World) -> None:
    """Raises AssertionError naming the first thing that does not hold."""
    promised = frozenset(
        claim_holder(world.workloads[w], p.role, p.rank)
        for w in world.claims
        if (claim := world.workloads[w].claim)
        for p in claim.planned
    )
    world.inventory.check(promised)
    for workload in world.workloads.values():
        _check_workload(world, workload)
    _check_holders(world, promised)
    _check_accounts(world)


def _check_workload(world: World, workload: Workload) -> None:
    where = f"workload {workload.id} ({workload.phase})"
    if workload.phase in ACTIVE and workload.request is not None and not workload.inference:
        roles = {(role.name, index) for role in workload.request.roles for index in range(role.size)}
        _require(set(workload.replicas) == roles, f"{where} has {sorted(workload.replicas)}, should {sorted(roles)}")
    if workload.phase in WAITING or workload.phase in {Phase.STOPPED, Phase.CREATING, Phase.DELETED}:
        _require(not workload.everyone(), f"{where} still holds {workload.everyone()}")
    if workload.phase in FINAL or workload.phase in ACTIVE:
        _require(workload.id not in world.waiting, f"{where} stands in the queue")
    if workload.claim is not None:
        _require(workload.phase in WAITING, f"{where} has a claim")
        _require(workload.id in world.claims, f"{where} has a claim that is not listed")
    if workload.phase in WAITING and workload.claim is None and workload.not_before <= world.now:
        _require(workload.id in world.waiting, f"{where} waits and does not stand in the queue")


def _check_holders(world: World, promised: frozenset[Holder]) -> None:
    booked = {holder for node in world.inventory.nodes.values() for holder in node.entries}
    holding = {r.holder for w in world.workloads.values() for r in w.everyone() if r.charged}
    _require(booked == holding | promised, f"inventory and workloads disagree: {booked ^ (holding | promised)}")


def _check_accounts(world: World) -> None:
    sums: dict[tuple[str, str], int] = {}
    for workload in world.workloads.values():
        for replica in workload.everyone():
            if replica.accounted:
                key = (workload.project, workload.pool)
                sums[key] = sums.get(key, 0) + replica.grant.charge
        if workload.claim is not None:
            key = (workload.project, workload.claim.pool)
            sums[key] = sums.get(key, 0) + sum(p.grant.charge for p in workload.claim.planned)
    accounts = {key: account.allocated for key, account in world.queues.accounts.items() if account.allocated}
    _require({k: v for k, v in sums.items() if v} == accounts, f"accounts say {accounts}, holdings {sums} (GPU={GPU})")


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - a condition and what it means
    if not holds:
        raise AssertionError(message)
