"""What happened to a workload: its events as pages, and its starts.

Called by WorkloadsService. Holds: another workload is named only to a caller who may read it.
"""

from __future__ import annotations

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.lifecycle import Phase
from muster_submission.adapters.reading import Happened, Reading
from muster_submission.adapters.views import stamp
from muster_submission.domain import attempts as a
from muster_submission.domain import phases
from muster_submission.domain.access import Verb
from muster_submission.domain.cursors import page_token
from muster_submission.domain.others import filled
from muster_submission.handlers.access import Rights
from muster_submission.rpc.naming import Scope, name_other
from muster_submission.rpc.reading import find, number_of, page_of


class Happenings:
    """Reads histories."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    async def page(self, request: api.ListWorkloadEventsRequest, rights: Rights) -> api.ListWorkloadEventsResponse:
        """A page of events, the beginning last. Raises BadQuestion, NoSuchWorkload."""
        shown = await find(self._reading, request.workload, rights)
        size, after = page_of(request.page_size, request.page_token, shown.id.encode())
        # One more than a page shows whether another follows; behind the last entry comes the beginning.
        if after:
            found = await self._reading.history_before(shown.id, number_of(after), size + 1)
        else:
            found = await self._reading.history(shown.id, 0, size + 1)
        scope = rights.projects(Verb.WORKLOADS_READ)
        events = [_event(one, scope) for one in found[:size]]
        more = len(found) > size
        if not more and len(events) < size:
            events.append(_beginning(shown))
        elif not more:
            more = True
        token = page_token(str(found[len(events) - 1].seq), shown.id.encode()) if more else ""
        return api.ListWorkloadEventsResponse(events=events, next_page_token=token)

    async def add_attempts(self, shown: wl.Workload, rights: Rights) -> None:
        """Writes its last starts into a workload."""
        scope = rights.projects(Verb.WORKLOADS_READ)
        steps = [_step(one) for one in await self._reading.runs(shown.id, a.STEPS)]
        shown.attempts.extend(_attempt(one, scope) for one in a.attempts(steps))


def _event(one: Happened, scope: Scope) -> api.WorkloadEvent:
    return api.WorkloadEvent(
        number=one.seq,
        at=stamp(one.at),
        event=one.event,
        text=filled(one.text, one.other, scope),
        previous=one.previous,  # type: ignore[arg-type]  # a number of the enumeration, as the tables have it
        phase=one.phase,  # type: ignore[arg-type]
        reason=one.reason,
        cluster=one.cluster,
        attempt=one.attempt,
        other_workload_id=one.other.id if one.other is not None and one.other.seen(scope) else "",
    )


def _beginning(shown: wl.Workload) -> api.WorkloadEvent:
    return api.WorkloadEvent(
        at=shown.created_at, event="WorkloadSubmitted", text="acknowledged", phase=wl.PHASE_CREATING
    )


def _step(one: Happened) -> a.Step:
    after = phases.phase(one.phase) or Phase.UNKNOWN
    return a.Step(one.at, one.attempt, phases.phase(one.previous), after, one.cluster, one.reason, one.text, one.other)


def _attempt(one: a.Attempt, scope: Scope) -> wl.Attempt:
    made = wl.Attempt(number=one.number, cluster=one.cluster, placed_at=stamp(one.placed))
    if one.running is not None:
        made.running_at.CopyFrom(stamp(one.running))
    if one.ended is not None and one.why is not None:
        made.ended_at.CopyFrom(stamp(one.ended))
        # The sentence of the history begins with the phases, which the times tell already.
        made.cause.code, made.cause.message = one.why.code, one.why.text.partition(": ")[2] or one.why.text
        name_other(made.cause, one.why.other, scope)
    return made
