"""What people want of workloads that are there: suspend, resume, delete, change.

Called by the rpc under an idempotency key. The scheduler owns the phase: here the wish is written down and published,
and the answer shows the workload as the read model has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from muster.events.v1 import submission_pb2 as events
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_language import catalogue, changed_fields
from muster_submission.audit import Entry, audit
from muster_submission.domain import phases
from muster_submission.domain.access import Verb
from muster_submission.domain.names import Given
from muster_submission.domain.phases import ENDED
from muster_submission.domain.problems import Problem
from muster_submission.domain.requests import Ask, Impossible, Request, judge
from muster_submission.errors import DraftRefused, FieldsFixed, NoSuchWorkload, PhaseForbids
from muster_submission.handlers.drafts import Checked, kind_word
from muster_submission.handlers.sealing import Sealing
from muster_submission.handlers.submit import submitted
from muster_submission.ports import Archive, Waker, WorkloadBooks

_MESSAGES: Final[dict[Request, Callable[..., Message]]] = {
    Request.SUSPEND: events.SuspendRequested,
    Request.RESUME: events.ResumeRequested,
    Request.DELETE: events.DeletionRequested,
}


class Intents:
    """Writes down what people want."""

    def __init__(self, books: WorkloadBooks, archive: Archive, sealing: Sealing, waker: Waker) -> None:
        self._books = books
        self._archive = archive
        self._sealing = sealing
        self._waker = waker

    async def ask(self, unit: Unit, request: Request, workload_id: str, by: str) -> wl.Workload:
        """Publishes a request about a workload. Raises NoSuchWorkload and PhaseForbids.

        Of one that is archived nothing is left but its row here, so that to delete it is submission's alone.
        """
        shown = await self._books.show(unit, workload_id)
        archived = None if shown else await self._archive.show(unit, workload_id)
        shown = shown or archived
        if shown is None:
            raise _missing(workload_id)
        match judge(request, shown.name, _phase(shown), _desired(shown)):
            case Impossible(why=why):
                raise PhaseForbids(why, metadata={"phase": _phase(shown)})
            case Ask():
                verb = Verb.WORKLOADS_DELETE if request is Request.DELETE else Verb.WORKLOADS_CHANGE
                await audit(unit, Entry(verb, workload_id, shown.project, detail=request.value))
                if archived is not None:
                    await self._archive.delete(unit, [workload_id])
                    return await self._archive.show(unit, workload_id) or shown
                message = _MESSAGES[request](workload_id=workload_id, requested_by=by, requested_at=_stamp(unit.now))
                unit.publish(SUBMISSIONS, workload_id, message)
        return shown

    async def change(self, unit: Unit, workload_id: str, draft: Checked, by: wl.Owner) -> wl.Workload:
        """Gives a running service a new spec. Raises NoSuchWorkload, PhaseForbids, FieldsFixed, DraftRefused."""
        await self._books.lock(unit, [workload_id])
        shown = await self._shown(unit, workload_id)
        _changeable(shown, draft)
        draft = await self._sealing.against(unit, workload_id, draft)
        changed = changed_fields(shown.spec, draft.spec)
        if not changed:
            return shown
        fixed = fixed_fields(shown.spec, changed)
        if fixed:
            raise fields_fixed(shown, fixed)
        draft = await self._sealing.change(unit, workload_id, draft)
        generation = shown.generation + 1
        await audit(unit, Entry(Verb.WORKLOADS_CHANGE, workload_id, shown.project, detail="update"))
        await self._books.change_spec(unit, workload_id, generation, draft.spec.SerializeToString(), draft.base)
        told = submitted(unit.now, workload_id, shown.name, draft, by, shown.caused_by, generation)
        unit.publish(SUBMISSIONS, workload_id, events.SpecChanged(submitted=told))
        unit.after_commit(self._waker.poke)
        return await self._shown(unit, workload_id)

    async def _shown(self, unit: Unit, workload_id: str) -> wl.Workload:
        shown = await self._books.show(unit, workload_id)
        if shown is None:
            raise _missing(workload_id)
        return shown


def _missing(workload_id: str) -> NoSuchWorkload:
    return NoSuchWorkload(f"workload {workload_id} does not exist")


def _changeable(shown: wl.Workload, draft: Checked) -> None:
    if _phase(shown) in ENDED or _phase(shown) is Phase.DELETING:
        raise PhaseForbids(f"{shown.name} is {_phase(shown)}: submit it anew", metadata={"phase": _phase(shown)})
    problems = []
    if isinstance(draft.naming, Given) and draft.naming.name != shown.name:
        problems.append(Problem("spec.name", f"{draft.naming.name!r} is not {shown.name!r}: a name cannot change"))
    if draft.spec.kind != shown.spec.kind:
        given, kind = kind_word(draft.spec), kind_word(shown.spec)
        problems.append(Problem("spec.kind", f"{given} is not {kind}: a workload stays of its kind"))
    if draft.project.name != shown.project:
        problems.append(Problem("project", f"{draft.project.name!r} is not {shown.project!r}: it cannot move"))
    if problems:
        raise DraftRefused("the change", problems)


_OWN_FORM: Final = "what only its own form says"
"""Members of a job of another form that become no field."""


def fixed_fields(spec: wl.WorkloadSpec, changed: Sequence[str]) -> list[str]:
    """Those of the changed fields that cannot change while the workload is there: all, where it is no service."""
    rows = catalogue().by_name
    serves = spec.kind == options_pb2.KIND_INFERENCE
    return [name for name in changed if not (serves and name in rows and rows[name].mutable)]


def fields_fixed(shown: wl.Workload, fields: Sequence[str]) -> FieldsFixed:
    """The refusal of a change: its fields as documents call them, what could have changed, what to do instead."""
    rows = catalogue().by_name
    names = [rows[name].yaml if name in rows else _OWN_FORM for name in fields]
    serves = shown.spec.kind == options_pb2.KIND_INFERENCE
    why = "only the fields that `muster explain` says a service takes" if serves else "only inference services"
    return FieldsFixed(
        f"{', '.join(names)} of {shown.name} cannot change: {why} change while it is there; delete it and submit it "
        "anew, or leave what it has",
        metadata={"fields": ",".join(names)},
    )


def _phase(shown: wl.Workload) -> Phase:
    return phases.phase(shown.phase) or Phase.CREATING


def _desired(shown: wl.Workload) -> DesiredPhase:
    return phases.desired_phase(shown.desired) or DesiredPhase.RUNNING


def _stamp(now: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(now)
    return made
