"""Acknowledging workloads: names, rows, events, in one transaction and a handful of statements, one or a thousand.

Called by the rpc under an idempotency key, and by triggers. Holds: what was acknowledged has its row, its line in the
change log and its WorkloadSubmitted in the same commit, and its name was free.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import grpc

from muster.events.v1 import submission_pb2 as events
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import metrics
from muster_chassis.rpc import Caller, caller
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from muster_kernel.ids import uuid7
from muster_submission.audit import Entry, audit
from muster_submission.domain.access import Verb
from muster_submission.domain.names import Given, Naming, Prefixed, demand, resolve
from muster_submission.domain.problems import Problem
from muster_submission.handlers.drafts import Checked, Refusal
from muster_submission.handlers.sealing import Sealing
from muster_submission.ports import NewWorkload, Reserve, Waker, WorkloadBooks

_ROUNDS: Final = 3  # a given name can slip in between taking a number and making the row

SUBMITTED = metrics.counter(
    "muster_workloads_submitted_total",
    unit="workloads",
    meaning="Drafts by outcome: acknowledged or refused.",
    action="Refused ones that go on: look at what the callers send.",
    labels=("outcome",),
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A workload that was made."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Order:
    """A draft to make: for whom, at whose wish, by which event, and under which trace."""

    draft: Checked
    owner: wl.Owner
    who: Caller
    caused_by: str = ""
    trace: str | None = None


def new_ids(now: datetime, count: int) -> list[str]:
    """Ids that sort in the order of a call: a counter stands where a UUIDv7 allows one, before the random part."""
    milliseconds = int(now.timestamp() * 1000)
    return [uuid7(milliseconds, number.to_bytes(2, "big") + os.urandom(8)) for number in range(count)]


class Submit:
    """Makes workloads out of checked drafts."""

    def __init__(self, books: WorkloadBooks, sealing: Sealing, waker: Waker, reserve: Reserve) -> None:
        self._reserve = reserve
        self._books = books
        self._sealing = sealing
        self._waker = waker

    async def make(
        self, unit: Unit, drafts: Sequence[Checked], owner: wl.Owner, *, caused_by: str = ""
    ) -> list[Acknowledged | Refusal]:
        """Makes all whose name is free, and answers for each in order. The rest of the unit is the caller's."""
        # The audit names the caller, or the identity that a trigger acts for.
        acting = Caller(owner.subject, tuple(owner.groups), owner.issuer, channel="trigger") if caused_by else caller()
        return await self.make_together(unit, [Order(draft, owner, acting, caused_by) for draft in drafts])

    async def make_together(self, unit: Unit, orders: Sequence[Order]) -> list[Acknowledged | Refusal]:
        """The same for orders of several callers.

        Credentials are sealed here, before a row, an event or a line of the audit sees the spec. Raises
        DiskReserveSpent, for calls and for triggers: the event of a trigger then waits in its lane.
        """
        if not orders:
            return []
        self._reserve.check()
        ids = new_ids(unit.now, len(orders))
        traces = {one: order.trace for one, order in zip(ids, orders, strict=True) if order.trace}
        unit.traces = {**unit.traces, **traces}
        new = await self._sealing.new(unit, ids, [order.draft for order in orders])
        drafts = [one if isinstance(one, Checked) else its.draft for one, its in zip(new.drafts, orders, strict=True)]
        left = [at for at, one in enumerate(new.drafts) if isinstance(one, Checked)]
        answers: list[Acknowledged | Refusal] = [
            _taken(one.naming, one) if isinstance(one, Checked) else one for one in new.drafts
        ]
        for _ in range(_ROUNDS if left else 0):
            names = await self._names(unit, [drafts[at] for at in left])
            rows = [_row(ids[at], name, drafts[at], orders[at]) for at, name in zip(left, names, strict=True)]
            made = await self._books.make(unit, rows)
            for at, name in zip(left, names, strict=True):
                if ids[at] in made:
                    answers[at] = Acknowledged(ids[at], name)
                    _publish(unit, ids[at], name, drafts[at], orders[at])
            left = [at for at in left if ids[at] not in made and isinstance(drafts[at].naming, Prefixed)]
            if not left:
                break
        await self._sealing.keep(unit, new.sealed, {one.id for one in answers if isinstance(one, Acknowledged)})
        await _note(unit, orders, answers)
        unit.after_commit(lambda: _count(answers))
        unit.after_commit(self._waker.poke)
        return answers

    async def _names(self, unit: Unit, drafts: Sequence[Checked]) -> list[str]:
        namings = [(draft.project.name, draft.naming) for draft in drafts]
        wanted = demand(namings)
        numbers = await self._books.take_numbers(unit, wanted) if wanted else {}
        return resolve(namings, numbers)


