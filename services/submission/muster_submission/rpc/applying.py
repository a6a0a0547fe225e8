"""ApplyWorkload: a document's workload as the document says. Mounted by WorkloadsService.

Holds: what was applied twice is one workload, whichever instance answers, since the books hold the document's row.
"""

from __future__ import annotations

from typing import Final

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.database import Database
from muster_chassis.rpc import caller, once
from muster_chassis.unit import Unit
from muster_language.sensitive import masked
from muster_submission.handlers.access import Access
from muster_submission.handlers.apply import Apply, Outcome, object_name
from muster_submission.handlers.drafts import Checked, Drafts, Refusal
from muster_submission.handlers.submit import Acknowledged
from muster_submission.rpc.reading import owner

_OUTCOMES: Final = {
    Outcome.CREATED: api.APPLY_OUTCOME_CREATED,
    Outcome.UNCHANGED: api.APPLY_OUTCOME_UNCHANGED,
    Outcome.CHANGED: api.APPLY_OUTCOME_CHANGED,
}


class Applying:
    """Answers ApplyWorkload."""

    def __init__(self, database: Database, drafts: Drafts, apply: Apply, access: Access) -> None:
        self._database = database
        self._drafts = drafts
        self._apply = apply
        self._access = access

    async def apply(self, request: api.ApplyWorkloadRequest) -> api.ApplyWorkloadResponse:
        """What was done, and the workload."""
        (checked,) = await self._drafts.check([request.draft], await self._access.rights(caller()))
        if isinstance(checked, Refusal):
            raise checked.error()
        name = object_name(request.object_name, checked)
        who = owner()

        async def work(unit: Unit) -> api.ApplyWorkloadResponse:
            done = await self._apply.apply(unit, checked, name, who)
            shown = creating(unit, done.made, checked, who) if done.made else done.shown
            return api.ApplyWorkloadResponse(workload=shown, outcome=_OUTCOMES[done.outcome])

        return await once(self._database, "ApplyWorkload", request, api.ApplyWorkloadResponse, work)


def creating(unit: Unit, made: Acknowledged, draft: Checked, who: wl.Owner) -> wl.Workload:
    """The workload as it was just written; reading it back would cost a round trip."""
    shown = wl.Workload(
        id=made.id,
        project=draft.project.name,
        name=made.name,
        spec=masked(draft.spec),
        phase=wl.PHASE_CREATING,
        desired=wl.DesiredPhase.ValueType(draft.desired),
        owner=who,
        origin=draft.origin,
        generation=1,
        asked_cluster=draft.cluster,
    )
    shown.created_at.FromDatetime(unit.now)
    return shown
