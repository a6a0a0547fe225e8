"""Two candidates: one leads, the other follows and takes over; memory is what the database says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg
import grpc
import pytest

from muster.api.v1 import fleet_pb2, fleet_pb2_grpc
from muster.events.v1 import scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.workload.v1 import workload_pb2 as w
from muster_chassis import metrics
from muster_chassis.lease import Term
from muster_chassis.rpc import ServiceName
from muster_scheduler import app
from muster_scheduler.adapters.rebuild import load
from muster_scheduler.domain.asked.courses import turned
from muster_scheduler.domain.asked.limits import Limits
from muster_scheduler.handlers import Handlers
from muster_stack.fixtures import TestDatabase
from tests.support.identities import channel_to
from tests.support.scheduling import Candidate, Neighbours, neighbours, scheduler
from tests.support.waiting import eventually, until


async def register(candidate: Candidate, others: Neighbours, cluster: str = "north") -> None:
    address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
    async with channel_to(ServiceName.SCHEDULER, address) as channel:
        stub = fleet_pb2_grpc.FleetServiceStub(channel)

        async def done() -> bool:
            try:
                await stub.RegisterCluster(fleet_pb2.RegisterClusterRequest(cluster=cluster, idempotency_key=cluster))
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                return False
            return True

        await eventually(done)
    await others.inventory(cluster)
    await others.project()


async def test_a_standby_takes_over_and_publishes_anew(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with (
        neighbours(kafka, "north") as others,
        scheduler(url, kafka, instance="scheduler-1") as second,
        scheduler(url, kafka, instance="scheduler-0") as first,
    ):
        leader = await eventually(lambda: leading(first, second), lambda found: found is not None)
        assert leader is not None
        await register(leader, others)
        workload = await others.admit("hello")
        await until(lambda: others.last_record(workload) is not None)
        record = others.last_record(workload)
        assert record is not None
        await others.status("north", record, fleet.REPLICA_STATE_READY)
        await until(lambda: others.phases(workload)[-1:] == [w.PHASE_RUNNING])
        await leader.kill()
        await until(lambda: len(others.records[workload]) > 1)
        again = others.last_record(workload)
        assert again is not None
        assert again.epoch > record.epoch
        assert again.revisions == record.revisions
        late = await others.admit("late")
        await until(lambda: others.last_record(late) is not None)
    assert len(others.said(workload, scheduler_pb2.WorkloadPlaced)) == 1


async def leads(candidate: Candidate) -> bool:
    address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
    async with channel_to(ServiceName.SCHEDULER, address) as channel:
        stub = fleet_pb2_grpc.FleetServiceStub(channel)
        try:
            await stub.ListClusters(fleet_pb2.ListClustersRequest(), wait_for_ready=True)
        except grpc.aio.AioRpcError:
            return False
        return True


async def leading(*candidates: Candidate) -> Candidate | None:
    """Return the candidate that leads; None while none does."""
    for candidate in candidates:
        if await leads(candidate):
            return candidate
    return None


def epoch_of(others: Neighbours, workload: str) -> int:
    """The epoch of its last record, an assignment or a tombstone."""
    record, headers = others.records[workload][-1]
    return record.epoch if record is not None else int(headers["epoch"])


async def test_a_leader_decides_while_it_publishes_records_again(
    kafka: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of five workloads make three stretches, and the second one waits here."""
    monkeypatch.setattr(app, "_REPUBLISHED", 2)
    url, stretches = database.url("scheduler"), list[Sequence[str]]()
    held, goes_on, publish = asyncio.Event(), asyncio.Event(), app.Scheduler._republish_some

    async def some(self: app.Scheduler, handlers: Handlers, term: Term, workloads: Sequence[str]) -> None:
        stretches.append(workloads)
        if len(stretches) == 2:
            held.set()
            await goes_on.wait()
        await publish(self, handlers, term, workloads)

    async with neighbours(kafka, "north") as others:
        async with scheduler(url, kafka) as candidate:
            await register(candidate, others)
            ids = [await others.admit(f"w{n}") for n in range(5)]
            await until(lambda: all(others.last_record(i) is not None for i in ids))
        before = max(epoch_of(others, i) for i in ids)
        monkeypatch.setattr(app.Scheduler, "_republish_some", some)
        async with scheduler(url, kafka):
            await asyncio.wait_for(held.wait(), 30)
            late = await others.admit("late")
            await until(lambda: others.last_record(late) is not None)
            assert metrics.value(app.REPUBLISHING) == 3
            stopped, *waiting = sorted(set(ids) - set(stretches[0]))
            assert [epoch_of(others, i) for i in waiting] == [before, before]
            await others.ask(submission_pb2.SuspendRequested, stopped)
            await until(lambda: others.last_record(stopped) is None)
            goes_on.set()
            await until(lambda: all(epoch_of(others, i) > before for i in ids))
            await until(lambda: metrics.value(app.REPUBLISHING) == 0)
            placed = [i for i in ids if i != stopped]
            await until(lambda: len({epoch_of(others, i) for i in (*placed, late)}) == 1)
            assert others.last_record(stopped) is None
    assert [len(each) for each in stretches] == [2, 2, 1]
    assert all(len(others.said(i, scheduler_pb2.WorkloadPlaced)) == 1 for i in (*ids, late))


