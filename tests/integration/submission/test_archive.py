"""The archive on a real PostgreSQL: what is over moves there, looks as before, frees its name, and goes in the end."""

from __future__ import annotations

import errno
import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyarrow import parquet

from muster.api.v1 import workloads_pb2 as api
from muster.events.v1 import submission_pb2, telemetry_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.health import Health
from muster_chassis.topics import ADVICE, SUBMISSIONS
from muster_submission.adapters.exporting import Exporter
from muster_submission.handlers.archiving import Archiving, Plan
from tests.support.doors import PROJECT, Door, door, key, moved, placed
from tests.support.waiting import eventually

AT_ONCE = Plan(after=timedelta(0))


def archiving(here: Door, plan: Plan, health: Health | None = None) -> Archiving:
    exporter = Exporter(here.app.database.pool)
    return Archiving(here.app.database, here.app.archive, exporter.month, plan, health or Health())


async def ended(here: Door, name: str, *phases: wl.Phase.ValueType, **spec: Any) -> wl.Workload:
    """A workload that was placed, and then in these phases, as it is shown."""
    made = await here.submit(name=name, **spec)
    await here.admit(made)
    await here.decide(made.id, placed(), *map(moved, phases))
    await eventually(lambda: here.get(made.id), lambda one: one.phase == phases[-1])
    return await shown(here, made.id)


async def shown(here: Door, workload_id: str) -> wl.Workload:
    asked = api.GetWorkloadRequest(workload=api.WorkloadRef(id=workload_id))
    return (await here.workloads.GetWorkload(asked)).workload


async def events(here: Door, workload_id: str, size: int = 50) -> list[api.WorkloadEvent]:
    asked = api.ListWorkloadEventsRequest(workload=api.WorkloadRef(id=workload_id), page_size=size)
    found: list[api.WorkloadEvent] = []
    while True:
        page = await here.workloads.ListWorkloadEvents(asked)
        found += page.events
        if not page.next_page_token:
            return found
        asked.page_token = page.next_page_token


async def archived(here: Door, **asked: Any) -> list[str]:
    """The names in the archive, page by page."""
    request = api.ListArchivedWorkloadsRequest(**({"page_size": 1} | asked))
    names = []
    while True:
        page = await here.workloads.ListArchivedWorkloads(request)
        names += [one.name for one in page.workloads]
        if not page.next_page_token:
            return names
        request.page_token = page.next_page_token


async def rows(here: Door) -> dict[str, int]:
    """How many rows the tables have in which workloads live."""
    tables = ("workloads", "workload_list", "workload_specs", "workload_history", "usage", "applied", "secrets")
    return {
        table: await here.app.database.pool.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - a constant
        for table in tables
    }


