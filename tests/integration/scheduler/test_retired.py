"""Workloads that are over leave the scheduler: their rows are kept apart, and bring them back when they are needed."""

from __future__ import annotations

import uuid

import asyncpg
import grpc
import pytest

from muster.api.v1 import dead_letters_pb2, explain_pb2, explain_pb2_grpc
from muster.api.v1.dead_letters_pb2_grpc import DeadLettersServiceStub
from muster.events.v1 import scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.workload.v1 import workload_pb2 as w
from muster_chassis.rpc import ServiceName
from muster_chassis.topics import ADMISSIONS, DECISIONS
from muster_scheduler import app
from muster_scheduler.domain.books import world
from muster_scheduler.domain.life import revival
from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import register
from tests.support.identities import channel_to
from tests.support.scheduling import Candidate, Neighbours, neighbours, scheduler
from tests.support.waiting import eventually, until


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


async def test_rows_of_what_is_over_go_after_twice_the_retention(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others, scheduler(url, kafka, retention_seconds=60) as candidate:
        await register(candidate, others)
        over, due = await _completed(others, "over"), await _completed(others, "due", deleted_after=3600)
        for workload in (over, due):
            await eventually(lambda: _is_retired(url, workload))  # noqa: B023 - awaited in the turn
        connection = await asyncpg.connect(url)
        try:
            stays = "UPDATE scheduler.retired SET updated = now() - interval '60 seconds' WHERE id = $1::uuid"
            await connection.execute(stays, due)
            goes = "UPDATE scheduler.retired SET updated = now() - interval '121 seconds' WHERE id = $1::uuid"
            await connection.execute(goes, over)
            await eventually(lambda: _gone(url, over))
            assert await _tables(url, due) == ["retired"]
            await connection.execute(goes, due)
            await eventually(lambda: _gone(url, due))
        finally:
            await connection.close()


async def _gone(url: str, workload: str) -> bool:
    return await _tables(url, workload) == []


async def _is_retired(url: str, workload: str) -> bool:
    return await _tables(url, workload) == ["retired"]
