"""Which quota or limit would have to be larger for a workload to start: the smallest change that lets it.

Called by explain.py for each node pool in which a quota is in the way. What is said of room has been tried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_kernel.quantities import format_bytes, format_milli_cpu
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.raising import room_with
from muster_scheduler.domain.answers.remedies import has_room
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import Amount, Level, Quota, UserLimit
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import Bar
from muster_scheduler.domain.books.queues import Project
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
_CPU: Final = frozenset({_W.CPU_OVER_QUOTA, _W.CPU_OVER_LIMIT})
_MEMORY: Final = frozenset({_W.MEMORY_OVER_QUOTA, _W.MEMORY_OVER_LIMIT})
_BARS: Final = 12  # that a workload could meet one after the other: three resources, two levels, users


def larger(world: World, workload: Workload, request: Request, pool: str, refusal: Reason, amount: Amount) -> list[str]:
    """What would have to be allowed in the pool: what each line names is enough, as far as quotas go."""
    room = has_room(world, workload, request, request.roles, pool)
    found: list[str] = []
    preemptible = owner_of(workload)._replace(preemptible=True)
    if room and not request.preemptible and world.queues.refusal(preemptible, pool, amount) is None:
        found.append(f"it were preemptible (there is room in node pool {pool}, over quota)")
    more = "" if room else ", and there was room"
    if refusal.code in _VERBS:
        told = allow_all(world, workload, pool, refusal, amount)
        alone = len(told) == 1 and not room and _is_quota(refusal)
        made = room_with(world, workload, pool, refusal.numbers[1] + refusal.numbers[2]) if alone else ""
        found.append(f"{' and '.join(told)}{f' ({made})' if made else more}")
    elif refusal.code is _W.USER_RUNS_ENOUGH:
        found.append(f"one of the {refusal.numbers[0]} workloads of its user in {workload.project} ended{more}")
    if refusal.code is _W.NO_WEIGHT:
        whose = _whose(world, workload, refusal)
        found.append(f"{whose} had a weight above 0 for what nobody deserves in node pool {pool}{more}")
    return found


def allow_all(world: World, workload: Workload, pool: str, refusal: Reason, amount: Amount) -> list[str]:
    """All that would have to be allowed: each is allowed in the books, to see what stands in the way then; taken back.

    Nothing is said of what a number of workloads or a GPU model bars after that.
    """
    told: list[str] = []
    mark = world.journal.mark()
    for _ in range(_BARS):
        allowed = refusal.numbers[1] + refusal.numbers[2]
        told.append(f"{_whose(world, workload, refusal)} {_VERBS[refusal.code]} {_shown(refusal.code, allowed)}")
        told[-1] += _where(world, workload, pool, refusal)
        _allow(world, workload, pool, refusal, allowed)
        following = world.queues.refusal(owner_of(workload), pool, amount)
        if following is None or following.code not in _VERBS or following == refusal:
            break
        refusal = following
    world.journal.rollback(mark)
    return told


def _where(world: World, workload: Workload, pool: str, refusal: Reason) -> str:
    limit = _user_limit(world.queues.projects[workload.project], pool, refusal.numbers[1])
    everywhere = refusal.code is _W.USER_OVER_LIMIT and limit is not None and not limit.pool
    return " in all node pools together" if everywhere else f" in node pool {pool}"


def _user_limit(project: Project, pool: str, gpu: int) -> UserLimit | None:
    return next((each for each in project.user_limits if each.pool in {"", pool} and each.gpu == gpu), None)


def _allow(world: World, workload: Workload, pool: str, refusal: Reason, allowed: int) -> None:
    """Writes into the books that so much is deserved, or may be held."""
    project, department = world.queues.projects[workload.project], world.queues.department_of(workload.project)
    if refusal.code is _W.USER_OVER_LIMIT:
        tight = _user_limit(project, pool, refusal.numbers[1])
        limits = tuple(each._replace(gpu=allowed) if each is tight else each for each in project.user_limits)
        world.queues.put(replace(project, user_limits=limits))
    elif refusal.numbers[-1] == Level.PROJECT or department is None:
        quota = _with(world.queues.quota(project.name, pool), refusal.code, allowed)
        world.queues.put(replace(project, quotas={**project.quotas, pool: quota}))
    else:
        quota = _with(department.quotas[pool], refusal.code, allowed)
        world.queues.put_department(replace(department, quotas={**department.quotas, pool: quota}))


def _with(quota: Quota, code: WaitingReason, allowed: int) -> Quota:
    """The quota with so much of the resource that the code is about."""
    deserved = _VERBS[code] == "deserved"
    if code in _CPU | _MEMORY:
        at = 1 if code in _CPU else 2
        line = quota.line(at)
        line = line._replace(deserved=allowed) if deserved else line._replace(limit=allowed)
        return quota._replace(cpu=line) if at == 1 else quota._replace(memory=line)
    return quota._replace(deserved=allowed) if deserved else quota._replace(limit=allowed)


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
    if code in _CPU:
        return f"{format_milli_cpu(amount)} CPU"
    if code in _MEMORY:
        return f"{format_bytes(amount)} of memory"
    return gpus(amount)
