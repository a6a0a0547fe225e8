"""WorkloadArchived, and admissions of workloads that are not known any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from muster.events.v1 import submission_pb2
from muster_chassis.database import OutcomeUnknown
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.topics import SUBMISSIONS
from muster_chassis.unit import Unit
from muster_scheduler import stream
from muster_scheduler.adapters.retired import RetiredRetention, oldest_admission
from muster_scheduler.domain import events
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.life.revival import submitted_before
from muster_scheduler.handlers import Handlers
from tests.support.fleets import START, Fleet, node, request, workload_id
from tests.unit.scheduler.test_handlers import Kept, Turn

NOW = datetime.fromtimestamp(START / SECOND, UTC)
OLDEST = timedelta(days=21)


def made_at(micros: int, version: int = 7) -> str:
    """An id of that version with the time of its submission."""
    milliseconds = f"{micros * 1000 // SECOND:012x}"
    return f"{milliseconds[:8]}-{milliseconds[8:]}-{version}000-8000-000000000001"


def admitted(name: str) -> events.Admitted:
    return Fleet(node("n1", 1)).admitted(1, request())._replace(workload=name)


def test_it_is_read_from_the_topic_of_submissions() -> None:
    message = submission_pb2.WorkloadArchived(workload_id=workload_id(1))
    kind, value = message.DESCRIPTOR.full_name, message.SerializeToString()
    headers = (("ce_id", workload_id(2).encode()), ("ce_type", kind.encode()), ("ce_source", b"submission"))
    read = stream.decoder()(Origin(SUBMISSIONS.name, 0, 0, b"", value, headers))
    assert stream.translate(read) == events.Archived(workload_id(1))
    wrong = submission_pb2.WorkloadArchived(workload_id="x")
    with pytest.raises(Reject, match="expected a UUID"):
        stream.translate(Event("id", kind, "submission", "a", 0, NOW, wrong, read.origin, None))


def test_what_has_ended_or_is_not_known_is_marked_and_what_lives_is_not() -> None:
    fleet = Fleet(node("n1", 2))
    for number in (1, 2):
        fleet.submit(number)
    fleet.finish(1)
    fleet.state.begin(fleet.now)
    for number in (1, 2, 3):
        fleet.state.apply(events.Archived(workload_id(number)))
    assert list(fleet.state.plan().touched.archived) == [workload_id(1), workload_id(3)]
    fleet.state.abort()
    assert not fleet.world.touched.archived


def test_only_an_id_with_a_time_is_old() -> None:
    before = START - 10 * SECOND
    names = [made_at(before - SECOND), made_at(before + SECOND), made_at(before - SECOND, version=4), "no id"]
    assert submitted_before([admitted(name) for name in names], before) == names[:1]
    assert not submitted_before([events.DeletionRequested("e", names[0])], before)


@pytest.mark.parametrize(("oldest", "older", "refused"), [(OLDEST, 60, True), (OLDEST, -60, False), (None, 60, False)])
async def test_an_old_admission_of_an_unknown_workload_is_refused(
    oldest: timedelta | None, older: int, *, refused: bool
) -> None:
    fleet, unit = Fleet(node("n1", 1)), cast("Unit", Turn(NOW))
    store = Kept()
    handlers = Handlers(fleet.state, store, store, lambda _: None, oldest_admission=oldest)
    name = made_at(START - int(OLDEST.total_seconds() + older) * SECOND)
    if refused:
        with pytest.raises(Reject, match=r"submitted more than 21 days ago: it may have ended"):
            await handlers.transact(unit, [admitted(name)])
    else:
        await handlers.transact(unit, [admitted(name)])
    assert (name in fleet.world.workloads) is not refused


async def test_one_that_is_known_is_never_too_old() -> None:
    fleet, turn = Fleet(node("n1", 1)), Turn(NOW)
    store = Kept()
    handlers = Handlers(fleet.state, store, store, lambda _: None, oldest_admission=OLDEST)
    name = made_at(START - 2 * int(OLDEST.total_seconds()) * SECOND)
    fleet.send(events.DeletionRequested("e", name))
    await handlers.transact(cast("Unit", turn), [admitted(name)])
    assert store.plans[0].decisions == ()


def test_a_short_retention_leaves_a_day_for_a_backlog() -> None:
    assert oldest_admission(timedelta(days=7)) == OLDEST
    assert oldest_admission(timedelta(seconds=60)) == timedelta(days=1)


async def test_nothing_is_removed_where_the_outcome_of_a_renewal_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def renew(_: RetiredRetention) -> int:
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(RetiredRetention, "_renew", renew)
    with pytest.raises(TimeoutError, match="could not be kept: no answer"):
        await RetiredRetention(cast("Any", None)).round()
