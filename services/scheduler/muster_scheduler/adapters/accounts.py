"""Accounts of projects for users: sums over what nodes hold and over the classes of waiting workloads.

rpc.py calls it for each query. A query costs one step per replica that holds something and one per waiting class, never
one per workload. Holds: a waiting workload counts as requested in the pool that it tries first, and nothing is counted
in two pools. A workload that could never run there counts as pending, but not as requested.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from muster.fleet.v1 import fleet_pb2
from muster_kernel.reasons import IN_VAIN
from muster_scheduler.domain.answers.overpromised import Promises
from muster_scheduler.domain.answers.shares import QueueShare, all_shares
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.books.buckets import Bucket
from muster_scheduler.domain.books.world import World

_DEFAULT_POOL = "default"


@dataclass(slots=True)
class _Sum:
    gpu: int = 0
    cpu: int = 0
    memory: int = 0

    def add(self, gpu: int, cpu: int, memory: int) -> None:
        self.gpu += gpu
        self.cpu += cpu
        self.memory += memory

    def message(self) -> fleet_pb2.Amount:
        return fleet_pb2.Amount(gpu=self.gpu, cpu_milli=self.cpu, memory_bytes=self.memory)


@dataclass(slots=True)
class _Account:
    held: _Sum = field(default_factory=_Sum)
    kept: _Sum = field(default_factory=_Sum)
    asked: _Sum = field(default_factory=_Sum)
    pending: int = 0


def accounts(
    world: World, projects: Container[str] | None, viewer: Viewer, *, shares: bool = False
) -> list[fleet_pb2.Account]:
    """Return the accounts of these projects (None: of all), by project and node pool. shares: add the fair shares."""
    found: dict[tuple[str, str], _Account] = {}
    _held(world, projects, found)
    for bucket in world.waiting.buckets.values():
        if bucket.count and (projects is None or bucket.key.project in projects):
            _asked(bucket, found)
    told = [_message(project, pool, found[project, pool]) for project, pool in sorted(found)]
    if shares:
        _add_shares(world, told, viewer)
    return told


def _add_shares(world: World, told: Iterable[fleet_pb2.Account], viewer: Viewer) -> None:
    by_pool: dict[str, tuple[dict[str, QueueShare], Promises]] = {}
    for account in told:
        pool = account.node_pool
        if pool not in by_pool:
            by_pool[pool] = all_shares(world, pool), Promises(world, pool)
        shares, promises = by_pool[pool]
        share = shares.get(account.project)
        account.warnings.extend(promises.of(account.project, viewer))
        if share is not None:
            account.gpu_fair, account.gpu_deserved = share.fair, share.deserved


def _held(world: World, projects: Container[str] | None, found: dict[tuple[str, str], _Account]) -> None:
    for node in world.inventory.nodes.values():
        for holder, grant in node.entries.items():
            workload = world.workloads.get(holder.workload)
            if workload is None or (projects is not None and workload.project not in projects):
                continue
            account = found.setdefault((workload.project, node.pool), _Account())
            account.held.add(grant.charge, grant.cpu, grant.memory)
            account.asked.add(grant.charge, grant.cpu, grant.memory)
            if workload.request is not None and not workload.request.preemptible:
                account.kept.add(grant.charge, grant.cpu, grant.memory)


def _asked(bucket: Bucket, found: dict[tuple[str, str], _Account]) -> None:
    key, count = bucket.key, bucket.count
    account = found.setdefault((key.project, key.pools[0] if key.pools else _DEFAULT_POOL), _Account())
    account.pending += count
    if bucket.reason is None or bucket.reason.code not in IN_VAIN:  # as fair shares count it
        account.asked.add(*(count * each for each in bucket.each))


def _message(project: str, pool: str, account: _Account) -> fleet_pb2.Account:
    return fleet_pb2.Account(
        project=project,
        node_pool=pool,
        allocated=account.held.message(),
        allocated_non_preemptible=account.kept.message(),
        requested=account.asked.message(),
        pending_workloads=account.pending,
    )
