"""The SDK over a real gRPC server: one key for all attempts, errors by name, watches that mend themselves."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2

from muster.api.v1 import workloads_pb2
from muster.workload.v1 import workload_pb2
from muster_client import (
    AlreadyExists,
    Broken,
    CursorTooOld,
    InvalidInput,
    Muster,
    MusterError,
    NotFound,
    NotNow,
    Patience,
    Phase,
    TimedOut,
    Unauthenticated,
    Unavailable,
    WaitTimedOut,
    pool_quota,
)
from tests.support.plane_world import Failure, World, bad_request

DOCUMENT = "metadata:\n  name: bert\n"
UNAVAILABLE = Failure(code_pb2.UNAVAILABLE, "restarting")


async def test_an_answer_that_was_lost_is_asked_for_again_under_the_same_key(server: str, world: World) -> None:
    world.fail("SubmitWorkload", Failure(code_pb2.UNAVAILABLE, "the answer is lost", after=True), times=2)
    async with Muster(server) as muster:
        workload = await muster.submit(DOCUMENT, project="team-a")
    keys = [request.idempotency_key for request in world.asked("SubmitWorkload")]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert list(world.workloads) == [workload.id], "it was done once"


async def test_every_submission_has_a_key_of_its_own(server: str, world: World) -> None:
    async with Muster(server) as muster:
        await muster.submit(DOCUMENT)
        await muster.submit(DOCUMENT)
        await muster.submit(DOCUMENT, key="mine")
    first, second, mine = (request.idempotency_key for request in world.asked("SubmitWorkload"))
    assert first != second
    assert mine == "mine"


async def test_the_callers_own_wait_is_respected(
    server: str, world: World, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "muster_client")
    told: list[MusterError] = []
    world.fail("GetWorkload", UNAVAILABLE, times=1000)
    async with Muster(server, patience=Patience(whole=0.3), on_retry=told.append) as muster:
        with pytest.raises(Unavailable, match="restarting"):
            await muster.get("x", project="team-a")
    assert len(world.asked("GetWorkload")) > 1
    assert told
    assert {record.levelname for record in caplog.records if "asking again" in record.message} == {"DEBUG"}
    assert "".join(capfd.readouterr()) == ""


async def test_a_call_without_an_answer_ends_at_its_deadline(server: str, world: World) -> None:
    world.watches.append([])
    async with Muster(server, patience=Patience(attempt=0.05, whole=0.1)) as muster:
        world.fail("GetWorkload", Failure(code_pb2.DEADLINE_EXCEEDED, "too slow"), times=1000)
        with pytest.raises(TimedOut):
            await muster.get("x", project="team-a")


async def test_nobody_listens(world: World) -> None:
    async with Muster("127.0.0.1:1", patience=Patience(whole=0.2)) as muster:
        with pytest.raises(Unavailable, match=r"the control plane at 127\.0\.0\.1:1 does not answer"):
            await muster.get("x", project="team-a")


async def test_no_address_is_known(world: World) -> None:
    with pytest.raises(Unavailable, match="muster up"):
        Muster()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (code_pb2.INVALID_ARGUMENT, InvalidInput),
        (code_pb2.NOT_FOUND, NotFound),
        (code_pb2.ALREADY_EXISTS, AlreadyExists),
        (code_pb2.FAILED_PRECONDITION, NotNow),
        (code_pb2.INTERNAL, Broken),
        (code_pb2.DATA_LOSS, Broken),
    ],
)
async def test_errors_have_names(server: str, world: World, code: int, kind: type[MusterError]) -> None:
    world.fail("GetWorkload", Failure(code, "so it is"))
    async with Muster(server) as muster:
        with pytest.raises(kind, match="so it is"):
            await muster.get("x", project="team-a")
    assert len(world.asked("GetWorkload")) == 1, "what cannot change is not asked again"


async def test_every_violation_arrives(server: str, world: World) -> None:
    details = [bad_request(("spec.gpu", "1.5 is not a GPU request"), ("spec.image", "missing"))]
    world.fail("SubmitWorkload", Failure(code_pb2.INVALID_ARGUMENT, "2 errors", details))
    async with Muster(server) as muster:
        with pytest.raises(InvalidInput) as caught:
            await muster.submit(DOCUMENT)
    assert [each.path for each in caught.value.violations] == ["spec.gpu", "spec.image"]


async def test_located_violations_win_over_plain_ones(server: str, world: World) -> None:
    located = workloads_pb2.Violation(path="spec.gpu", message="no", line=7, column=3)
    details = [bad_request(("spec.gpu", "no")), located]
    world.fail("SubmitWorkload", Failure(code_pb2.INVALID_ARGUMENT, "1 error", details))
    async with Muster(server) as muster:
        with pytest.raises(InvalidInput) as caught:
            await muster.submit(DOCUMENT)
    (violation,) = caught.value.violations
    assert (violation.line, violation.column) == (7, 3)


@pytest.mark.parametrize("token", ["sëcret", "secret\n", "sec\x00ret"])
async def test_a_token_that_no_header_can_carry_is_said_and_not_shown(server: str, world: World, token: str) -> None:
    async with Muster(server, token) as muster:
        with pytest.raises(Unauthenticated, match="printable ASCII") as refused:
            await muster.submit(DOCUMENT)
        with pytest.raises(Unauthenticated, match="printable ASCII"):
            await anext(muster.watch())
    assert token not in str(refused.value)
    assert not world.calls


async def test_the_service_that_is_down_is_named(server: str, world: World) -> None:
    detail = error_details_pb2.ErrorInfo(reason="SERVICE_DOWN", metadata={"service": "scheduler"})
    world.fail("Why", Failure(code_pb2.UNAVAILABLE, "scheduler does not answer", [detail]), times=1000)
    async with Muster(server, patience=Patience(whole=0.1)) as muster:
        with pytest.raises(Unavailable) as caught:
            await muster.why("x", project="team-a")
    assert caught.value.service == "scheduler"


async def test_a_limit_says_when_to_come_back(server: str, world: World) -> None:
    detail = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=50_000_000))
    world.fail("SubmitWorkload", Failure(code_pb2.RESOURCE_EXHAUSTED, "the queue is full", [detail]))
    async with Muster(server) as muster:
        await muster.submit(DOCUMENT)
    assert len(world.asked("SubmitWorkload")) == 2


async def test_bulk_answers_for_each(server: str, world: World) -> None:
    async with Muster(server) as muster:
        first, second = await muster.submit_many([DOCUMENT, DOCUMENT], project="team-a")
    assert isinstance(first, str)
    assert isinstance(second, InvalidInput)
    assert second.violations[0].line == 3


async def test_a_list_goes_over_its_pages(server: str, world: World) -> None:
    for number in range(5):
        world.add(f"w{number}")
    async with Muster(server) as muster:
        names = [each.name async for each in muster.list(page_size=2)]
    assert names == [f"w{number}" for number in range(5)]
    assert len(world.asked("ListWorkloads")) == 3


def _item(
    kind: int, cursor: str, workload: workload_pb2.Workload | None = None
) -> workloads_pb2.WatchWorkloadsResponse:
    return workloads_pb2.WatchWorkloadsResponse(kind=kind, cursor=cursor, workload=workload)  # type: ignore[arg-type]


SNAPSHOT = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT
SNAPSHOT_END = workloads_pb2.WATCH_ITEM_KIND_SNAPSHOT_END
CHANGE = workloads_pb2.WATCH_ITEM_KIND_CHANGE


async def _take(muster: Muster, count: int, cursor: str = "") -> list[str]:
    taken: list[str] = []
    async for item in muster.watch(cursor=cursor):
        taken.append(item.cursor)
        if len(taken) == count:
            break
    return taken


async def test_a_watch_goes_on_after_its_last_item(server: str, world: World) -> None:
    world.watches += [
        [_item(SNAPSHOT_END, "1"), _item(CHANGE, "2"), UNAVAILABLE],
        [_item(CHANGE, "3")],  # ends in good order, as a server does that stops
        [_item(CHANGE, "4")],
    ]
    async with Muster(server) as muster:
        assert await _take(muster, 4) == ["1", "2", "3", "4"]
    assert [request.cursor for request in world.asked("WatchWorkloads")] == ["", "2", "3"]


async def test_a_snapshot_that_broke_begins_anew(server: str, world: World) -> None:
    world.watches += [[_item(SNAPSHOT, "9"), UNAVAILABLE], [_item(SNAPSHOT, "9"), _item(SNAPSHOT_END, "9")]]
    async with Muster(server) as muster:
        await _take(muster, 3)
    assert [request.cursor for request in world.asked("WatchWorkloads")] == ["", ""]


async def test_our_own_cursor_grown_too_old_means_a_new_snapshot(server: str, world: World) -> None:
    old = Failure(code_pb2.FAILED_PRECONDITION, "the cursor is too old: list again")
    world.watches += [[_item(SNAPSHOT_END, "1"), UNAVAILABLE], [old], [_item(SNAPSHOT_END, "7")]]
    async with Muster(server) as muster:
        assert await _take(muster, 2) == ["1", "7"]


async def test_the_callers_cursor_grown_too_old_is_said(server: str, world: World) -> None:
    world.watches.append([Failure(code_pb2.FAILED_PRECONDITION, "the cursor is too old: list again")])
    async with Muster(server) as muster:
        with pytest.raises(CursorTooOld):
            await _take(muster, 1, cursor="3")


async def test_wait_ends_with_the_phase(server: str, world: World) -> None:
    workload = world.add("w", phase=workload_pb2.PHASE_PENDING)
    running = workload_pb2.Workload(id=workload.id, name="w", phase=workload_pb2.PHASE_RUNNING)
    world.watches.append([_item(SNAPSHOT, "1", workload), _item(SNAPSHOT_END, "1"), _item(CHANGE, "2", running)])
    async with Muster(server) as muster:
        seen = await muster.wait(workload.id, phases={Phase.RUNNING}, timeout=10)
    assert seen.phase == workload_pb2.PHASE_RUNNING


async def test_wait_ends_with_a_final_phase_too(server: str, world: World) -> None:
    workload = world.add("w", phase=workload_pb2.PHASE_FAILED)
    async with Muster(server) as muster:
        seen = await muster.wait(workload.id, phases={Phase.RUNNING}, timeout=10)
    assert seen.phase == workload_pb2.PHASE_FAILED


async def test_wait_gives_up(server: str, world: World) -> None:
    workload = world.add("w")
    async with Muster(server) as muster:
        with pytest.raises(WaitTimedOut, match="it is Pending") as caught:
            await muster.wait(workload.id, timeout=0.2)
    assert caught.value.phase == "Pending"


async def test_wait_for_nothing_that_is_there(server: str, world: World) -> None:
    async with Muster(server) as muster:
        with pytest.raises(NotFound):
            await muster.wait("nobody", project="team-a", timeout=10)


async def test_many_calls_at_once(server: str, world: World) -> None:
    async with Muster(server) as muster:
        made = await asyncio.gather(*(muster.submit(DOCUMENT) for _ in range(20)))
    assert len({each.id for each in made}) == len(set(itertools.chain(world.workloads)))


@pytest.mark.parametrize(("gpus", "units"), [(4, 28_000), ("0.5", 3_500), (0.1, 700), (0, 0)])
def test_a_quota_is_exact(gpus: float | str, units: int) -> None:
    assert pool_quota("default", gpus).gpu_deserved == units


@pytest.mark.parametrize("gpus", ["-1", "many", "0.00001"])
def test_a_quota_that_is_none(gpus: str) -> None:
    with pytest.raises(ValueError, match="not a number of GPUs"):
        pool_quota("default", gpus)
