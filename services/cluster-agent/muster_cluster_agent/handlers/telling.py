"""What the agent tells: how replicas stand, what is held, what the cluster consists of, and what it will not do.

Used by the agent alone. Holds: a status is told again until the bus has it on its disks; GONE comes last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from muster_cluster_agent.domain.actions import Absent, NothingHere, Refuse
from muster_cluster_agent.domain.fleet import Fleet, difference
from muster_cluster_agent.domain.model import Assignment, Failure, NodeView, Observed, ReplicaKey, State, Status
from muster_cluster_agent.domain.plan import ReplicaPlan
from muster_cluster_agent.domain.reports import ReportBook
from muster_cluster_agent.domain.status import attributed, judge
from muster_cluster_agent.handlers.agenda import Agenda, Case
from muster_cluster_agent.ports import (
    Backend,
    BeatReport,
    Held,
    HeldReport,
    InventoryReport,
    RefusalReport,
    Reporter,
    StatusReport,
)

_LOG_TAIL: Final = 4096
_HELD_WITH_STATUSES: Final = 500


class Telling:
    """The agent's voice. `ended` is called for each replica that is GONE, before that is told."""

    def __init__(self, backend: Backend, reporter: Reporter, agenda: Agenda) -> None:
        self.book = ReportBook()
        self.ended: Callable[[Observed], None] | None = None
        self._backend = backend
        self._reporter = reporter
        self._agenda = agenda
        self._fleet: Fleet | None = None

    async def beat(self, *, sound: bool) -> None:
        """A sign of life; `sound`: whether the back end answers."""
        dead_man = await self._backend.dead_man()
        self._reporter.tell(BeatReport(sent_at=time.monotonic(), healthy=sound, dead_man=dead_man))

    def refuse(self, refusal: Refuse) -> None:
        """A record that could not be understood."""
        self._reporter.tell(RefusalReport(refusal))

    def refuse_once(self, case: Case, refusal: Refuse) -> None:
        """A refusal, unless the same was told of this record; what differs in its message alone is the same."""
        said = replace(refusal, message="")
        if said not in case.refused:
            case.refused.add(said)
            self._reporter.tell(RefusalReport(refusal, case.traceparent))

    def nothing_here(self, case: Case, action: NothingHere) -> None:
        """Nothing of that run is here, or will be."""
        case.answered = True
        self._reporter.tell(StatusReport(_nothing(action), traceparent=case.traceparent))

    def absent(self, case: Case, action: Absent) -> None:
        """A replica that is waited for is not here."""
        case.denied.add(action.name)
        self._reporter.tell(StatusReport(_not_here(action, action.message), traceparent=case.traceparent))

    def was_here(self, case: Case, plan: ReplicaPlan, message: str) -> None:
        """A replica of that name has been here before, and is gone."""
        self._reporter.tell(StatusReport(_not_here(plan, message), traceparent=case.traceparent))

    async def everything(self, nodes: Mapping[str, NodeView], *, epoch: int, held: bool) -> None:
        """The full inventory and, where it is known (`held`), everything that is held."""
        self._fleet = await self._backend.fleet()
        self._reporter.tell(InventoryReport(self._fleet))
        if held:
            self._reporter.tell(HeldReport(await self._held(nodes), epoch))

    async def fleet(self) -> None:
        """What has changed in the cluster since it was told."""
        fleet = await self._backend.fleet()
        if self._fleet is None or fleet == self._fleet:
            return
        changed = difference(self._fleet, fleet)
        self._fleet = fleet
        self._reporter.tell(InventoryReport(fleet, changed))

    async def statuses(self, case: Case, observed: Iterable[Observed], nodes: Mapping[str, NodeView]) -> None:
        """How the replicas of one workload stand, where that is not known yet."""
        for replica in observed:
            status = judge(attributed(replica, case.desired), nodes.get(replica.node))
            due = self.book.due(status)
            if not due:
                continue
            if status.state is State.GONE and self.ended is not None:
                self.ended(replica)
            tail = b""
            # Of a replica that was stopped the last lines say nothing of its end, and cost a call.
            if any(one.state is State.FAILED and one.failure is not Failure.OURS for one in due):
                tail = await self._backend.log_tail(replica.name, _LOG_TAIL)
            for one in due:
                self._reporter.tell(
                    StatusReport(
                        one,
                        endpoints=replica.service if one.state is State.READY else (),
                        without_effect=case.without_effect if one.state is State.READY else "",
                        folders=replica.folders if one.state is State.READY else (),
                        log_tail=tail if one.state is State.FAILED else b"",
                        traceparent=case.traceparent,
                    )
                )

    async def _held(self, nodes: Mapping[str, NodeView]) -> tuple[Held, ...]:
        """What the assignments say should be here, and what is here without one.

        Of very many the statuses are left out: each was told by itself, and they would be told again every 5 minutes.
        """
        by_run: dict[tuple[str, int, int], list[Status]] = {}
        for replica in await self._backend.list():
            case = self._agenda.known(replica.workload_id)
            found = replica if case is None else attributed(replica, case.desired)
            status = judge(found, nodes.get(replica.node))
            by_run.setdefault((status.workload_id, status.generation, status.attempt), []).append(status)
        for workload_id, case in self._agenda.items():
            if isinstance(case.desired, Assignment):
                for revision in case.desired.revisions:
                    by_run.setdefault((workload_id, *revision.key), [])
        brief = len(by_run) > _HELD_WITH_STATUSES
        return tuple(
            Held(workload_id, generation, attempt, self._epoch_of(workload_id), () if brief else tuple(statuses))
            for (workload_id, generation, attempt), statuses in by_run.items()
        )

    def _epoch_of(self, workload_id: str) -> int:
        case = self._agenda.known(workload_id)
        return case.desired.epoch if case is not None and case.desired is not None else 0


def _nothing(action: NothingHere) -> Status:
    """Without a name and a role: nothing of this run is, or will be, here."""
    run = ReplicaKey("", action.workload_id, action.generation, action.attempt, "", 0, 0, "")
    return _not_here(run, "nothing of this run is in the cluster")


def _not_here(replica: ReplicaKey, message: str) -> Status:
    return Status(*replica.identity, state=State.GONE, evidence="no-process", message=message)
