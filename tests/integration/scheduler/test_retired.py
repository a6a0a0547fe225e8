"""Workloads that are over leave the scheduler: their rows are kept apart, and bring them back when they are needed."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import grpc
import pytest
from pydantic import SecretStr

from muster.api.v1 import dead_letters_pb2, explain_pb2, explain_pb2_grpc
from muster.api.v1.dead_letters_pb2_grpc import DeadLettersServiceStub
from muster.events.v1 import agent_pb2, scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.workload.v1 import workload_pb2 as w
from muster_chassis.database import Database
from muster_chassis.migrations import of_package
from muster_chassis.retention import Retention
from muster_chassis.rpc import ServiceName
from muster_chassis.settings import DatabaseSettings
from muster_chassis.topics import ADMISSIONS, DECISIONS, SUBMISSIONS
from muster_kernel.ids import uuid7
from muster_scheduler import app
from muster_scheduler.adapters import retired
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books import world
from muster_scheduler.domain.life import fleet as clusters
from muster_scheduler.domain.life import revival
from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import register
from tests.support.identities import channel_to
from tests.support.scheduling import Candidate, Neighbours, neighbours, scheduler
from tests.support.waiting import eventually, until

RETENTION = 60
"""Seconds."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over leaves within a second instead of minutes."""
    for module in (world, revival):
        monkeypatch.setattr(module, "RETIRE_AFTER", 0)
    monkeypatch.setattr(app, "_RETIRE_EVERY", 0.2)
    monkeypatch.setattr(app, "_UPKEEP_EVERY", 0.2)


async def _completed(others: Neighbours, name: str, *, deleted_after: int | None = None) -> str:
    admitted = others.admission(name)
    if deleted_after is not None:
        admitted.effective_spec.auto_deletion_seconds = deleted_after
    workload = admitted.workload_id
    await others.send(ADMISSIONS.name, workload, admitted)
    await until(lambda: others.last_record(workload) is not None)
    record = others.last_record(workload)
    assert record is not None
    await others.status("north", record, fleet.REPLICA_STATE_SUCCEEDED, 0)
    await others.status("north", record, fleet.REPLICA_STATE_GONE)
    await until(lambda: others.phases(workload)[-1:] == [w.PHASE_COMPLETED])
    return workload


