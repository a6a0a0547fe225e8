"""Making a workload what its document says, however often the document is applied.

Called by rpc/applying.py under an idempotency key. The document is known again by (project, kind, object name), never
by the workload's own name: a prefix makes another one each time, and applying twice once made workloads without end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Protocol

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_language import changed_fields
from muster_submission.domain import phases
from muster_submission.domain.applying import (
    Change,
    Create,
    Fixed,
    Going,
    Keep,
    Known,
    Renew,
    Steer,
    Step,
    check_object_name,
    step,
)
from muster_submission.domain.names import Given
from muster_submission.domain.problems import Problem
from muster_submission.domain.requests import Request
from muster_submission.errors import DraftRefused, PhaseForbids
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.handlers.intents import Intents, fields_fixed, fixed_fields
from muster_submission.handlers.sealing import Sealing
from muster_submission.handlers.submit import Acknowledged, Submit
from muster_submission.ports import WorkloadBooks

_NAME_FREE: Final = frozenset({wl.PHASE_DELETED, wl.PHASE_FAILED})
"""Phases in which a workload may have let its name go."""


class Outcome(Enum):
    """What applying did."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done; `shown` is the workload as it is now, None for one that was just made as `made`."""

    outcome: Outcome
    made: Acknowledged | None = None
    shown: wl.Workload | None = None


class AppliedBooks(Protocol):
    """Which workload a document named when it was applied last, within a transaction."""

    async def claim(self, unit: Unit, project: str, kind: int, name: str) -> str | None:
        """The workload's id; nobody else applies that document until the unit ends."""
        ...

    async def holder(self, unit: Unit, project: str, kind: int, name: str) -> str | None:
        """The workload of that kind that holds the name."""
        ...

    async def point(self, unit: Unit, project: str, kind: int, name: str, workload_id: str) -> None:
        """Remembers the workload."""
        ...

    async def give_up_name(self, unit: Unit, workload_id: str) -> None:
        """Takes its name from a workload that has ended."""
        ...


class Apply:
    """Applies checked drafts."""

    def __init__(
        self, applied: AppliedBooks, books: WorkloadBooks, sealing: Sealing, submit: Submit, intents: Intents
    ) -> None:
        self._applied = applied
        self._sealing = sealing
        self._books = books
        self._submit = submit
        self._intents = intents

    async def apply(self, unit: Unit, draft: Checked, name: str, owner: wl.Owner) -> Applied:
        """Makes, changes or keeps. Raises DraftRefused, NameTaken, FieldsFixed and PhaseForbids."""
        project, kind = draft.project.name, int(draft.spec.kind)
        known = await self._applied.claim(unit, project, kind, name)
        shown = await self._known(unit, known) if known else None
        if shown is None or shown.phase in _NAME_FREE:  # another workload may have been submitted under the name since
            shown = await self._adopted(unit, draft, name) or shown
        done = await self._create(unit, draft, owner) if shown is None else await self._step(unit, shown, draft, owner)
        meant = done.made or done.shown
        if meant is not None:
            await self._applied.point(unit, project, kind, name, meant.id)
        return done

    async def _step(self, unit: Unit, shown: wl.Workload, draft: Checked, owner: wl.Owner) -> Applied:
        # Credentials that are stored already read `***` on both sides; a workload made anew needs them as they came.
        match _next(shown, await self._sealing.against(unit, shown.id, draft)):
            case Create():
                return await self._create(unit, draft, owner)
            case Renew():
                await self._intents.ask(unit, Request.DELETE, shown.id, owner.subject)
                await self._applied.give_up_name(unit, shown.id)
                return await self._create(unit, draft, owner)
            case Keep():
                return Applied(Outcome.UNCHANGED, shown=shown)
            case Steer() as steer:
                return Applied(Outcome.CHANGED, shown=await self._steer(unit, shown, steer, owner))
            case Change(then=then):
                changed = await self._intents.change(unit, shown.id, _as_active_as(shown, draft), owner)
                shown = changed if then is None else await self._steer(unit, changed, then, owner)
                return Applied(Outcome.CHANGED, shown=shown)
            case Fixed(fields=fields):
                raise fields_fixed(shown, fields)
            case Going():
                raise PhaseForbids(
                    f"{shown.name} is being deleted: apply it again once it is gone", metadata={"phase": Phase.DELETING}
                )

    async def _steer(self, unit: Unit, shown: wl.Workload, steer: Steer, owner: wl.Owner) -> wl.Workload:
        wish = Request.RESUME if steer.run else Request.SUSPEND
        return await self._intents.ask(unit, wish, shown.id, owner.subject)

    async def _known(self, unit: Unit, workload_id: str) -> wl.Workload | None:
        await self._books.lock(unit, [workload_id])
        return await self._books.show(unit, workload_id)

    async def _adopted(self, unit: Unit, draft: Checked, name: str) -> wl.Workload | None:
        """The workload that was submitted under the name, and of a prefix the one that was numbered with it before."""
        called = draft.naming.name if isinstance(draft.naming, Given) else name
        known = await self._applied.holder(unit, draft.project.name, int(draft.spec.kind), called)
        shown = None if known is None else await self._known(unit, known)
        if shown is None or isinstance(draft.naming, Given) or shown.spec.name_prefix == draft.naming.prefix:
            return shown
        return None

    async def _create(self, unit: Unit, draft: Checked, owner: wl.Owner) -> Applied:
        (answer,) = await self._submit.make(unit, [draft], owner)
        if isinstance(answer, Refusal):
            raise answer.error()
        return Applied(Outcome.CREATED, made=answer)


def object_name(asked: str, draft: Checked) -> str:
    """What the document is known by: what was asked for, its metadata.name, its own name. Raises DraftRefused."""
    own = draft.naming.name if isinstance(draft.naming, Given) else ""
    name = asked or draft.object_name or own
    try:
        if not name:
            raise ValueError("with a namePrefix metadata.name says which workload is meant when it is applied again")
        check_object_name(name)
    except ValueError as error:
        raise DraftRefused("the workload", [Problem("metadata.name", str(error))]) from None
    return name


def _as_active_as(shown: wl.Workload, draft: Checked) -> Checked:
    """The draft with the stored `active`: what steered the workload since then must not read as a change of a field."""
    spec = wl.WorkloadSpec()
    spec.CopyFrom(draft.spec)
    spec.ClearField("active")
    if shown.spec.HasField("active"):
        spec.active = shown.spec.active
    return replace(draft, spec=spec)


def _next(shown: wl.Workload, draft: Checked) -> Step:
    changed = [name for name in changed_fields(shown.spec, draft.spec) if name != "active"]
    known = Known(
        phase=phases.phase(shown.phase) or Phase.CREATING,
        desired=phases.desired_phase(shown.desired) or DesiredPhase.RUNNING,
    )
    run = draft.spec.active if draft.spec.HasField("active") else None
    return step(known, changed, fixed_fields(shown.spec, changed), run=run)
