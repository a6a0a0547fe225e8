"""Connections that begin something and do not end it: each has a deadline, and none is in the way of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster_chassis import metrics
from muster_chassis.rpc import everyone_is_local
from muster_submission.rest import connections as connections_module
from muster_submission.rest import server as server_module
from muster_submission.rest.answers import answer
from muster_submission.rest.bodies import read_object
from muster_submission.rest.connections import CLOSED, Connections
from muster_submission.rest.edge import Edge
from muster_submission.rest.operation import Answer, Body, Operation, Shape
from muster_submission.rest.server import RestServer
from tests.support.waiting import until

HALF = b"GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n"
THING = Shape("Thing", {"type": "object"})
LARGE = "x" * (8 << 20)


async def _get(_: Request) -> Response:
    return answer({"done": True})


async def _large(_: Request) -> Response:
    return answer({"text": LARGE})


async def _post(request: Request) -> Response:
    return answer(await read_object(request))


async def _unread(_: Request) -> Response:
    return answer({"read": False})


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Starts servers with few connections each; stops them at the end."""
    async with AsyncExitStack() as stack:

        async def one(**limits: int) -> RestServer:
            told = {200: Answer("It.", THING)}
            served = [
                Operation("GET", "/x", "x", "t", "X", _get, told),
                Operation("GET", "/large", "large", "t", "X", _large, told),
                Operation("POST", "/x", "post_x", "t", "X", _post, told, body=Body(THING)),
                Operation("POST", "/unread", "unread", "t", "X", _unread, told, body=Body(THING)),
            ]
            made = RestServer("127.0.0.1:0", Edge(served, everyone_is_local))
            made._server = server_module._Quiet(
                server_module._config(Edge(served, everyone_is_local), Connections(**limits))
            )
            made.start()
            running = asyncio.create_task(made.run())
            stack.push_async_callback(asyncio.wait, [running])
            stack.push_async_callback(made.stop)
            return made

        yield one


async def opened(server: RestServer, *content: bytes) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    made = []
    for each in content:
        made.append(await asyncio.open_connection("127.0.0.1", server.port))
        made[-1][1].write(each)
        await made[-1][1].drain()
    return made


async def status(server: RestServer, path: str = "/x") -> int:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=10) as http:
        return (await http.get(path)).status_code


async def end(reader: asyncio.StreamReader) -> bytes:
    """What a connection still says before it is closed."""
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""


async def test_half_sent_heads_make_room_for_each_other_and_for_others(start: Any) -> None:
    server, before = await start(most=40, unfinished=20, of_address=10), metrics.value(CLOSED, why="room")
    halves = await opened(server, *[HALF] * 100)
    assert await status(server) == 200
    assert metrics.value(CLOSED, why="room") - before >= 90
    assert [await end(reader) for reader, _ in halves[:90]] == [b""] * 90
    halves[-1][1].write(b"\r\n")  # one of the last ten still may end its head
    assert (await asyncio.wait_for(halves[-1][0].readline(), 10)) == b"HTTP/1.1 200 OK\r\n"
    for _, writer in halves:
        writer.transport.abort()


async def test_what_waits_for_its_next_request_goes_where_room_is_needed(start: Any) -> None:
    server = await start(most=5, unfinished=4, of_address=4)
    idle = await opened(server, *[HALF + b"\r\n"] * 12)
    assert await status(server) == 200
    said = [await asyncio.wait_for(reader.readline(), 10) for reader, _ in idle]
    assert said == [b"HTTP/1.1 200 OK\r\n"] * 12
    assert len(await end(idle[0][0])) > 0  # the rest of its answer, and then its end
    for _, writer in idle:
        writer.transport.abort()


@pytest.mark.parametrize("content", [b"", HALF, HALF + b"\r\n" + HALF])
async def test_a_head_has_a_deadline(start: Any, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 0.2)
    server, before = await start(), metrics.value(CLOSED, why="head")
    ((reader, writer),) = await opened(server, content)
    said = await end(reader)
    assert said.count(b"HTTP/1.1 200") == content.count(b"\r\n\r\n")
    assert said.count(b"HTTP/1.1 408") == (1 if content else 0)
    assert metrics.value(CLOSED, why="head") == before + 1
    writer.close()


async def test_drops_do_not_lengthen_the_deadline(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "HEAD_SECONDS", 0.3)
    server = await start()
    ((reader, writer),) = await opened(server, HALF)

    async def drip() -> None:
        for number in range(200):
            writer.write(f"a{number}: b\r\n".encode())
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    # Its first line only: what still drips meets a closed socket, and the reset may come before the end of the answer.
    assert b"408" in await asyncio.wait_for(reader.readline(), 10)
    dripping.cancel()
    writer.transport.abort()


@pytest.mark.parametrize("path", [b"/x", b"/unread"])
async def test_a_body_has_a_deadline(start: Any, monkeypatch: pytest.MonkeyPatch, path: bytes) -> None:
    """Also one that no handler reads: its request was answered long ago."""
    monkeypatch.setattr(connections_module, "BODY_SECONDS", 0.2)
    server, before = await start(), metrics.value(CLOSED, why="body")
    head = (
        b"POST "
        + path
        + b" HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
    )
    ((reader, writer),) = await opened(server, head)
    assert (await end(reader)).count(b"HTTP/1.1 200") == (path == b"/unread")
    assert metrics.value(CLOSED, why="body") == before + 1
    assert await status(server) == 200
    writer.close()


async def test_an_answer_that_is_not_read_has_a_deadline(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "ANSWER_SECONDS", 0.2)
    server, before = await start(), metrics.value(CLOSED, why="answer")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 16)
    writer.write(b"GET /large HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
    await until(lambda: metrics.value(CLOSED, why="answer") == before + 1)
    writer.transport.abort()
    assert reader is not None


async def test_what_is_no_http_is_counted_and_leaves_no_line(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    server, before = await start(), metrics.value(CLOSED, why="no HTTP")
    ((reader, writer),) = await opened(server, b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    assert (await end(reader)).startswith(b"HTTP/1.1 400")
    assert metrics.value(CLOSED, why="no HTTP") == before + 1
    assert not [one for one in caplog.records if one.name.startswith("uvicorn")]
    writer.close()


async def test_requests_one_after_the_other_are_answered(start: Any) -> None:
    server = await start(most=3, unfinished=2, of_address=2)
    ((reader, writer),) = await opened(server, (HALF + b"\r\n") * 3)
    said = b""
    async with asyncio.timeout(10):
        while said.count(b'{"done":true}') < 3:
            said += await reader.read(1 << 16)
    writer.write(HALF + b"\r\n")
    assert await asyncio.wait_for(reader.readline(), 10) == b"HTTP/1.1 200 OK\r\n"
    writer.close()


def test_the_address_with_most_gives_way() -> None:
    class Held:
        def __init__(self, address: str) -> None:
            self.address, self.ended = address, ""

        def end(self, why: str) -> None:
            self.ended = why

    kept: Any = Connections(most=100, unfinished=10, of_address=50)
    quiet, flood = [Held("10.0.0.1") for _ in range(3)], [Held("10.0.0.2") for _ in range(40)]
    for one in (*quiet, *flood):
        kept.half(one)
    assert not any(one.ended for one in quiet)
    assert [one.ended for one in flood] == ["room"] * 33 + [""] * 7