async def _tables(url: str, workload: str) -> list[str]:
    """Where its rows are."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO scheduler")
        column = {"workloads": "id", "retired": "id", "requests": "workload", "replicas": "workload"}
        counts = {
            table: await connection.fetchval(f"SELECT count(*) FROM {table} WHERE {key} = $1::uuid", workload)  # noqa: S608
            for table, key in column.items()
        }
        return [table for table, count in counts.items() if count]
    finally:
        await connection.close()


async def _why(candidate: Candidate, **asked: str) -> str:
    address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
    async with channel_to(ServiceName.SCHEDULER, address) as channel:
        stub = explain_pb2_grpc.ExplainServiceStub(channel)
        answer = await stub.Why(explain_pb2.WhyRequest(**asked))  # type: ignore[arg-type]
        return str(answer.explanation.workload_id)


async def test_what_is_over_leaves_and_its_deletion_brings_it_back(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka) as candidate:
        await register(candidate, others)
        workload = await _completed(others, "done")

        async def retired() -> bool:
            return await _tables(url, workload) == ["retired"]

        await eventually(retired)
        assert await _why(candidate, workload_id=workload) == workload
        assert await _why(candidate, project="p", name="done") == workload
        with pytest.raises(grpc.aio.AioRpcError, match="has not heard of"):
            await _why(candidate, project="p", name="never")
        await others.ask(submission_pb2.SuspendRequested, workload)
        await until(lambda: others.said(workload, scheduler_pb2.RequestRefused))
        await eventually(retired)
        await others.ask(submission_pb2.DeletionRequested, workload)
        await until(lambda: others.phases(workload)[-1:] == [w.PHASE_DELETED])
        await eventually(retired)
    assert len(others.said(workload, scheduler_pb2.WorkloadPlaced)) == 1


async def test_one_that_left_is_deleted_by_itself(kafka: str, database: TestDatabase) -> None:
    async with neighbours(kafka, "north") as others, scheduler(database.url("scheduler"), kafka) as candidate:
        await register(candidate, others)
        workload = await _completed(others, "done", deleted_after=2)
        await until(lambda: others.phases(workload)[-1:] == [w.PHASE_DELETED], within=20)


async def test_an_admission_that_comes_again_starts_nothing(kafka: str, database: TestDatabase) -> None:
    """As after a loss of the bus, where even the record that says that it was handled may be gone."""
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka) as candidate:
        await register(candidate, others)
        workload = await _completed(others, "done")
        await eventually(lambda: _is_retired(url, workload))
        again = others.admission("done")
        again.workload_id = workload
        await others.send(ADMISSIONS.name, workload, again)
        late = await others.admit("late")
        await until(lambda: others.last_record(late) is not None)
        assert len(others.said(workload, scheduler_pb2.WorkloadPlaced)) == 1


async def _republished(candidate: Candidate, topic: str, key: str) -> dead_letters_pb2.RepublishResponse:
    address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
    request = dead_letters_pb2.RepublishRequest(topic=topic, key=key, idempotency_key=f"{topic}/{key}")
    async with channel_to(ServiceName.SCHEDULER, address) as channel:
        answer: dead_letters_pb2.RepublishResponse = await DeadLettersServiceStub(channel).Republish(request)
        return answer


async def test_how_it_ended_is_published_where_its_events_are_not_kept_any_more(
    kafka: str, database: TestDatabase
) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka) as candidate:
        await register(candidate, others)
        workload = await _completed(others, "done")
        await eventually(lambda: _is_retired(url, workload))
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET search_path TO scheduler")
            last = await connection.fetchval("SELECT max(version) FROM outbox WHERE topic = $1", DECISIONS.name)
            await connection.execute("DELETE FROM outbox")
            told = len(others.decisions[workload])
            answer = await _republished(candidate, DECISIONS.name, workload)
            assert (answer.finished, answer.snapshot) == (True, True)
            await until(lambda: len(others.decisions[workload]) > told)
            how = others.decisions[workload][-1]
            assert isinstance(how, scheduler_pb2.PhaseChanged)
            assert (how.to, how.reason.code) == (w.PHASE_COMPLETED, "Succeeded")
            (row,) = await connection.fetch("SELECT version, headers FROM outbox")
            assert (row["version"], "muster_snapshot" in row["headers"]) == (last + 1, True)
        finally:
            await connection.close()
        assert not (await _republished(candidate, DECISIONS.name, "nothing")).snapshot
        assert not (await _republished(candidate, DECISIONS.name, str(uuid.uuid4()))).snapshot


@asynccontextmanager
async def upkeep(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """A function that does one round of what removes old rows."""
    settings = DatabaseSettings(database_url=SecretStr(url), database_schema="scheduler", retention_seconds=RETENTION)
    migrations = of_package("scheduler", "muster_scheduler")
    here = await Database.open(settings, source="scheduler", migrations=migrations)

    async def once() -> None:
        async with here.unit() as unit:
            await retired.remove(unit, settings.retention)
        await retired.RetiredRetention(here).round()

    try:
        yield once
    finally:
        await here.close()


@asynccontextmanager
async def _aged(
    kafka: str, database: TestDatabase
) -> AsyncIterator[tuple[str, Neighbours, Callable[[], Awaitable[None]]]]:
    """A scheduler that leads with a retention of a minute: its database, those around it, and a round of upkeep."""
    url = database.url("scheduler")
    async with (
        neighbours(kafka, "north") as others,
        scheduler(url, kafka, retention_seconds=RETENTION) as candidate,
        upkeep(url) as keep_house,
    ):
        await register(candidate, others)
        yield url, others, keep_house


async def _asked(url: str, sql: str, *arguments: Any) -> Any:
    """The first value that a statement answers."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO scheduler")
        return await connection.fetchval(sql, *arguments)
    finally:
        await connection.close()


async def _age(url: str, workload: str, retentions: float) -> None:
    """Make everything that is kept of a workload older; the inbox is as old by then as to be empty."""
    passed = timedelta(seconds=retentions * RETENTION)
    for column in ("updated", "archived", "renewed"):
        sql = f"UPDATE retired SET {column} = {column} - $1::interval WHERE id = $2::uuid"  # noqa: S608 - constants
        await _asked(url, sql, passed, workload)
    await _asked(url, "UPDATE ended_aggregates SET at = at - $1::interval WHERE aggregate = $2", passed, workload)
    await _asked(url, "DELETE FROM inbox")


