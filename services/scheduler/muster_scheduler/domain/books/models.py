"""What stands against so much more of a node pool: quotas and limits, and those per GPU model, over all node pools.

Called by placement, making room and explanations, which ask `bar` first and leave out the nodes of closed models. What
queues hold of a model is summed up when it is asked for, from the projects' own workloads, and only where a quota names
a model.
Holds: a gang is counted as if all of it got the model, so that whatever it gets stays within the quota; a node with any
card of a closed model is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.asked.quotas import Amount, Level, ModelQuota
from muster_scheduler.domain.asked.requests import Grant
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.eligible import eligibility_of
from muster_scheduler.domain.books.queues import Queues
from muster_scheduler.domain.books.reserving import kept_from
from muster_scheduler.domain.books.world import World, owner_of
from muster_scheduler.domain.fleet.eligibility import Eligibility, models_of_node


class Bar(NamedTuple):
    """What stands in the way. model: the GPU model of which there may not be more; empty: a quota or limit of all."""

    reason: Reason
    model: str = ""


def bar(world: World, workload: Workload, amount: Amount, pool: str) -> Bar | None:
    """The first quota or limit that `amount` more in a pool would break; None where all of them allow it.

    The project's and department's quotas, then the limits of its user, then the quotas of the models in that pool.
    """
    refusal = world.queues.refusal(owner_of(workload), pool, amount)
    return Bar(refusal) if refusal is not None else _closed_pool(world, workload, amount.gpu, pool)


def beyond_limits(world: World, workload: Workload, amount: Amount, pool: str) -> dict[Level, Amount] | None:
    """By how much `amount` more would break limits of its project and department that others could give back.

    None where something else bars it too, or where somebody leaves below such a limit anyway: that is waited for.
    """
    found = world.queues.beyond_limits(owner_of(workload), pool, amount)
    if not found or _closed_pool(world, workload, amount.gpu, pool) is not None:
        return None
    department = world.queues.department_of(workload.project) if Level.DEPARTMENT in found else None
    listed = map(world.workloads.__getitem__, world.departing.in_pool(pool))
    leaving = (w for w in listed if world.leaving(w))  # some may not be: a silent cluster's
    for each in leaving:
        below = each.project == workload.project or (
            department is not None and world.queues.department_of(each.project) == department
        )
        if below and any(replica.accounted and (replica.leaving or not each.active) for replica in each.everyone()):
            return None
    return found


def asked_of(world: World, workload: Workload, units: int) -> Eligibility:
    """What nodes are held against for `units` more, in 1/7,000 GPU.

    The workload's eligibility, without closed models and what is kept for others.
    """
    asked = eligibility_of(world.queues, workload, world.limits.grace)
    closed = closed_models(world, workload, units)
    kept = kept_from(world, workload, units, asked.runs)
    if not closed and not kept:
        return asked
    return asked._replace(closed=frozenset(each.model for each in closed), kept=kept)


def closed_models(world: World, workload: Workload, units: int) -> list[Bar]:
    """The models of which the workload may not have `units` more, each once, its project's word first."""
    found: dict[str, Bar] = {}
    preemptible = owner_of(workload).preemptible
    for level, projects, quotas in _levels(world.queues, workload.project) if units else ():
        used = _used(world, projects)
        for quota in quotas:
            held, bound = used.get(quota.model, (0, 0))
            reason = _refusal(quota, held, bound, units, level, preemptible=preemptible)
            if reason is not None:
                found.setdefault(quota.model, Bar(reason, quota.model))
    return list(found.values())


def counted_singly(queues: Queues, name: str) -> bool:
    """Whether a limit of users or a quota of models holds for the project: what several take is then no plain sum."""
    project = queues.projects.get(name)
    return bool(project and project.user_limits) or any(_levels(queues, name))


def _closed_pool(world: World, workload: Workload, units: int, pool: str) -> Bar | None:
    """The closed model that is in the way: where every card of the pool is of a closed model; None where not."""
    closed = {each.model: each for each in closed_models(world, workload, units)}
    there: set[str] = set()
    for cluster in world.inventory.clusters_with(pool) if closed else ():
        capacity = world.inventory.capacity(cluster, pool)
        for node in capacity.nodes if capacity else ():
            models = models_of_node(node)
            if models and models.isdisjoint(closed):
                return None
            there |= models
    return next((closed[model] for model in sorted(there & set(closed))), None)


def _levels(queues: Queues, name: str) -> Iterator[tuple[Level, frozenset[str], tuple[ModelQuota, ...]]]:
    project, department = queues.projects.get(name), queues.department_of(name)
    if project is not None and project.models:
        yield Level.PROJECT, frozenset({name}), project.models
    if department is not None and department.models:
        siblings = frozenset(p.name for p in queues.projects.values() if p.department == department.name)
        yield Level.DEPARTMENT, siblings, department.models


def _used(world: World, projects: frozenset[str]) -> dict[str, tuple[int, int]]:
    """What these projects hold of each model, in 1/7,000 GPU: in all, and by non-preemptible work."""
    found: dict[str, tuple[int, int]] = {}
    names = {name for (project, _, _), spells in world.queues.spells.items() if project in projects for name in spells}
    for name in sorted(names):
        workload = world.workloads[name]
        preemptible = owner_of(workload).preemptible
        for model, units in _held(world, workload):
            held, bound = found.get(model, (0, 0))
            found[model] = held + units, bound + (0 if preemptible else units)
    return found


def _held(world: World, workload: Workload) -> Iterator[tuple[str, int]]:
    for replica in workload.everyone():
        if replica.accounted:
            yield _model(world, replica.node, replica.grant), replica.grant.charge
    for planned in workload.claim.planned if workload.claim else ():
        yield _model(world, planned.node, planned.grant), planned.grant.charge


def _model(world: World, key: tuple[str, str], grant: Grant) -> str:
    node = world.inventory.nodes.get(key)
    if node is None:
        return ""
    if grant.slots:
        return node.slot_model
    device = node.device(grant.shares[0].device) if grant.shares else None
    return device.model if device else ""


def _refusal(quota: ModelQuota, held: int, bound: int, units: int, level: Level, *, preemptible: bool) -> Reason | None:
    if quota.limit is not None and held + units > quota.limit:
        numbers = (held, quota.limit, held + units - quota.limit, int(level))
        return Reason(WaitingReason.MODEL_OVER_LIMIT, numbers)
    if not preemptible and bound + units > quota.deserved:
        numbers = (bound, quota.deserved, bound + units - quota.deserved, int(level))
        return Reason(WaitingReason.MODEL_OVER_QUOTA, numbers)
    return None
