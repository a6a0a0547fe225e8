"""Logs through a connected agent: pulled on demand, several readers, slow ones, those that go away, agents that go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import agent_gateway_pb2 as pb
from muster.api.v1 import workloads_pb2 as api
from muster.api.v1.cluster_agents_pb2 import CheckClusterRequest
from muster.fleet.v1.fleet_pb2 import FINDING_LEVEL_WARNING, Finding
from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters import agents
from tests.support.doors import Door, door, moved, placed, second
from tests.support.processes import free_port
from tests.support.waiting import eventually, until


@dataclass
class FakeAgent:
    """An agent that says what the test says, and writes down what it is asked."""

    call: Any
    asked: list[pb.ConnectResponse] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def say(self, request_id: str, data: bytes = b"", **more: Any) -> None:
        chunk = pb.LogChunk(request_id=request_id, replica="worker-0", data=data, **more)
        await self.call.write(pb.ConnectRequest(log=chunk))

    async def listen(self) -> None:
        try:
            async for question in self.call:
                self.asked.append(question)
        finally:
            self.ended.set()

    @property
    def pulls(self) -> list[pb.PullLog]:
        return [one.pull_log for one in self.asked if one.WhichOneof("message") == "pull_log"]

    @property
    def checks(self) -> list[str]:
        return [one.run_check.request_id for one in self.asked if one.WhichOneof("message") == "run_check"]

    @property
    def stops(self) -> list[str]:
        return [one.stop_log.request_id for one in self.asked if one.WhichOneof("message") == "stop_log"]


@asynccontextmanager
async def agent(here: Door, cluster: str = "east", instance: str = "i-1") -> AsyncIterator[FakeAgent]:
    call = here.gateway.Connect(metadata=await here.agent_metadata())
    await call.write(pb.ConnectRequest(hello=pb.AgentHello(cluster=cluster, instance=instance)))
    fake = FakeAgent(call)
    listening = asyncio.create_task(fake.listen())
    await until(lambda: getattr(here.app.agents._streams.get(cluster), "instance", "") == instance)
    try:
        yield fake
    finally:
        call.cancel()
        await asyncio.gather(listening, return_exceptions=True)


@asynccontextmanager
async def reading(here: Door, workload_id: str, **more: Any) -> AsyncIterator[tuple[list[bytes], asyncio.Task[None]]]:
    call = here.workloads.StreamLogs(api.StreamLogsRequest(workload=api.WorkloadRef(id=workload_id), **more))
    pieces: list[bytes] = []

    async def read() -> None:
        async for piece in call:
            pieces.append(piece.data)  # noqa: PERF401 - it is looked at while it grows

    task = asyncio.create_task(read())
    try:
        yield pieces, task
    finally:
        call.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def running(here: Door) -> wl.Workload:
    await here.project()
    made = await here.submit(name="w")
    await here.decide(made.id, placed(), moved(wl.PHASE_RUNNING))
    return await eventually(lambda: here.get(made.id), lambda one: one.phase == wl.PHASE_RUNNING)


def code(task: asyncio.Task[None]) -> grpc.StatusCode:
    error = task.exception()
    assert isinstance(error, grpc.aio.AioRpcError), error
    return error.code()


async def test_logs_come_through_the_agent(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        made = await running(here)
        async with reading(here, made.id) as (_, task):
            await asyncio.wait({task}, timeout=20)
            assert code(task) is grpc.StatusCode.UNAVAILABLE
            assert "agent of cluster east is not connected" in str(task.exception())
        async with (
            agent(here) as fake,
            reading(here, made.id, replica="worker-0", tail_lines=3, since=Timestamp(seconds=1_700_000_000)) as (
                one,
                first,
            ),
        ):
            await until(lambda: fake.pulls)
            [pull] = fake.pulls
            assert (pull.workload_id, pull.replica, pull.tail_lines, pull.follow) == (made.id, "worker-0", 3, False)
            assert pull.since == Timestamp(seconds=1_700_000_000)
            async with reading(here, made.id, since=Timestamp(seconds=1, nanos=-1)) as (_, refused):
                await asyncio.wait({refused}, timeout=20)
                assert code(refused) is grpc.StatusCode.INVALID_ARGUMENT
                assert "since is no moment" in str(refused.exception())
            async with reading(here, made.id, follow=True) as (two, _):
                await until(lambda: len(fake.pulls) == 2)
                assert not fake.pulls[1].HasField("since")
                await fake.say(fake.pulls[1].request_id, b"second")
                await fake.say(pull.request_id, b"first")
                await fake.say("nobody", b"lost")
                await fake.say(pull.request_id, last=True)
                await until(lambda: first.done() and two == [b"second"])
                assert one == [b"first"]
                assert first.exception() is None
            await until(lambda: fake.stops == [fake.pulls[1].request_id])  # the second reader went away

            async with reading(here, made.id) as (_, task):
                await until(lambda: len(fake.pulls) == 3)
                await fake.say(fake.pulls[2].request_id, last=True, trouble="the log's budget is spent")
                await asyncio.wait({task}, timeout=20)
                assert code(task) is grpc.StatusCode.FAILED_PRECONDITION
                assert "budget" in str(task.exception())

            async with reading(here, made.id, follow=True) as (_, cut):
                await until(lambda: len(fake.pulls) == 4)
                async with agent(here, instance="i-2") as newer:
                    await asyncio.wait({cut}, timeout=20)
                    assert code(cut) is grpc.StatusCode.UNAVAILABLE  # the older stream of the cluster has ended
                    await until(fake.ended.is_set)
                    await here.decide(made.id, moved(wl.PHASE_COMPLETED))
                    async with reading(here, made.id) as (late, task):
                        await until(lambda: newer.pulls)
                        await newer.say(newer.pulls[0].request_id, b"still there", last=True)
                        await asyncio.wait({task}, timeout=20)
                        assert late == [b"still there"]


async def test_following_begins_before_there_is_a_place(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        await here.project()
        made = await here.submit(name="w")
        async with reading(here, made.id) as (_, task):
            await asyncio.wait({task}, timeout=20)
            assert code(task) is grpc.StatusCode.FAILED_PRECONDITION
        async with agent(here) as fake, reading(here, made.id, follow=True) as (pieces, _):
            await here.decide(made.id, placed())
            await until(lambda: fake.pulls)
            await fake.say(fake.pulls[0].request_id, b"x")
            await until(lambda: pieces == [b"x"])


async def test_a_slow_reader_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "PATIENCE", 0.05)
    stream = agents.AgentStream("east", "i-1")
    session = stream.open(pb.PullLog(request_id="slow"))
    other = stream.open(pb.PullLog(request_id="other"))
    for _ in range(agents.BUFFERED + 1):
        await stream.answer(pb.LogChunk(request_id="slow", data=b"x"))
    await stream.answer(pb.LogChunk(request_id="other", data=b"y"))
    assert (await other.next()).data == b"y"
    for _ in range(agents.BUFFERED):
        await session.next()
    with pytest.raises(Exception, match="nobody took the log"):
        await session.next()
    kinds = [stream.questions.get_nowait() for _ in range(3)]
    assert kinds[2] is not None
    assert kinds[2].stop_log.request_id == "slow"


async def test_who_does_not_introduce_himself_is_refused(database: Any, kafka: str) -> None:
    async with door(database, kafka) as here:
        for first in (pb.ConnectRequest(log=pb.LogChunk()), pb.ConnectRequest(hello=pb.AgentHello(cluster="No!"))):
            call = here.gateway.Connect(metadata=await here.agent_metadata())
            await call.write(first)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(aiter(call))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_any_instance_gives_the_log_and_a_call_is_passed_on_once(database: Any, kafka: str) -> None:
    async with door(database, kafka) as first, second(first, database) as other:
        made = await running(first)
        async with agent(first) as fake:
            async with reading(other, made.id, follow=True, replica="worker-0") as (pieces, task):
                await until(lambda: fake.pulls)
                assert (fake.pulls[0].follow, fake.pulls[0].replica) == (True, "worker-0")
                await fake.say(fake.pulls[0].request_id, b"from afar")
                await until(lambda: pieces == [b"from afar"])
                assert not task.done()
            await until(lambda: fake.stops == [fake.pulls[0].request_id])  # the reader at the other instance went away
            async with reading(other, made.id) as (_, task):
                await until(lambda: len(fake.pulls) == 2)
                await fake.say(fake.pulls[1].request_id, last=True, trouble="the log's budget is spent")
                await asyncio.wait({task}, timeout=20)
                assert code(task) is grpc.StatusCode.FAILED_PRECONDITION
                assert "budget" in str(task.exception())
            async with agent(other, instance="i-2") as newer, reading(first, made.id) as (late, task):
                await until(lambda: newer.pulls)  # the newest stream counts, also where an older one is open
                await newer.say(newer.pulls[0].request_id, b"moved", last=True)
                await asyncio.wait({task}, timeout=20)
                assert late == [b"moved"]
        await _nowhere(first, other, made.id)


async def test_a_check_is_answered_by_the_agent_through_any_instance(database: Any, kafka: str) -> None:
    found = Finding(level=FINDING_LEVEL_WARNING, subject="storage", text="there is no StorageClass")

    def ask(here: Door) -> Any:
        return here.cluster_agents.CheckCluster(CheckClusterRequest(cluster="east"))

    async with door(database, kafka) as first, second(first, database) as other:
        with pytest.raises(grpc.aio.AioRpcError, match="agent of cluster east is not connected"):
            await ask(first)
        async with agent(first) as fake:
            for turn, here in enumerate((first, other), start=1):
                asked = asyncio.ensure_future(ask(here))
                await until(lambda turn=turn: len(fake.checks) == turn)  # type: ignore[misc]
                for request_id in ("unknown", fake.checks[-1], fake.checks[-1]):
                    result = pb.CheckResult(request_id=request_id, findings=[found])
                    await fake.call.write(pb.ConnectRequest(checked=result))
                assert list((await asked).findings) == [found]
            asked = asyncio.ensure_future(ask(other))
            await until(lambda: len(fake.checks) == 3)
        with pytest.raises(grpc.aio.AioRpcError, match="agent of cluster east is not connected"):
            await asked  # its agent went away


async def _nowhere(first: Door, other: Door, workload_id: str) -> None:
    """What is said of an agent whose row leads to an instance that is gone, to itself, or to one without an address."""
    row = "INSERT INTO agent_streams VALUES ('east', gen_random_uuid(), $1, $2, now())"
    for instance, address, told in (
        ("submission-9", f"127.0.0.1:{free_port()}", "submission-9 at 127.0.0.1"),
        ("submission-9", "", "submission-9, to which it is connected, has no MUSTER_PEER_ADDRESS"),
        ("submission-1", other.app.settings.grpc_listen, "is not connected"),
    ):
        await first.app.database.pool.execute("DELETE FROM agent_streams")
        await first.app.database.pool.execute(row, instance, address)
        for one in (first, other) if instance == "submission-1" else (first,):
            async with reading(one, workload_id) as (_, task):
                await asyncio.wait({task}, timeout=20)
                assert code(task) is grpc.StatusCode.UNAVAILABLE
                assert told in str(task.exception())
