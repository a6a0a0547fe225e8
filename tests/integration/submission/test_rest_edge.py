"""The REST edge on a real socket: it answers, serves its page, bounds what comes in, and stops in order."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import everyone_is_local
from muster_submission.rest.answers import answer
from muster_submission.rest.edge import Edge
from muster_submission.rest.operation import Answer, Operation
from muster_submission.rest.routes import document
from muster_submission.rest.server import RestServer


class Slow:
    """A handler that waits until it is told."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.begun.set()
        await self.go_on.wait()
        return answer({"done": True})


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def server(slow: Slow) -> AsyncIterator[RestServer]:
    served = [Operation("GET", "/slow", "slow", "t", "Slow", slow, {200: Answer("It.")})]
    made = RestServer("127.0.0.1:0", Edge([*served, *document.operations(served)], everyone_is_local))
    made.start()
    running = asyncio.create_task(made.run())
    yield made
    await made.stop()
    await running


@pytest.fixture
async def http(server: RestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        yield client


async def test_the_document_and_its_page(http: httpx.AsyncClient) -> None:
    written = (await http.get("/openapi.json")).json()
    assert (written["openapi"], "/slow" in written["paths"]) == ("3.1.0", True)
    assert "swagger-ui-bundle.js" in (await http.get("/docs")).text
    style = await http.get("/docs/swagger-ui.css")
    assert (style.status_code, style.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert (await http.get("/docs/start.js")).text.startswith("SwaggerUIBundle(")
    assert (await http.get("/docs/index.css")).status_code == 404


async def test_plain_curl(server: RestServer) -> None:
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{server.port}/openapi.json"]
    status = await asyncio.to_thread(subprocess.run, argv, capture_output=True, check=True)
    assert status.stdout == b"200"


async def test_a_head_without_end_ends_its_connection(server: RestServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * (1 << 18))
    try:
        said = await reader.read()
    except ConnectionResetError:  # what was sent after the end
        said = b""
    assert said == b""
    writer.close()


async def test_what_is_under_way_ends_before_the_server_does(
    server: RestServer, http: httpx.AsyncClient, slow: Slow
) -> None:
    asked = asyncio.create_task(http.get("/slow"))
    await slow.begun.wait()
    stopping = asyncio.create_task(server.stop())
    slow.go_on.set()
    assert (await asked).json() == {"done": True}
    await stopping


async def test_an_address_that_is_taken_is_an_error(server: RestServer) -> None:
    with pytest.raises(OSError, match="in use"):
        RestServer(f"127.0.0.1:{server.port}", Edge([], everyone_is_local)).start()
