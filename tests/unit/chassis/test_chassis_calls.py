"""Calls as hostile and careless clients make them: undecodable, half sent, too many, ended in the middle."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from muster.api.v1 import dead_letters_pb2 as pb
from muster.api.v1 import dead_letters_pb2_grpc, workloads_pb2, workloads_pb2_grpc
from muster_chassis import metrics
from muster_chassis.rpc import interceptor as interceptor_module
from muster_chassis.rpc.interceptor import UNDECODABLE
from muster_chassis.settings import CallLimit
from tests.support.served_calls import GOOD, LIST, WATCH, served


async def code(call: Any) -> str:
    try:
        await asyncio.wait_for(call, 10)
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.mark.parametrize("content", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe" * 100])
async def test_what_cannot_be_decoded_is_refused_once_the_caller_is_known(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served() as (opened, _):
        for asked, method in ((opened.unary_unary(LIST), LIST), (opened.unary_stream(WATCH), WATCH)):
            before = metrics.value(UNDECODABLE, method=method)
            for who, expected in (((), "UNAUTHENTICATED"), (GOOD, "INVALID_ARGUMENT")):
                call = asked(content, metadata=who)
                assert (await asyncio.wait_for(call.code(), 10)).name == expected
            assert metrics.value(UNDECODABLE, method=method) == before + 1
    assert "Traceback" not in caplog.text


async def test_health_is_asked_without_a_token_and_cannot_be_decoded_either() -> None:
    async with served() as (opened, _):
        assert await code(opened.unary_unary("/grpc.health.v1.Health/Check")(b"\xff")) == "INVALID_ARGUMENT"
        stub: Any = health_pb2_grpc.HealthStub(opened)
        assert (await stub.Check(health_pb2.HealthCheckRequest())).status == health_pb2.HealthCheckResponse.SERVING
        first = await stub.Watch(health_pb2.HealthCheckRequest()).read()
        assert first.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_request_that_does_not_come_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptor_module, "_REQUEST_SECONDS", 0.1)
    async with served() as (opened, _):
        call = opened.stream_stream(WATCH)(metadata=GOOD)
        assert (await asyncio.wait_for(call.code(), 10)).name == "DEADLINE_EXCEEDED"
        empty = opened.stream_unary(LIST)(metadata=GOOD)
        await empty.done_writing()
        assert await code(empty) == "INVALID_ARGUMENT"


async def test_watches_of_one_caller_keep_nobody_from_asking() -> None:
    limits = {"watch": CallLimit(most=6, caller=4, reserve=1), "unary": CallLimit(most=10, caller=5, reserve=1)}
    async with served(None, **limits) as (opened, workloads):
        stub = workloads_pb2_grpc.WorkloadsServiceStub(opened)
        asked = workloads_pb2.WatchWorkloadsRequest()
        watches = [stub.WatchWorkloads(asked, metadata=GOOD) for _ in range(20)]
        codes = []
        for one in watches:
            try:
                await asyncio.wait_for(one.read(), 10)
                codes.append("OK")
            except grpc.aio.AioRpcError as error:
                codes.append(error.code().name)
                assert "at most 4 of one caller, and good has 4 of them" in str(error.details())
        assert sorted(codes) == ["OK"] * 4 + ["RESOURCE_EXHAUSTED"] * 16
        letters = dead_letters_pb2_grpc.DeadLettersServiceStub(opened)
        assert await code(letters.ListDeadLetters(pb.ListDeadLettersRequest(), metadata=GOOD)) == "OK"
        other = stub.WatchWorkloads(asked, metadata=(("authorization", "Bearer good bob"),))
        await asyncio.wait_for(other.read(), 10)
        assert workloads.open == 5


async def _ended_by(reads: int) -> str:
    """Which task ends a stream whose caller reads so many items and goes away."""
    async with served() as (opened, workloads):
        stub = workloads_pb2_grpc.WorkloadsServiceStub(opened)
        watch = stub.WatchWorkloads(workloads_pb2.WatchWorkloadsRequest(), metadata=GOOD)
        for _ in range(reads):
            await watch.read()
        watch.cancel()
        await asyncio.wait_for(workloads.ended.wait(), 10)
        assert workloads.open == 0
        return workloads.ended_by[0]


async def _sent_without_closing(answers: Any, context: Any) -> None:
    """How streams were sent before: what is left of the iterator is the garbage collector's."""
    async for item in answers:
        await context.write(item)


async def test_a_stream_ends_in_the_task_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is begun in one task and ended in another complains of a different Context, or of a running iterator."""
    assert [await _ended_by(reads) for reads in (1, 2, 5)] == ["its own task"] * 3
    monkeypatch.setattr(interceptor_module, "_send", _sent_without_closing)
    assert await _ended_by(1) == "another task"
