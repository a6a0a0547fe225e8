"""The attacks on the edges, with the part taken out that prevents them: here each of them works.

The tests substitute that part themselves; the product has no switch for it. Rows A7, B1, B4, B5, B6, B7 and B11.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from decimal import Decimal
from fractions import Fraction
from typing import Any

import httpx
import pytest
import uvicorn
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.requests import Request
from starlette.responses import Response

from muster.api.v1 import workloads_pb2, workloads_pb2_grpc
from muster_chassis.errors import InvalidArgument
from muster_chassis.moments import moment_of
from muster_chassis.rpc import Caller, Limiter, everyone_is_local
from muster_chassis.rpc import interceptor as interceptor_module
from muster_chassis.rpc import server as server_module
from muster_chassis.settings import CallKind, CallLimit
from muster_kernel import quantities
from muster_submission.domain import filtering
from muster_submission.rest import server as rest_server
from muster_submission.rest.answers import answer
from muster_submission.rest.connections import Connections
from muster_submission.rest.edge import Edge
from muster_submission.rest.operation import Answer, Body, Operation, Shape
from muster_submission.rest.origins import Origins
from muster_submission.rest.routes.document import operations as openapi_pages
from muster_submission.rest.server import RestServer
from tests.support.served_calls import GOOD, LIST, WATCH, served

_MOST_DIGITS = 10_000


def _unbounded(text: str) -> Fraction:
    """The reader of GPU requests as it was: a Fraction of whatever Decimal reads."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise OverflowError(f"{text} would be written out in {abs(number.adjusted())} digits")
    return Fraction(number)


def test_a_number_that_is_not_bounded_is_written_out_in_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="is not a GPU request"):
        quantities.parse_gpu("1e999999999")
    monkeypatch.setattr(quantities, "exact", _unbounded)
    with pytest.raises(OverflowError, match="999999999 digits"):
        quantities.parse_gpu("1e999999999")


class _NoLook(Origins):
    """Takes the look at Host, Origin and media type out."""

    def check(self, request: Request) -> None:
        """Anything goes."""


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain", "origin": "http://evil.example"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "host": "evil.example", "origin": "http://evil.example"},
        {"content-type": "application/json", "origin": "http://127.0.0.1:9"},
    ],
)
async def test_without_the_look_at_origins_a_foreign_page_starts_a_command(headers: dict[str, str]) -> None:
    started: list[bytes] = []

    async def create(request: Request) -> Response:
        started.append(await request.body())
        return answer({})

    thing = Shape("Thing", {"type": "object"})
    served = [Operation("POST", "/x", "x", "t", "X", create, {200: Answer("It.", thing)}, body=Body(thing))]
    for origins, made in ((Origins(), 0), (_NoLook(), 1)):
        edge = Edge(served, everyone_is_local, origins=origins)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://127.0.0.1") as http:
            await http.post("/x", content=b'{"command": "x"}', headers=headers)
        assert len(started) == made


class _NoLimits(Limiter):
    """Takes the limits by kind and by caller out: gRPC's own limit is left, one for all."""

    @asynccontextmanager
    async def admitted(self, kind: CallKind, who: Caller, connection: str = "") -> AsyncIterator[None]:
        """Anyone may."""
        yield


async def _answer_beside_watches(monkeypatch: pytest.MonkeyPatch, limiter: type[Limiter]) -> str:
    """What another caller hears while one has twelve watches of the ten calls that there is room for."""
    monkeypatch.setattr(server_module, "_UNKNOWN", 0)
    limits = {CallKind.WATCH: CallLimit(most=5, caller=3), CallKind.UNARY: CallLimit(most=5, caller=3)}
    async with served(limiter(limits)) as (opened, _):
        stub = workloads_pb2_grpc.WorkloadsServiceStub(opened)
        calls = [stub.WatchWorkloads(workloads_pb2.WatchWorkloadsRequest(), metadata=GOOD) for _ in range(12)]
        await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)
        return await _asked(opened)


async def _asked(opened: Any) -> str:
    asked = opened.unary_unary(LIST)(b"", metadata=(("authorization", "Bearer good other"),), timeout=5)
    return str((await asked.code()).name)


async def test_without_limits_by_kind_the_watches_of_one_caller_shut_everyone_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await _answer_beside_watches(monkeypatch, Limiter) == "OK"
    assert await _answer_beside_watches(monkeypatch, _NoLimits) == "RESOURCE_EXHAUSTED"


async def _without_deadline(self: Any, requests: AsyncIterator[bytes], _seconds: float) -> Any:
    return self._decoded(await anext(aiter(requests)))


async def test_without_a_deadline_for_requests_half_sent_calls_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interceptor_module, "_REQUEST_SECONDS", 0.2)
    async with served() as (opened, _):
        ended = opened.stream_stream(WATCH)(metadata=GOOD)
        assert (await asyncio.wait_for(ended.code(), 5)).name == "DEADLINE_EXCEEDED"
        monkeypatch.setattr(interceptor_module._Reader, "__call__", _without_deadline)
        stays = opened.stream_stream(WATCH)(metadata=GOOD)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(stays.code()), 1)
        stays.cancel()


async def test_without_the_reader_of_requests_rubbish_fills_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as (opened, _):
        ask = opened.unary_unary(LIST)
        assert (await ask(b"\xff", metadata=GOOD).code()).name == "INVALID_ARGUMENT"
        assert "Traceback" not in caplog.text
        monkeypatch.setattr(interceptor_module._Reader, "_decoded", lambda self, raw: self._decode(raw))
        assert (await ask(b"\xff", metadata=GOOD).code()).name == "INTERNAL"
        assert "a call failed unexpectedly" in caplog.text


def test_without_the_readers_of_moments_and_numbers_a_question_fails_unexpectedly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, places = ["allocatedGPU>=1e999999999"], filtering.Places()
    with pytest.raises(filtering.BadFilter):
        filtering.read(asked, places)
    monkeypatch.setattr(filtering, "decimal", Decimal)
    with pytest.raises(ArithmeticError):
        filtering.read(asked, places)
    never = Timestamp(nanos=-1)
    with pytest.raises(InvalidArgument, match="since is no moment"):
        moment_of(never, "since")
    with pytest.raises(ValueError, match="Nanos -1"):
        never.ToDatetime(UTC)


async def _asked_beside_half_heads(config: Callable[..., uvicorn.Config]) -> int:
    """What another client hears while six connections have sent half of a head, where five are the limit."""
    edge = Edge(openapi_pages([]), everyone_is_local)
    server = RestServer("127.0.0.1:0", edge)
    server._server = rest_server._Quiet(config(edge, Connections(most=5, unfinished=5, of_address=4)))
    server.start()
    running = asyncio.create_task(server.run())
    opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(6)]
    for _, writer in opened:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n")
        await writer.drain()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=5) as http:
            return (await http.get("/openapi.json")).status_code
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await server.stop()
        await running


def _unguarded(edge: Any, _: Connections) -> uvicorn.Config:
    """The server as it was: uvicorn counts every connection, whatever it has sent."""
    return uvicorn.Config(edge, ws="none", lifespan="off", log_config=None, limit_concurrency=5)


async def test_without_guarded_connections_half_sent_heads_shut_everyone_out() -> None:
    assert await _asked_beside_half_heads(rest_server._config) == 200
    assert await _asked_beside_half_heads(_unguarded) == 503
