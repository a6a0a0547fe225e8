"""Which quota or limit would have to be larger for a workload to start: the smallest change that lets it.

Called by explain.py for each node pool in which a quota is in the way. What is said of room has been tried.
"""

from __future__ import annotations

from typing import Final

from muster_kernel.quantities import format_bytes, format_milli_cpu
from muster_kernel.reasons import Reason, WaitingReason
from muster_scheduler.domain.answers.raising import room_with
from muster_scheduler.domain.answers.remedies import has_room
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import Amount, Level
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import Bar
from muster_scheduler.domain.books.world import World, owner_of

_W = WaitingReason
_VERBS: Final = {
    _W.OVER_QUOTA: "deserved",
    _W.NO_WEIGHT: "deserved",
    _W.OVER_LIMIT: "might hold",
    _W.CPU_OVER_QUOTA: "deserved",
    _W.CPU_OVER_LIMIT: "might hold",
    _W.MEMORY_OVER_QUOTA: "deserved",
    _W.MEMORY_OVER_LIMIT: "might hold",
    _W.USER_OVER_LIMIT: "might hold",
}


def larger(world: World, workload: Workload, request: Request, pool: str, refusal: Reason, amount: Amount) -> list[str]:
    """What would have to be allowed in the pool, each change enough by itself as far as quotas go."""
    room = has_room(world, workload, request, request.roles, pool)
    found: list[str] = []
    preemptible = owner_of(workload)._replace(preemptible=True)
    if room and not request.preemptible and world.queues.refusal(preemptible, pool, amount) is None:
        found.append(f"it were preemptible (there is room in node pool {pool}, over quota)")
    more = "" if room else ", and there was room"
    if refusal.code in _VERBS:
        allowed = refusal.numbers[1] + refusal.numbers[2]
        made = "" if room or not _is_quota(refusal) else room_with(world, workload, pool, allowed)
        enough = f"{_shown(refusal.code, allowed)} in node pool {pool}"
        found.append(
            f"{_whose(world, workload, refusal)} {_VERBS[refusal.code]} {enough}{f' ({made})' if made else more}"
        )
    elif refusal.code is _W.USER_RUNS_ENOUGH:
        found.append(f"one of the {refusal.numbers[0]} workloads of its user in {workload.project} ended{more}")
    if refusal.code is _W.NO_WEIGHT:
        whose = _whose(world, workload, refusal)
        found.append(f"{whose} had a weight above 0 for what nobody deserves in node pool {pool}{more}")
    return found


def more_of_model(world: World, workload: Workload, pool: str, closed: Bar) -> list[str]:
    """What would have to be allowed of a GPU model that is in the way."""
    allowed = gpus(closed.reason.numbers[1] + closed.reason.numbers[2])
    verb = "might hold" if closed.reason.code is _W.MODEL_OVER_LIMIT else "deserved"
    whose = _whose(world, workload, closed.reason)
    return [f"{whose} {verb} {allowed} of {closed.model}, which is what node pool {pool} has"]


def _is_quota(refusal: Reason) -> bool:
    """Whether more GPUs deserved by its project are what it lacks."""
    return refusal.code in {_W.OVER_QUOTA, _W.NO_WEIGHT} and refusal.numbers[-1] == Level.PROJECT


def _whose(world: World, workload: Workload, refusal: Reason) -> str:
    if refusal.code is _W.USER_OVER_LIMIT:
        return f"one user of {workload.project}"
    department = world.queues.department_of(workload.project)
    if refusal.numbers[-1] == Level.DEPARTMENT and department is not None:
        return f"department {department.name}"
    return workload.project


def _shown(code: WaitingReason, amount: int) -> str:
    if code in {_W.CPU_OVER_QUOTA, _W.CPU_OVER_LIMIT}:
        return f"{format_milli_cpu(amount)} CPU"
    if code in {_W.MEMORY_OVER_QUOTA, _W.MEMORY_OVER_LIMIT}:
        return f"{format_bytes(amount)} of memory"
    return gpus(amount)