async def test_what_is_over_is_shown_as_before_and_its_name_is_free(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        done = await ended(here, "done", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        goes_on = await ended(here, "goes-on", wl.PHASE_RUNNING)
        told = await events(here, done.id)
        assert len(told) > 3
        await here.app.database.pool.execute("INSERT INTO usage VALUES ($1, $2, 'done', 7.5, now())", done.id, PROJECT)

        await archiving(here, AT_ONCE).round()
        assert await archived(here) == ["done"]
        assert await shown(here, done.id) == done
        assert await events(here, done.id) == told
        assert await events(here, done.id, size=2) == told
        assert await shown(here, goes_on.id) == goes_on
        listed = await here.workloads.ListWorkloads(api.ListWorkloadsRequest())
        assert [one.name for one in listed.workloads] == ["goes-on"]
        left = await rows(here)
        assert (left["workloads"], left["workload_list"], left["workload_specs"], left["usage"]) == (1, 1, 1, 0)
        assert await here.app.database.pool.fetchval("SELECT gpu_seconds FROM archive") == 7.5
        by_rest = await here.http.get(f"/api/v1/workloads/{done.id}/history")
        assert by_rest.status_code == 200
        assert by_rest.json()["records"]

        again = await here.submit(name="done")
        assert again.id != done.id
        named = api.GetWorkloadRequest(workload=api.WorkloadRef(project=PROJECT, name="done"))
        assert (await here.workloads.GetWorkload(named)).workload.id == again.id


async def test_policy_is_told_once(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        done = await ended(here, "done", wl.PHASE_RUNNING, wl.PHASE_FAILED)
        await archiving(here, AT_ONCE).round()
        await archiving(here, AT_ONCE).round()
        told = await here.app.database.pool.fetch(
            "SELECT version, value FROM outbox WHERE topic = $1 AND type = $2",
            SUBMISSIONS.name,
            submission_pb2.WorkloadArchived.DESCRIPTOR.full_name,
        )
        assert [submission_pb2.WorkloadArchived.FromString(row["value"]).workload_id for row in told] == [done.id]
        assert told[0]["version"] == 0
        over = await here.app.database.pool.fetch("SELECT aggregate FROM ended_aggregates")
        assert [row["aggregate"] for row in over] == [done.id]


async def test_pages_keep_to_project_name_and_time(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await here.project("team-b")
        for number in range(3):
            await ended(here, f"done-{number}", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        await ended(here, "other", wl.PHASE_COMPLETED, project="team-b")
        await archiving(here, AT_ONCE).round()
        assert await archived(here) == ["other", "done-2", "done-1", "done-0"]
        assert await archived(here, project=PROJECT) == ["done-2", "done-1", "done-0"]
        assert await archived(here, name="done-1", page_size=2) == ["done-1"]
        assert await archived(here, project="team-c") == []
        first = (await here.workloads.ListArchivedWorkloads(api.ListArchivedWorkloadsRequest(name="done-1"))).workloads
        at = first[0].finished_at
        assert await archived(here, project=PROJECT, ended_since=at) == ["done-2", "done-1"]
        assert await archived(here, project=PROJECT, ended_before=at) == ["done-0"]
        page = await here.workloads.ListArchivedWorkloads(api.ListArchivedWorkloadsRequest(page_size=1))
        of_another: dict[str, Any] = {"project": PROJECT, "page_token": page.next_page_token}
        for wrong in (of_another, {"page_token": "x"}, {"name": "\0"}):
            request = api.ListArchivedWorkloadsRequest(**({"page_size": 1} | wrong))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await here.workloads.ListArchivedWorkloads(request)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_archived_work_is_deleted_here_alone_and_cannot_be_resumed(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        first = await ended(here, "first", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        later = await ended(here, "later", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        await archiving(here, AT_ONCE).round()
        ref = api.WorkloadRef(id=first.id)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await here.workloads.ResumeWorkload(api.ResumeWorkloadRequest(workload=ref, idempotency_key=key()))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        requests = "SELECT count(*) FROM outbox WHERE type LIKE '%Requested'"
        asked = await here.app.database.pool.fetchval(requests)
        gone = await here.workloads.DeleteWorkload(api.DeleteWorkloadRequest(workload=ref, idempotency_key=key()))
        assert gone.workload.phase == wl.PHASE_DELETED
        assert (
            await here.app.database.pool.fetchval("SELECT count(*) FROM outbox WHERE type LIKE '%Requested'") == asked
        )
        assert await archived(here) == ["later"]
        assert await archived(here, include_deleted=True) == ["later", "first"]
        assert await here.app.secrets.deleted([first.id, later.id]) == {first.id: True, later.id: False}
        # The scheduler deletes by itself what asked for that, whenever it ended.
        await here.decide(later.id, moved(wl.PHASE_DELETING), moved(wl.PHASE_DELETED))
        assert await eventually(lambda: archived(here), lambda names: not names) == []


async def test_an_account_that_comes_late_brings_no_row_back(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        done = await ended(here, "done", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        alive = await ended(here, "alive", wl.PHASE_RUNNING)
        await archiving(here, AT_ONCE).round()
        async with here.policy.database.unit() as unit:  # whoever sends it
            for one in (done, alive):
                told = telemetry_pb2.UsageAccounted(
                    workload_id=one.id, project=PROJECT, name=one.name, gpu_seconds=3, until=one.created_at
                )
                unit.publish(ADVICE, one.id, told, versioned=False)
        pool = here.app.database.pool

        async def counted() -> list[str]:
            return [row["id"] for row in await pool.fetch("SELECT workload_id::text AS id FROM usage")]

        assert await eventually(counted) == [alive.id]


def _files(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


async def _aged(here: Door, *names: str) -> None:
    """Archived workloads that ended 100 days ago."""
    for name in names:
        await ended(here, name, wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
    await here.app.database.pool.execute("UPDATE workloads SET finished_at = now() - interval '100 days' WHERE ended")
    await archiving(here, AT_ONCE).round()
    assert sorted(await archived(here)) == sorted(names)


async def test_what_is_too_old_is_written_and_dropped_by_the_month(database: Any, kafka: str, tmp_path: Path) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await _aged(here, "old", "older")
        await ended(here, "young", wl.PHASE_COMPLETED)
        health = Health()
        closed = tmp_path / "closed"
        closed.write_text("no folder")
        for folder in (closed, tmp_path / "missing"):
            await archiving(here, Plan(timedelta(0), timedelta(days=30), folder), health).round()
            assert "nothing is removed from the archive" in health.waiting["archive"]
            assert sorted(await archived(here)) == ["old", "older", "young"]
        await archiving(here, Plan(timedelta(0), timedelta(days=30), tmp_path), health).round()
        assert "archive" not in health.waiting
        assert await archived(here) == ["young"]
        (file,) = _files(tmp_path, "*.parquet")
        assert file.name == f"archive-{datetime.now(UTC) - timedelta(days=100):%Y-%m}.parquet"
        table = parquet.read_table(file).to_pylist()
        assert sorted(row["name"] for row in table) == ["old", "older"]
        assert table[0]["phase"] == "Completed"
        assert table[0]["project"] == PROJECT
        assert "command" in table[0]["spec"]
        assert [each["phase"] for each in json.loads(table[0]["history"])][-1] == "Completed"
        assert _files(tmp_path, ".*") == []


def _refusing(monkeypatch: pytest.MonkeyPatch, step: str, error: OSError) -> None:
    """Has one step of writing a file fail: `open`, `rows`, `end`, `file` (to the disk) or `name` (to the disk)."""

    class Full(parquet.ParquetWriter):  # type: ignore[misc]
        def __init__(self, *given: Any, **more: Any) -> None:
            if step == "open":
                self.is_open = False  # or its destructor complains
                raise error
            super().__init__(*given, **more)

        def write_table(self, *given: Any, **more: Any) -> None:
            if step == "rows":
                raise error
            super().write_table(*given, **more)

        def close(self) -> None:
            super().close()
            if step == "end":
                raise error

    fsync = os.fsync

    def refuse(handle: int) -> None:
        if step == ("name" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"):
            raise error
        fsync(handle)

    monkeypatch.setattr(parquet, "ParquetWriter", Full)
    monkeypatch.setattr(os, "fsync", refuse)


async def test_a_folder_that_is_full_or_read_only_keeps_the_month_until_it_takes_it(
    database: Any, kafka: str, tmp_path: Path
) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await _aged(here, "old", "older")
        health = Health()
        plan = Plan(timedelta(0), timedelta(days=30), tmp_path)
        for step, number in (
            ("open", errno.EROFS),
            ("open", errno.ENOSPC),
            ("rows", errno.ENOSPC),
            ("end", errno.ENOSPC),
            ("file", errno.EDQUOT),
            ("name", errno.EROFS),
        ):
            with pytest.MonkeyPatch.context() as patched:
                _refusing(patched, step, OSError(number, os.strerror(number)))
                await archiving(here, plan, health).round()
            reason = health.waiting["archive"]
            assert os.strerror(number) in reason, step
            assert str(tmp_path) in reason
            assert "nothing is removed from the archive" in reason
            assert sorted(await archived(here)) == ["old", "older"], step
            assert _files(tmp_path, "*") == [], step
        await archiving(here, plan, health).round()
        assert "archive" not in health.waiting
        assert await archived(here) == []
        (file,) = _files(tmp_path, "*")
        assert sorted(row["name"] for row in parquet.read_table(file).to_pylist()) == ["old", "older"]


async def test_without_a_folder_single_rows_go_as_well(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await ended(here, "one", wl.PHASE_COMPLETED)
        await archiving(here, AT_ONCE).round()
        await archiving(here, Plan(timedelta(0), timedelta(days=1))).round()
        assert await archived(here) == ["one"]
        await archiving(here, Plan(timedelta(0), timedelta(microseconds=1))).round()
        assert await archived(here) == []


async def test_what_is_to_be_deleted_by_itself_is_deleted_in_the_archive(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        for name, seconds in (("soon", 3600), ("later", 7 * 24 * 3600), ("never", None)):
            made = await here.submit(name=name)
            await here.admit(made, **({} if seconds is None else {"auto_deletion_seconds": seconds}))
            await here.decide(made.id, placed(), moved(wl.PHASE_COMPLETED))
            await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_COMPLETED)  # noqa: B023
        await here.app.database.pool.execute("UPDATE workloads SET finished_at = now() - interval '1 day' WHERE ended")
        await archiving(here, AT_ONCE).round()
        assert sorted(await archived(here)) == ["later", "never"]
        assert sorted(await archived(here, include_deleted=True)) == ["later", "never", "soon"]


async def test_archiving_begins_a_day_after_an_upgrade(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        await ended(here, "done", wl.PHASE_COMPLETED)
        pool = here.app.database.pool
        await pool.execute("UPDATE workloads SET finished_at = now() - interval '8 days' WHERE ended")
        await pool.execute("DELETE FROM retention_positions WHERE name = 'archive'")
        week = Plan(after=timedelta(days=7))
        await archiving(here, week).round()
        assert await archived(here) == []
        await pool.execute("UPDATE retention_positions SET position = position - 86401 WHERE name = 'archive'")
        await archiving(here, week).round()
        assert await archived(here) == ["done"]


async def test_a_month_that_comes_again_replaces_no_file(database: Any, kafka: str, tmp_path: Path) -> None:
    async with door(database, kafka) as here:
        await here.project()
        for name in ("old", "late"):
            await _aged(here, name)
            await archiving(here, Plan(timedelta(0), timedelta(days=30), tmp_path)).round()
        month = f"{datetime.now(UTC) - timedelta(days=100):%Y-%m}"
        files = {file.name: file for file in _files(tmp_path, "*.parquet")}
        assert sorted(files) == [f"archive-{month}.2.parquet", f"archive-{month}.parquet"]
        named = {name: [row["name"] for row in parquet.read_table(file).to_pylist()] for name, file in files.items()}
        assert named == {f"archive-{month}.parquet": ["old"], f"archive-{month}.2.parquet": ["late"]}


async def test_one_instance_archives_at_a_time_and_a_locked_row_waits(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        done = await ended(here, "done", wl.PHASE_RUNNING, wl.PHASE_COMPLETED)
        other = await here.app.database.connect()
        try:
            await other.execute("SELECT pg_advisory_lock(hashtextextended(current_schema() || '.archive', 0))")
            await archiving(here, AT_ONCE).round()
            assert await archived(here) == []
        finally:
            await other.close()
        async with here.app.database.unit() as unit:
            await unit.connection.execute("SELECT 1 FROM workloads WHERE id = $1 FOR UPDATE", done.id)
            await archiving(here, AT_ONCE).round()
            assert await archived(here) == []
        await archiving(here, AT_ONCE).round()
        assert await archived(here) == ["done"]
