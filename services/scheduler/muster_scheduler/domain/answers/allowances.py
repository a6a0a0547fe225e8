"""Which quota or limit would have to be larger for a workload to start: the smallest change that lets it.

Called by explain.py for each node pool in which a quota is in the way, and by remedies.py for requests that would fit
but for quotas. All of a line was written into the books together, and nothing stood in the way then; who would take
the room or the quota first (rivals.py) is named.
Holds: the state is as it was afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from muster_kernel.quantities import format_bytes, format_milli_cpu
from muster_kernel.reasons import WaitingReason
from muster_kernel.sentences import Reason
from muster_scheduler.domain.answers.raising import room_made
from muster_scheduler.domain.answers.rivals import own_first, own_user_first, taken_first
from muster_scheduler.domain.answers.trying import asking, barred, has_room, may_fit_idle, taken_back
from muster_scheduler.domain.answers.viewing import Viewer
from muster_scheduler.domain.answers.wording import gpus
from muster_scheduler.domain.asked.quotas import Level, ModelQuota, Quota, UserLimit
from muster_scheduler.domain.asked.workloads import Request, Workload
from muster_scheduler.domain.books.models import Bar
from muster_scheduler.domain.books.queues import Project
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.placement.cluster_choice import clusters_for

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
    _W.MODEL_OVER_QUOTA: "deserved",
    _W.MODEL_OVER_LIMIT: "might hold",
    _W.USER_RUNS_ENOUGH: "might run",
}
_CPU: Final = frozenset({_W.CPU_OVER_QUOTA, _W.CPU_OVER_LIMIT})
_MEMORY: Final = frozenset({_W.MEMORY_OVER_QUOTA, _W.MEMORY_OVER_LIMIT})
_BARS: Final = 16  # that a workload could meet one after the other: three resources, two levels, users, models
_USUAL_WEIGHT: Final = 1_000


def larger(world: World, workload: Workload, request: Request, pool: str, closed: Bar, viewer: Viewer) -> list[str]:
    """What would have to be allowed in the pool, where idle nodes of it would hold the workload."""
    if not may_fit_idle(world, workload, request, pool):
        return []
    found: list[str] = []
    other = request._replace(preemptible=True)
    room = has_room(world, workload, request, pool)
    if room and not request.preemptible and barred(world, asking(workload, other), other, pool) is None:
        found.append(f"it were preemptible (there is room in node pool {pool}, over quota)")
    told, beside = _enough(world, workload, request, pool, viewer)
    if closed.reason.code is _W.USER_RUNS_ENOUGH and len(told) == 1:
        running, more = closed.reason.numbers[0], "" if room else ", and there was room"
        first = own_user_first(world, workload, pool, viewer)
        whose = "the workload" if running == 1 else f"one of the {running} workloads"
        found.append(f"{whose} of its user in {workload.project} ended{first}{more}")
    found += [" and ".join(told) + beside] if told else []
    if closed.reason.code is _W.NO_WEIGHT:
        found += _weight(world, workload, request, pool, closed.reason, viewer)
    return found


def allowances(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> str:
    """All that would have to be allowed together, and what else has to be so; empty where nothing is enough."""
    told, beside = _enough(world, workload, request, pool, viewer)
    return " and ".join(told) + beside


def allowed_beside(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> str:
    """All that would have to be allowed together, room aside; empty where nothing is enough."""
    with taken_back(world):
        told, _ = _allow_all(world, workload, request, pool, viewer)
        return " and ".join(told) if barred(world, workload, request, pool) is None else ""


def _enough(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer) -> tuple[list[str], str]:
    """What would have to be allowed, and what has to be so beside it; nothing where that would not be enough."""
    with taken_back(world):
        told, last = _allow_all(world, workload, request, pool, viewer)
        if last is None or barred(world, workload, request, pool) is not None:
            return [], ""
        alone = len(told) == 1 and _is_quota(last) and not workload.active  # nobody leaves for what only grows
        return told, _beside(world, workload, request, pool, viewer, others=alone)


def _beside(world: World, workload: Workload, request: Request, pool: str, viewer: Viewer, *, others: bool) -> str:
    """What has to be so too once no quota is in the way. others: whether they may be asked to leave."""
    clusters = clusters_for(world, workload, request, pool)
    if has_room(world, workload, request, pool):
        return taken_first(world, workload, pool, clusters, viewer)
    made = room_made(world, workload, pool) if others else ""
    first = own_first(world, workload, pool, viewer)
    return f" ({made}){first}" if made else f"{first}, and there was room"


def _weight(
    world: World, workload: Workload, request: Request, pool: str, refusal: Reason, viewer: Viewer
) -> list[str]:
    """That its project or department took part in what nobody deserves, where that alone would be enough."""
    with taken_back(world):
        _put_quota(world, workload, pool, refusal, lambda quota: quota._replace(weight=_USUAL_WEIGHT))
        if barred(world, workload, request, pool) is not None:
            return []
        told = f"{_whose(world, workload, refusal)} had a weight above 0 for what nobody deserves in node pool {pool}"
        return [told + _beside(world, workload, request, pool, viewer, others=False)]


def _allow_all(
    world: World, workload: Workload, request: Request, pool: str, viewer: Viewer
) -> tuple[list[str], Reason | None]:
    """Allows in the books, one after the other, what stands in the way; what was allowed, and what stood there last."""
    told: list[str] = []
    last: Reason | None = None
    for _ in range(_BARS):
        closed = barred(world, workload, request, pool)
        if closed is None or closed.reason.code not in _VERBS or closed.reason == last:
            break
        last = closed.reason
        told.append(_allow(world, workload, pool, closed, viewer))
    return told, last


def _allow(world: World, workload: Workload, pool: str, closed: Bar, viewer: Viewer) -> str:
    """Writes into the books that as much is deserved, or may be held, as it takes, and says so.

    No amount of a department that the viewer may not see is shown: it includes what others hold.
    """
    refusal, project = closed.reason, world.queues.projects[workload.project]
    if refusal.code is _W.USER_RUNS_ENOUGH:
        return _allow_running(world, project, pool, refusal.numbers[0] + 1)
    allowed = refusal.numbers[1] + refusal.numbers[2]
    hidden = refusal.of_department and not viewer.sees_department(world.queues.department_name(workload.project))
    amount = _more(refusal.code) if hidden else _shown(refusal.code, allowed)
    told = f"{_whose(world, workload, refusal)} {_VERBS[refusal.code]} {amount}"
    if closed.model:
        _put_model(world, workload, closed, allowed)
        return f"{told} of {closed.model}, which is what node pool {pool} has"
    where = _where(world, workload, pool, refusal)
    if refusal.code is _W.USER_OVER_LIMIT:
        tight = _user_limit(project, pool, refusal.numbers[1])
        limits = tuple(each._replace(gpu=allowed) if each is tight else each for each in project.user_limits)
        world.queues.put(replace(project, user_limits=limits))
    else:
        _put_quota(world, workload, pool, refusal, lambda quota: _with(quota, refusal.code, allowed))
    return told + where


def _where(world: World, workload: Workload, pool: str, refusal: Reason) -> str:
    limit = _user_limit(world.queues.projects[workload.project], pool, refusal.numbers[1])
    everywhere = refusal.code is _W.USER_OVER_LIMIT and limit is not None and not limit.pool
    return " in all node pools together" if everywhere else f" in node pool {pool}"


def _user_limit(project: Project, pool: str, gpu: int) -> UserLimit | None:
    return next((each for each in project.user_limits if each.pool in {"", pool} and each.gpu == gpu), None)


def _allow_running(world: World, project: Project, pool: str, allowed: int) -> str:
    """The same of how many workloads of a user may run at once."""
    here = [each for each in project.user_limits if each.pool in {"", pool} and each.workloads is not None]
    tight = [each for each in here if each.workloads is not None and each.workloads < allowed]
    limits = tuple(each._replace(workloads=allowed) if each in tight else each for each in project.user_limits)
    world.queues.put(replace(project, user_limits=limits))
    everywhere = any(not each.pool for each in tight)
    where = "in all node pools together" if everywhere else f"in node pool {pool}"
    return f"one user of {project.name} might run {allowed} workloads at once {where}"


def _put_quota(world: World, workload: Workload, pool: str, refusal: Reason, change: Callable[[Quota], Quota]) -> None:
    """Changes the quota of the project or department that refused."""
    project, department = world.queues.projects[workload.project], world.queues.department_of(workload.project)
    if refusal.numbers[-1] == Level.PROJECT or department is None:
        quota = change(world.queues.quota(project.name, pool))
        world.queues.put(replace(project, quotas={**project.quotas, pool: quota}))
    else:
        quota = change(department.quotas[pool])
        world.queues.put_department(replace(department, quotas={**department.quotas, pool: quota}))


def _put_model(world: World, workload: Workload, closed: Bar, allowed: int) -> None:
    project, department = world.queues.projects[workload.project], world.queues.department_of(workload.project)
    deserved = closed.reason.code is _W.MODEL_OVER_QUOTA

    def changed(quotas: tuple[ModelQuota, ...]) -> tuple[ModelQuota, ...]:
        return tuple(more(each) if each.model == closed.model else each for each in quotas)

    def more(quota: ModelQuota) -> ModelQuota:
        return quota._replace(deserved=allowed) if deserved else quota._replace(limit=allowed)

    if closed.reason.numbers[-1] == Level.PROJECT or department is None:
        world.queues.put(replace(project, models=changed(project.models)))
    else:
        world.queues.put_department(replace(department, models=changed(department.models)))


def _with(quota: Quota, code: WaitingReason, allowed: int) -> Quota:
    """The quota with so much of the resource that the code is about."""
    deserved = _VERBS[code] == "deserved"
    if code in _CPU | _MEMORY:
        at = 1 if code in _CPU else 2
        line = quota.line(at)
        line = line._replace(deserved=allowed) if deserved else line._replace(limit=allowed)
        return quota._replace(cpu=line) if at == 1 else quota._replace(memory=line)
    return quota._replace(deserved=allowed) if deserved else quota._replace(limit=allowed)


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


def _more(code: WaitingReason) -> str:
    if code in _CPU:
        return "more CPU"
    return "more memory" if code in _MEMORY else "more GPUs"


def _shown(code: WaitingReason, amount: int) -> str:
    if code in _CPU:
        return f"{format_milli_cpu(amount)} CPU"
    if code in _MEMORY:
        return f"{format_bytes(amount)} of memory"
    return gpus(amount)
