"""Lists and watches: pages, snapshots, changes, cursors that go on and cursors that are too old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest

from muster.api.v1 import workloads_pb2 as api
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis import identity
from tests.support.doors import Door, door, draft, key, moved, placed
from tests.support.waiting import eventually, until


@asynccontextmanager
async def watching(here: Door, **asked: Any) -> AsyncIterator[list[api.WatchWorkloadsResponse]]:
    """The items of a watch, as they come."""
    call = here.workloads.WatchWorkloads(api.WatchWorkloadsRequest(**asked))
    items: list[api.WatchWorkloadsResponse] = []

    async def read() -> None:
        async for item in call:
            items.append(item)  # noqa: PERF401 - it is looked at while it grows

    reading = asyncio.create_task(read())
    try:
        yield items
    finally:
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_watch_shows_everything_once(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        first = await here.submit(name="first")
        async with watching(here) as items:
            await until(lambda: len(items) == 2)
            assert [one.kind for one in items] == [api.WATCH_ITEM_KIND_SNAPSHOT, api.WATCH_ITEM_KIND_SNAPSHOT_END]
            assert items[0].workload.id == first.id
            second = await here.submit(name="second")
            await here.decide(first.id, placed(), moved(wl.PHASE_RUNNING), moved(wl.PHASE_COMPLETED))
            await until(lambda: len(items) == 6)
            changes = [(one.event, one.workload.name, one.workload.phase) for one in items[2:]]
            assert changes[0] == ("WorkloadSubmitted", "second", wl.PHASE_CREATING)
            assert changes[1:] == [
                ("WorkloadPlaced", "first", wl.PHASE_INITIALIZING),
                ("PhaseChanged", "first", wl.PHASE_RUNNING),
                ("PhaseChanged", "first", wl.PHASE_COMPLETED),
            ]
            assert items[3].text == "placed in cluster east, node pool default: 0 replicas"
            assert items[3].workload.spec == first.spec

        async with watching(here, cursor=items[3].cursor) as later:
            await until(lambda: len(later) == 2)
            assert later == items[4:]
            async with watching(here, cursor=items[1].cursor, workload=api.WorkloadRef(id=second.id)) as one:
                await until(lambda: len(one) == 1)
                assert one[0].workload.id == second.id
                await here.decide(second.id, moved(wl.PHASE_DELETED))
                await until(lambda: len(one) == 2 and len(later) == 3)  # both saw it leave
        listed = await here.workloads.ListWorkloads(api.ListWorkloadsRequest())
        assert [one.id for one in listed.workloads] == [first.id]
        assert listed.cursor == later[-1].cursor


async def test_old_and_foreign_cursors(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        for number in range(3):
            await here.submit(name=f"w-{number}")
        page = await here.workloads.ListWorkloads(api.ListWorkloadsRequest())
        while await here.app.reading.prune(identity.now() + timedelta(hours=1), 2):
            pass
        async with watching(here, cursor=page.cursor) as items:  # what was pruned had been seen
            made = await here.submit(name="new")
            await until(lambda: [one.workload.id for one in items] == [made.id])
        for cursor, code in (
            (str(int(page.cursor) - 1), grpc.StatusCode.FAILED_PRECONDITION),
            (str(int(page.cursor) + 1000), grpc.StatusCode.FAILED_PRECONDITION),
            ("-1", grpc.StatusCode.INVALID_ARGUMENT),
            ("9" * 30, grpc.StatusCode.INVALID_ARGUMENT),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(aiter(here.workloads.WatchWorkloads(api.WatchWorkloadsRequest(cursor=cursor))))
            assert refused.value.code() is code
            if code is grpc.StatusCode.FAILED_PRECONDITION:
                assert "list again" in (refused.value.details() or "")


async def test_many_watchers_and_a_snapshot_of_pages(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        drafts = [draft(name_prefix="w") for _ in range(700)]
        answer = await here.workloads.SubmitWorkloads(api.SubmitWorkloadsRequest(drafts=drafts, idempotency_key=key()))
        ids = [one.workload_id for one in answer.outcomes]
        async with watching(here) as one, watching(here) as two:
            await until(lambda: len(one) == 701 and len(two) == 701)
            assert [item.workload.id for item in one[:-1]] == ids[::-1]
            await asyncio.gather(*(here.decide(each, moved(wl.PHASE_RUNNING)) for each in ids[::7]))
            await until(lambda: len(one) == 801 and len(two) == 801)
            assert one == two
            assert {item.workload.id for item in one[701:]} == set(ids[::7])
            cursors = [int(item.cursor) for item in one[701:]]
            assert cursors == sorted(cursors)


async def test_filters_and_pages(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.project("team-b")
        made = [await here.submit(name=f"a-{number}") for number in range(5)]
        asked = api.SubmitWorkloadRequest(draft=draft(project="team-b", name="a-0"), idempotency_key=key())
        asked.draft.spec.kind = options_pb2.KIND_INFERENCE
        other = (await here.workloads.SubmitWorkload(asked)).workload
        await here.decide(made[0].id, moved(wl.PHASE_RUNNING))
        await here.decide(made[1].id, moved(wl.PHASE_DELETED))

        async def ids(size: int = 0, **wanted: Any) -> list[str]:
            found, token = [], ""
            while True:
                request = api.ListWorkloadsRequest(
                    filter=api.WorkloadFilter(**wanted), page_size=size, page_token=token
                )
                page = await here.workloads.ListWorkloads(request)
                found += [one.id for one in page.workloads]
                token = page.next_page_token
                if not token:
                    return found

        await eventually(lambda: here.get(made[1].id), lambda one: one.phase == wl.PHASE_DELETED)
        await eventually(lambda: here.get(made[0].id), lambda one: one.phase == wl.PHASE_RUNNING)
        left = [made[0].id, made[2].id, made[3].id, made[4].id]
        assert await ids(2) == [other.id, *left[::-1]]
        assert await ids(project="team-a") == left[::-1]
        assert await ids(1, phases=[wl.PHASE_RUNNING]) == [made[0].id]
        assert await ids(phases=[wl.PHASE_DELETED]) == [made[1].id]
        assert await ids(kinds=[options_pb2.KIND_INFERENCE]) == [other.id]
        assert await ids(name_prefix="a-0") == [other.id, made[0].id]
        assert len(await ids(include_deleted=True)) == 6
        assert await ids(filter_by=["name=$-0", "projectName==team-a"]) == [made[0].id]
        assert await ids(1, filter_by=["phase!=Running,type==Training"]) == left[:0:-1]
        page = await here.workloads.ListWorkloads(api.ListWorkloadsRequest(page_size=2))
        for wrong in (
            api.ListWorkloadsRequest(page_token=page.next_page_token, filter=api.WorkloadFilter(project="team-a")),
            api.ListWorkloadsRequest(page_token="nonsense"),
            api.ListWorkloadsRequest(page_size=501),
            api.ListWorkloadsRequest(filter=api.WorkloadFilter(project="\x00")),
            api.ListWorkloadsRequest(filter=api.WorkloadFilter(filter_by=["colour==red"])),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await here.workloads.ListWorkloads(wrong)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

        async def first(*conditions: str) -> api.WatchWorkloadsResponse:
            asked = api.WatchWorkloadsRequest(filter=api.WorkloadFilter(filter_by=conditions))
            return await anext(aiter(here.workloads.WatchWorkloads(asked)))

        assert (await first("name=$-0", "projectName==team-a")).workload.id == made[0].id
        with pytest.raises(grpc.aio.AioRpcError, match="a watch cannot filter by cluster"):
            await first("clusterId==71f69d83-ba66-4822-adf5-55ce55efd210")


async def test_a_stop_ends_watches_at_once(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        call = here.workloads.WatchWorkloads(api.WatchWorkloadsRequest())
        items = aiter(call)
        assert (await anext(items)).kind == api.WATCH_ITEM_KIND_SNAPSHOT_END
        here.app.feed.close()
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await anext(items)
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "watch again with the last cursor" in (ended.value.details() or "")
