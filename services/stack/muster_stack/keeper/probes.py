"""Whether a part serves, asked cheaply: no client library, no process, a few hundred bytes on the loopback.

Called by child.py several times a second while something starts and every few seconds afterwards.
Holds: a probe ends within its deadline and never raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from muster_stack.kafka import KafkaServer
from muster_stack.ports import LOOPBACK
from muster_stack.postgres import PostgresServer

Probe = Callable[[], Awaitable[bool]]

_DEADLINE: Final = 1.0  # seconds
_OK: Final = 200
_NOT_FOUND: Final = 404


def of_kafka(server: KafkaServer) -> Probe:
    """The broker answers and a controller leads."""

    async def ready() -> bool:
        return await asyncio.to_thread(server.ready) is not None

    return ready


def of_postgres(server: PostgresServer) -> Probe:
    """It accepts connections."""

    async def ready() -> bool:
        return await asyncio.to_thread(server.ready)

    return ready


def of_service(*, metrics: int, grpc: int | None) -> Probe:
    """`GET /ready` on the metrics port says 200; a service without that path is ready when its gRPC port is open."""

    async def ready() -> bool:
        status = await _get(metrics, "/ready")
        if status == _NOT_FOUND:
            return grpc is None or await _opens(grpc)
        return status == _OK

    return ready


def of_file(path: Path) -> Probe:
    """The part wrote this file; for parts without a port."""

    async def ready() -> bool:
        return await asyncio.to_thread(path.exists)

    return ready


async def _opens(port: int) -> bool:
    try:
        async with asyncio.timeout(_DEADLINE):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()
    except OSError:  # TimeoutError is one
        return False
    return True


async def _get(port: int, path: str) -> int:
    """The status code of a GET, 0 where nobody answers like a web server."""
    try:
        async with asyncio.timeout(_DEADLINE):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode())
                words = (await reader.readline()).split()
            finally:
                writer.close()
    except (OSError, ValueError):
        return 0
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