async def _note(unit: Unit, orders: Sequence[Order], answers: Sequence[Acknowledged | Refusal]) -> None:
    """The audit's lines for what was made: a statement for each who had something made."""
    lines: dict[tuple[Caller, str, str], list[Entry]] = {}
    for order, answer in zip(orders, answers, strict=True):
        if isinstance(answer, Acknowledged):
            project = order.draft.project.name
            line = Entry(Verb.WORKLOADS_CREATE, answer.id, project, detail=order.caused_by)
            lines.setdefault((order.who, order.who.channel, order.who.peer), []).append(line)
    for (who, _, _), entries in lines.items():
        await audit(unit, *entries, who=who)


def _count(answers: Sequence[Acknowledged | Refusal]) -> None:
    made = sum(isinstance(answer, Acknowledged) for answer in answers)
    SUBMITTED.labels("acknowledged").inc(made)
    SUBMITTED.labels("refused").inc(len(answers) - made)


def _taken(named: Naming, draft: Checked) -> Refusal:
    project = draft.project.name
    if isinstance(named, Given):
        return name_taken(project, named.name)
    message = f"no free number was found for prefix {named.prefix!r} in project {project}: repeat the call"
    return Refusal(grpc.StatusCode.ALREADY_EXISTS, message, (Problem("spec.namePrefix", message),))


def name_taken(project: str, name: str) -> Refusal:
    """The refusal of a workload whose name another one has."""
    message = (
        f"name {name!r} is taken in project {project}: choose another, delete the workload that has it, "
        "or use a namePrefix"
    )
    return Refusal(grpc.StatusCode.ALREADY_EXISTS, message, (Problem("spec.name", message),))


def _row(workload_id: str, name: str, draft: Checked, order: Order) -> NewWorkload:
    base = draft.base
    return NewWorkload(
        id=workload_id,
        project=draft.project.name,
        name=name,
        kind=draft.spec.kind,
        desired=draft.desired,
        spec=draft.spec.SerializeToString(),
        base_spec=None if base is None else base.spec.SerializeToString(),
        template_id="" if base is None else base.template_id,
        template_version=0 if base is None else base.version,
        owner=order.owner.SerializeToString(),
        origin=draft.origin,
        caused_by=order.caused_by,
        asked_cluster=draft.cluster,
        submitted_by=order.owner.subject,
    )


def submitted(
    now: datetime, workload_id: str, name: str, draft: Checked, owner: wl.Owner, caused_by: str, generation: int = 1
) -> events.WorkloadSubmitted:
    """The event that tells policy and the scheduler of a workload, or of its new generation."""
    message = events.WorkloadSubmitted(
        workload_id=workload_id,
        generation=generation,
        name=name,
        spec=draft.spec,
        owner=owner,
        project=draft.project.name,
        department=draft.project.department,
        asked_cluster=draft.cluster,
        tenancy_version=draft.project.version,
        origin=draft.origin,
        caused_by=caused_by,
        namespace=draft.project.namespace,
    )
    message.submitted_at.FromDatetime(now)
    if draft.base is not None:
        message.base_spec.CopyFrom(draft.base.spec)
        message.template_id = draft.base.template_id
        message.template_version = draft.base.version
    return message


def _publish(unit: Unit, workload_id: str, name: str, draft: Checked, order: Order) -> None:
    message = submitted(unit.now, workload_id, name, draft, order.owner, order.caused_by)
    unit.publish(SUBMISSIONS, workload_id, message)
