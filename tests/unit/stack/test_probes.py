"""A probe says ready, or why not in words that a person understands."""

from __future__ import annotations

import asyncio

import pytest

from muster_stack.keeper.probes import of_service
from muster_stack.ports import LOOPBACK, free_ports


async def _why(answer: bytes, *, grpc: int | None = None) -> str | None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(connected, LOOPBACK, 0)
    async with server:
        return await of_service(metrics=server.sockets[0].getsockname()[1], grpc=grpc)()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nfine", None),
        (b'HTTP/1.0 503 X\r\n\r\n{"troubles": {"topics": "awaiting a"}}', "topics: awaiting a"),
        (b"HTTP/1.0 503 X\r\n\r\nmigrating", "migrating"),
        (b"HTTP/1.0 503 X\r\n\r\n[1]", "[1]"),
        (b"HTTP/1.0 503 X\r\n\r\n", "it answers 503"),
        (b"\x00\x01\x02", "it does not answer yet"),
        (b"", "it does not answer yet"),
        (b"HTTP/1.0 404 X\r\n\r\n", None),
    ],
)
async def test_a_service_is_ready_when_it_says_so(answer: bytes, why: str | None) -> None:
    assert await _why(answer) == why


async def test_a_service_without_that_path_is_ready_when_its_port_is_open() -> None:
    (closed,) = free_ports(1)
    assert await _why(b"HTTP/1.0 404 X\r\n\r\n", grpc=closed) == "its gRPC port is closed"
    server = await asyncio.start_server(lambda _, writer: writer.close(), LOOPBACK, 0)
    async with server:
        assert await _why(b"HTTP/1.0 404 X\r\n\r\n", grpc=server.sockets[0].getsockname()[1]) is None


async def test_nobody_is_not_ready() -> None:
    (closed,) = free_ports(1)
    assert await of_service(metrics=closed, grpc=None)() == "it does not answer yet"
