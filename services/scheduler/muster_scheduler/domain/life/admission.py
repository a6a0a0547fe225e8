"""What people and policy say: admissions, refusals, suspend, resume, delete, archiving, advice.

Called by `State.apply`. Any interleaving of topics ends in the same state: an intent for a workload that is not known
yet makes it in Creating and is remembered there.
"""

from __future__ import annotations

from typing import Any

from muster_kernel.lifecycle import ACTIVE, FINAL, OVER, REFUSED, WAITING, DesiredPhase, LifecycleEvent, Phase
from muster_kernel.reasons import ChangeReason
from muster_scheduler.domain.asked.workloads import Workload
from muster_scheduler.domain.books.claims import drop_claim
from muster_scheduler.domain.books.course import advance, enqueue
from muster_scheduler.domain.books.world import World
from muster_scheduler.domain.decisions import Refused
from muster_scheduler.domain.events import (
    Admitted,
    Archived,
    IdleReported,
    Rejected,
    ScaleAdvised,
)
from muster_scheduler.domain.life import service
from muster_scheduler.domain.life.data_location import keep_binding
from muster_scheduler.domain.life.lost import silent_since, tell_waiting_to_end
from muster_scheduler.domain.life.refusals import forget_refusals

E = LifecycleEvent
_REASONS = {E.SUSPEND: ChangeReason.SUSPENDED, E.RESUME: ChangeReason.RESUMED, E.DELETE: ChangeReason.DELETED}


def on_admitted(world: World, event: Admitted) -> None:
    """Policy lets a generation run: the first one queues it, a later one changes what runs."""
    world.touched.requests[event.workload] = None
    if event.workload not in world.workloads and event.request.generation > 0:
        workload = world.enter(Workload(event.workload, **_told(event)))
    else:
        workload = world.find(event.workload)
        if event.request.generation <= workload.generation or workload.phase in {Phase.DELETING, Phase.DELETED}:
            return
        if workload.phase is not Phase.CREATING:
            _new_generation(world, workload, event)
            return
        world.set(workload, **_told(event))
    if not event.active and workload.desired is DesiredPhase.RUNNING:
        # It was submitted suspended; a resume that came first has been remembered as such by its own event.
        world.set(workload, desired=DesiredPhase.STOPPED)
    advance(world, workload, E.ADMITTED, ChangeReason.ADMITTED)


def _told(event: Admitted) -> dict[str, Any]:
    """What an admission says of a workload itself."""
    return {
        "project": event.project,
        "department": event.department,
        "namespace": event.namespace,
        "name": event.name,
        "owner": event.owner,
        "submitted": event.submitted,
        "request": event.request,
    }


def _new_generation(world: World, workload: Workload, event: Admitted) -> None:
    """A later generation: services roll over, what waits takes the new spec, what is final stays as it is.

    A service whose replicas stay as they are keeps them: only how many there are changes.
    """
    if workload.phase in OVER or not workload.inference:
        return
    world.waiting.remove(workload.id)
    forget_refusals(world, workload)
    request = keep_binding(workload.request, event.request)
    if workload.phase in ACTIVE and workload.request is not None and request.keeps_replicas_of(workload.request):
        service.resize(world, workload, request)
        return
    if workload.phase in ACTIVE:
        service.roll_over(world, workload, request)
        return
    drop_claim(world, workload)
    world.relent(workload)
    world.set(workload, request=request, first_placed=0)
    if workload.phase in WAITING:
        enqueue(world, workload)


def on_rejected(world: World, event: Rejected) -> None:
    """Policy refuses the first generation: it has failed. A refused later one changes nothing."""
    workload = world.find(event.workload)
    if workload.phase is Phase.CREATING and event.generation == 1:
        world.set(workload, project=event.project, name=event.name, submitted=event.submitted)
        advance(world, workload, E.REFUSED, ChangeReason.POLICY_REFUSED, event.message)


def on_request(world: World, workload_id: str, event: LifecycleEvent, request_id: str) -> None:
    """Somebody wants it suspended, resumed or gone."""
    workload = world.find(workload_id)
    since = silent_since(workload)
    if event is E.RESUME:  # what was mended meanwhile need not be waited for
        forget_refusals(world, workload)
    if advance(world, workload, event, _REASONS[event]) is REFUSED:
        world.decide(Refused(workload.id, request_id, workload.phase))
    tell_waiting_to_end(world, workload, since)


def on_archived(world: World, event: Archived) -> None:
    """Note that submission has archived a workload, so that its row is kept as long as policy keeps its admission.

    A workload that has not ended here is not marked as over: PostgreSQL was restored from a copy that is older than the
    archive.
    """
    known = world.workloads.get(event.workload)
    if known is None or known.phase in FINAL:
        world.touched.archived[event.workload] = None


def on_idle(world: World, event: IdleReported) -> None:
    """Since when the GPUs of a workload stand idle; of one that is not known, or does not run, it means nothing."""
    workload = world.workloads.get(event.workload)
    if workload is not None and workload.phase in ACTIVE and workload.idle_since != event.since:
        world.set(workload, idle_since=event.since)
        world.watch(workload)


def on_scale_advised(world: World, event: ScaleAdvised) -> None:
    """Advice on the number of replicas of a service; for anything else it means nothing."""
    workload: Workload | None = world.workloads.get(event.workload)
    if workload is not None and workload.inference:
        service.rescale(world, workload, event.replicas)
