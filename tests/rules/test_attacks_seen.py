"""What a reader may learn of work that he may not see (A8, A9): each attack works once its guard is taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import scheduler_pb2 as told
from muster.workload.v1 import workload_pb2 as wl
from muster_kernel.reasons import HIDDEN, PreemptionCause
from muster_scheduler.adapters import explaining
from muster_scheduler.domain.answers.explain import explain
from muster_scheduler.domain.answers.viewing import Viewer
from muster_submission.domain.others import Other
from tests.support.access_calls import House, house, submit
from tests.support.doors import moved, placed
from tests.support.fleets import Fleet, node, request, role, whole
from tests.support.waiting import eventually

TAKER: Final = "secret-taker"
VIEWER: Final = "viewer@project/vision"
ADMIN: Final = "system-admin@tenant"


async def preempt(here: House) -> wl.Workload:
    """A workload of another project takes the place of the one in view."""
    began = moved(wl.PHASE_RUNNING)
    taker = await submit(here.door, "web", TAKER, here.metadata(ADMIN))
    why = wl.Reason(message=PreemptionCause.RECLAIM.sentence, other_workload_id=taker.id)
    event = told.WorkloadPreempted(generation=1, attempt=1, by=taker.id, why=why)
    event.cause = told.PREEMPTION_CAUSE_RECLAIM
    ending = moved(wl.PHASE_TERMINATING, reason=wl.Reason(code="Preempted", message=f"it {why.message}"))
    ending.reason.other_workload_id = taker.id
    await here.door.decide(here.seen.id, placed(), began, event, ending)

    async def ended() -> bool:
        row = await here.door.app.reading.by_id(here.seen.id)
        return row is not None and row.phase == wl.PHASE_TERMINATING

    await eventually(ended)
    return taker


async def read_everywhere(here: House, who: str) -> dict[str, str]:
    """All that a reader is shown of the workload that lost its place, by the way that he took."""
    metadata, headers, ref = here.metadata(who), here.headers(who), api.WorkloadRef(id=here.seen.id)
    calls = here.door.workloads
    got = await calls.GetWorkload(api.GetWorkloadRequest(workload=ref), metadata=metadata)
    found = {
        "get": str(got),
        "list": str(await calls.ListWorkloads(api.ListWorkloadsRequest(), metadata=metadata)),
        "events": str(await calls.ListWorkloadEvents(api.ListWorkloadEventsRequest(workload=ref), metadata=metadata)),
    }
    listed = await here.door.app.reading.reach()
    for way, cursor in (("watch", ""), ("changes", str(listed.floor))):
        call = calls.WatchWorkloads(api.WatchWorkloadsRequest(workload=ref, cursor=cursor), metadata=metadata)
        found[way] = ""
        async for item in call:
            found[way] += str(item)
            if item.kind == api.WATCH_ITEM_KIND_SNAPSHOT_END or (
                item.event == "PhaseChanged" and "Terminating" in item.text
            ):
                break
        call.cancel()
    for path in ("", f"/{here.seen.id}", f"/{here.seen.id}/events", f"/{here.seen.id}/history"):
        found[f"REST {path}"] = (await here.door.http.get(f"/api/v1/workloads{path}", headers=headers)).text
    return found


async def test_the_takers_name_is_told_to_those_alone_who_may_read_it(
    database: Any, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(database, kafka, tmp_path) as here:
        taker = await preempt(here)
        shown = await read_everywhere(here, VIEWER)
        assert [way for way, text in shown.items() if TAKER in text or taker.id in text] == []
        assert [way for way, text in shown.items() if HIDDEN not in text] == []
        known = await read_everywhere(here, ADMIN)
        assert [way for way, text in known.items() if TAKER not in text] == []
        got = await here.door.workloads.GetWorkload(
            api.GetWorkloadRequest(workload=api.WorkloadRef(id=here.seen.id)), metadata=here.metadata(ADMIN)
        )
        (attempt,) = got.workload.attempts
        assert (attempt.number, attempt.cause.other_workload_id) == (1, taker.id)
        assert attempt.running_at.ToDatetime() <= attempt.ended_at.ToDatetime()
        # Without the guard, the same reader learns the name by every way.
        monkeypatch.setattr(Other, "seen", lambda _self, _scope: True)
        assert [way for way, text in (await read_everywhere(here, VIEWER)).items() if TAKER not in text] == []


def test_a_departments_figures_are_told_once_nothing_asks_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(node("n1", 8))
    fleet.department("d", {"default": 6})
    for project in ("a", "b"):
        fleet.project(project, {"default": 4})
    fleet.submit(1, request(role(whole(3)), preemptible=False), project="b")
    fleet.submit(2, request(role(whole(4)), preemptible=False), project="a")
    reader = Viewer(frozenset({"a"}))

    def shown() -> str:
        return str(explaining.explanation(fleet.workload(2), explain(fleet.world, fleet.workload(2), reader)))

    assert "uses 3 of the 6 GPUs" not in shown()
    assert "department: true" not in shown()
    # Without the guard the same reader learns what the department holds, and so what the other project does.
    monkeypatch.setattr(Viewer, "sees_department", lambda _self, _name: True)
    assert "uses 3 of the 6 GPUs" in shown()
    assert "department: true" in shown()
