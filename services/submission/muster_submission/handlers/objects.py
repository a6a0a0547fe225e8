"""Objects as Kubernetes' way in knows them: created once under a name, there until they are deleted.

Called by rest/routes/kubernetes.py within a transaction. Unlike applying, creating an object that is there is an error;
both share the book that says which workload an object's name means.
"""

from __future__ import annotations

from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.unit import Unit
from muster_submission.errors import NameTaken
from muster_submission.handlers.apply import AppliedBooks
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.handlers.submit import Acknowledged, Submit
from muster_submission.ports import WorkloadBooks


class Objects:
    """Creates objects."""

    def __init__(self, applied: AppliedBooks, books: WorkloadBooks, submit: Submit) -> None:
        self._applied = applied
        self._books = books
        self._submit = submit

    async def create(self, unit: Unit, draft: Checked, name: str, owner: wl.Owner) -> Acknowledged:
        """Makes the workload of an object. Raises NameTaken, and what making it raises."""
        project, kind = draft.project.name, int(draft.spec.kind)
        known = await self._applied.claim(unit, project, kind, name)
        shown = None if known is None else await self._books.show(unit, known)
        if shown is not None and shown.phase != wl.PHASE_DELETED:
            raise NameTaken(f"object {name!r} is there already, as workload {shown.name}: delete it, or choose a name")
        (answer,) = await self._submit.make(unit, [draft], owner)
        if isinstance(answer, Refusal):
            raise answer.error()
        await self._applied.point(unit, project, kind, name, answer.id)
        return answer