async def _seen(url: str, workload: str) -> int:
    """The last version of its admissions that is known; 0: none."""
    sql = "SELECT version FROM seen_versions WHERE (topic, aggregate) = ($1, $2)"
    return await _asked(url, sql, ADMISSIONS.name, workload) or 0


async def _is_published(url: str, workload: str) -> bool:
    """Whether retention may remove its events."""
    sql = (
        "SELECT bool_and(o.id <= (SELECT max(p.last) FROM relay_positions p WHERE p.lane = o.lane)) "
        "FROM outbox o WHERE o.aggregate = $1"
    )
    return bool(await _asked(url, sql, workload))


async def _ends(url: str, others: Neighbours, name: str) -> str:
    """A workload that has ended and left, and whose events are published."""
    workload = await _completed(others, name)
    await eventually(lambda: _is_retired(url, workload))
    await eventually(lambda: _is_published(url, workload))
    return workload


async def _published_again(url: str, others: Neighbours, workload: str, name: str) -> None:
    """Policy publishes the admission again, as after a loss of Kafka, and then a later version of it."""
    again = others.admission(name)
    again.workload_id = workload
    del others._versions[ADMISSIONS.name, workload]
    for _ in range(2):
        await others.send(ADMISSIONS.name, workload, again)

    async def taken_in() -> bool:
        return await _seen(url, workload) == 2

    await eventually(taken_in)


async def _starts_nothing(url: str, others: Neighbours, workload: str) -> bool:
    """Whether it has not been placed again, once a workload that was admitted later is."""
    late = await others.admit("late")
    await until(lambda: others.last_record(late) is not None and others.said(late, scheduler_pb2.WorkloadPlaced))
    placed = len(others.said(workload, scheduler_pb2.WorkloadPlaced))
    return placed == 1 and "replicas" not in await _tables(url, workload)


async def _archive(url: str, others: Neighbours, workload: str) -> None:
    message = submission_pb2.WorkloadArchived(workload_id=workload)
    await others.send(SUBMISSIONS.name, workload, message, versioned=False)
    await eventually(lambda: _is_archived(url, "retired", workload))


async def _is_archived(url: str, table: str, workload: str) -> bool:
    sql = f"SELECT archived IS NOT NULL FROM {table} WHERE id = $1::uuid"  # noqa: S608 - constants
    return bool(await _asked(url, sql, workload))


async def test_what_has_ended_is_not_started_while_policy_may_publish_its_admission(
    kafka: str, database: TestDatabase
) -> None:
    """Submission archives it later than two retentions after its end; policy keeps the admission for one from then."""
    async with _aged(kafka, database) as (url, others, keep_house):
        workload = await _ends(url, others, "done")
        await _age(url, workload, 2.1)
        await keep_house()
        assert (await _tables(url, workload), await _seen(url, workload)) == (["retired"], 1)
        await _archive(url, others, workload)
        await _age(url, workload, 1.9)
        await keep_house()
        assert (await _tables(url, workload), await _seen(url, workload)) == (["retired"], 1)
        await _published_again(url, others, workload, "done")
        assert await _starts_nothing(url, others, workload)


async def _starts_again(kafka: str, database: TestDatabase) -> bool:
    """Whether an admission that comes after nearly four retentions places it again. WorkloadArchived was missed."""
    async with _aged(kafka, database) as (url, others, keep_house):
        workload = await _ends(url, others, "done")
        for _ in range(2):
            await _age(url, workload, 1.9)
            await keep_house()
        await _published_again(url, others, workload, "done")
        return not await _starts_nothing(url, others, workload)


async def test_nor_is_it_where_that_it_was_archived_is_missed(kafka: str, database: TestDatabase) -> None:
    assert not await _starts_again(kafka, database)


