"""Drafts that nobody wants made: what they would tell policy and the scheduler if they were.

Called by the rpc of questions (what policy would say, what the scheduler would do). They go the way of a submission up
to the point where something would be written: the same checks, rights and templates. Holds: nothing is made, no name is
taken, and no credential leaves this service, not even sealed: each is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from muster.api.v1 import workloads_pb2 as api
from muster.events.v1.submission_pb2 import WorkloadSubmitted
from muster.workload.v1 import workload_pb2 as wl
from muster_language.sensitive import masked
from muster_submission.domain.names import Given, Naming
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Rights
from muster_submission.handlers.drafts import Checked, Drafts, Refusal
from muster_submission.handlers.submit import new_ids, submitted

MOST: Final = 100
"""Drafts in one question."""


class Asked(NamedTuple):
    """One draft. told: what policy would hear of it; named: whether it brings its name, or one would be made for it."""

    told: WorkloadSubmitted
    named: bool


class Asking:
    """Turns drafts into what a submission would tell."""

    def __init__(self, drafts: Drafts) -> None:
        self._drafts = drafts

    async def submitted(
        self, drafts: Sequence[api.WorkloadDraft], rights: Rights, owner: wl.Owner, now: datetime
    ) -> list[Asked]:
        """Each draft, in order. Raises BadQuestion, and the refusal of the first draft that is refused."""
        if not 1 <= len(drafts) <= MOST:
            raise BadQuestion(f"{len(drafts)} drafts in one question; 1 to {MOST} are allowed: ask for the rest later")
        checked: list[Checked] = []
        for one in await self._drafts.check(drafts, rights):
            if isinstance(one, Refusal):
                raise one.error()
            checked.append(one)
        ids = new_ids(now, len(checked))
        return [
            Asked(
                submitted(now, workload_id, _name(one.naming), _masked(one), owner, ""), isinstance(one.naming, Given)
            )
            for workload_id, one in zip(ids, checked, strict=True)
        ]


def _name(naming: Naming) -> str:
    return naming.name if isinstance(naming, Given) else naming.prefix


def _masked(draft: Checked) -> Checked:
    base = draft.base and replace(draft.base, spec=masked(draft.base.spec))
    return replace(draft, spec=masked(draft.spec), base=base)