async def test_only_an_agent_that_reported_is_adopted_and_not_while_the_old_one_lives(
    kafka: str, database: TestDatabase
) -> None:
    async with neighbours(kafka, "north") as others, scheduler(database.url("scheduler"), kafka) as candidate:
        await register(candidate, others)
        address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
        async with channel_to(ServiceName.SCHEDULER, address) as channel:
            stub = fleet_pb2_grpc.FleetServiceStub(channel)

            async def refused(instance: str) -> tuple[grpc.StatusCode, str]:
                try:
                    await stub.AdoptCluster(
                        fleet_pb2.AdoptClusterRequest(cluster="north", instance=instance, idempotency_key=instance)
                    )
                except grpc.aio.AioRpcError as error:
                    return error.code(), error.details() or ""
                return grpc.StatusCode.OK, ""

            async def alive() -> bool:
                await others.heartbeat("north", instance="agent-2")
                code, said = await refused("agent-2")
                return code is grpc.StatusCode.FAILED_PRECONDITION and "0 replicas GONE" in said

            assert (await refused("zzz"))[0] is grpc.StatusCode.NOT_FOUND
            await eventually(alive)
            forced = fleet_pb2.AdoptClusterRequest(cluster="north", instance="agent-2", force=True, idempotency_key="f")
            answer = await stub.AdoptCluster(forced)
            assert answer.cluster.agent_instance == "agent-2"


async def test_what_is_read_back_is_what_was_written(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others:
        async with scheduler(url, kafka) as candidate:
            await register(candidate, others)
            ids = [await others.admit(f"w{n}", devices=n % 3 + 1) for n in range(6)]
            await until(lambda: all(others.phases(i) for i in ids))
            taker = await others.admit("taker", devices=6, priority=75)
            await until(lambda: others.said(taker, scheduler_pb2.WorkloadClaimed))
            done = next(i for i in ids if others.phases(i)[-1] == w.PHASE_INITIALIZING)
            await until(lambda: others.last_record(done) is not None)  # decisions and records are sent side by side
            record = others.last_record(done)
            assert record is not None
            await others.status("north", record, fleet.REPLICA_STATE_SUCCEEDED, 0)
            await until(lambda: others.phases(done)[-1] == w.PHASE_COMPLETED)
            digest = await _digest(url)
            assert digest == await _digest(url)
        async with scheduler(url, kafka) as candidate:
            await until(lambda: others.records[done][-1][1].get("epoch") == "2")
            assert await _digest(url) == digest


async def _digest(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO scheduler")
        state = await load(connection, Limits(), 1)
        state.check()
        for workload in state.world.workloads.values():
            # A new leader writes every record anew, and so raises its revision.
            workload.course = turned(workload.course, {"record": 0})
        return state.digest()
    finally:
        await connection.close()