async def test_with_rows_that_go_two_retentions_after_the_end_it_starts_again(
    kafka: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = "DELETE FROM retired WHERE updated < greatest($1::timestamptz, $2::timestamptz) AND $3::int > 0"
    monkeypatch.setattr(retired, "_REMOVE", before)
    monkeypatch.setattr(retired.RetiredRetention, "round", Retention.round)
    assert await _starts_again(kafka, database)


async def test_it_is_archived_as_well_where_something_of_it_is_left(kafka: str, database: TestDatabase) -> None:
    """It is in the scheduler's memory then, and leaves later."""
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka, retention_seconds=RETENTION) as candidate:
        await register(candidate, others)
        workload = await others.admit("done")
        await until(lambda: others.last_record(workload) is not None)
        record = others.last_record(workload)
        assert record is not None
        await others.status("north", record, fleet.REPLICA_STATE_SUCCEEDED, 0)
        await until(lambda: others.phases(workload)[-1:] == [w.PHASE_COMPLETED])
        message = submission_pb2.WorkloadArchived(workload_id=workload)
        await others.send(SUBMISSIONS.name, workload, message, versioned=False)
        await eventually(lambda: _is_archived(url, "workloads", workload))
        await others.status("north", record, fleet.REPLICA_STATE_GONE)
        await eventually(lambda: _is_retired(url, workload))
        assert await _is_archived(url, "retired", workload)


async def test_rows_go_two_retentions_after_the_archiving_or_four_after_the_end(
    kafka: str, database: TestDatabase
) -> None:
    async with _aged(kafka, database) as (url, others, keep_house):
        over, archived = await _ends(url, others, "over"), await _ends(url, others, "archived")
        due = await _completed(others, "due", deleted_after=3600)
        await eventually(lambda: _is_retired(url, due))
        await _archive(url, others, archived)
        for workload in (over, archived, due):
            await _age(url, workload, 2.1)
        await keep_house()
        assert (await _tables(url, archived), await _seen(url, archived)) == ([], 0)
        assert (await _tables(url, over), await _tables(url, due)) == (["retired"], ["retired"])
        for workload in (over, due):
            await _age(url, workload, 2)
        await eventually(lambda: _gone(url, over))
        await eventually(lambda: _gone(url, due))
        await _age(url, over, 2.1)
        await keep_house()
        assert await _seen(url, over) == 0


async def test_an_old_admission_of_an_unknown_workload_is_a_dead_letter(
    kafka: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of one that has ended and was removed. A younger one was never removed, so it is new."""
    monkeypatch.setattr(retired, "_BACKLOG", timedelta())
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka, retention_seconds=RETENTION) as candidate:
        await register(candidate, others)
        old, young = others.admission("old"), others.admission("young")
        for admitted, retentions in ((old, 3.1), (young, 2.5)):
            at = datetime.now(UTC) - timedelta(seconds=retentions * RETENTION)
            admitted.workload_id = uuid7(int(at.timestamp() * 1000), os.urandom(10))
            await others.send(ADMISSIONS.name, admitted.workload_id, admitted)
        await until(lambda: others.last_record(young.workload_id) is not None)
        key = old.workload_id.encode()
        why = await eventually(lambda: _asked(url, "SELECT reason FROM parked WHERE key = $1", key))
        assert "may have ended and been removed" in why
        assert others.decisions.get(old.workload_id) is None
        assert await _tables(url, old.workload_id) == []


async def test_an_agent_that_returns_after_the_rows_have_gone_gets_tombstones(
    kafka: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was away for three weeks: neither the scheduler nor the topic has anything of what it still holds."""
    monkeypatch.setattr(clusters, "ORPHAN_AFTER", 2 * SECOND)
    async with _aged(kafka, database) as (url, others, keep_house):
        workload = await _ends(url, others, "done")
        await _archive(url, others, workload)
        await _age(url, workload, 2.1)
        await keep_house()
        assert (await _tables(url, workload), await _seen(url, workload)) == ([], 0)
        record, before = others.records[workload][0][0], len(others.records[workload])
        assert record is not None
        status = fleet.ReplicaStatus(role="worker", node="n1", state=fleet.REPLICA_STATE_READY)
        held = agent_pb2.HeldAssignment(
            workload_id=workload, generation=1, attempt=1, epoch=record.epoch, replicas=[status]
        )
        await others.held("north", held)
        await others.status("north", record, fleet.REPLICA_STATE_FAILED, 1)
        await until(lambda: len(others.records[workload]) > before)
        value, headers = others.records[workload][-1]
        assert value is None
        assert (headers["reason"], headers["generation"], headers["attempt"]) == ("NoRow", "1", "1")
        await others.status("north", record, fleet.REPLICA_STATE_GONE)
        assert await _starts_nothing(url, others, workload)
        assert await _tables(url, workload) == []
        assert len(others.records[workload]) == before + 1


async def _gone(url: str, workload: str) -> bool:
    return await _tables(url, workload) == []


async def _is_retired(url: str, workload: str) -> bool:
    return await _tables(url, workload) == ["retired"]
