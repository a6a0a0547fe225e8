"""Whether a part serves, asked cheaply: no client library, a few hundred bytes on the loopback.

Called by child.py several times a second while something starts and every few seconds afterwards.
Holds: a probe ends within its deadline; it answers None where the part is ready, else why it is not, in a few words.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

from muster_stack.errors import StackError
from muster_stack.kafka import KafkaServer
from muster_stack.ports import LOOPBACK
from muster_stack.postgres import PostgresServer

Probe = Callable[[], Awaitable[str | None]]

_DEADLINE: Final = 3.0  # seconds; on a busy machine an answer takes its time
_BODY_LIMIT: Final = 4096  # bytes
_WHY_LIMIT: Final = 1000  # characters
_OK: Final = 200
_NOT_FOUND: Final = 404


def of_kafka(server: KafkaServer) -> Probe:
    """The broker answers and a controller leads."""

    async def why_not() -> str | None:
        try:
            return None if await asyncio.to_thread(server.ready) else "it does not answer yet"
        except StackError as error:  # the identity that the stack asks with cannot be read
            return str(error)

    return why_not


def of_postgres(server: PostgresServer) -> Probe:
    """It accepts connections."""

    async def why_not() -> str | None:
        return None if await asyncio.to_thread(server.ready) else "it accepts no connections yet"

    return why_not


def of_service(*, metrics: int, grpc: int | None) -> Probe:
    """`GET /ready` on the metrics port says 200; a service without that path is ready when its gRPC port is open."""

    async def why_not() -> str | None:
        status, body = await _get(metrics, "/ready")
        if status == _NOT_FOUND:
            return None if grpc is None or await _opens(grpc) else "its gRPC port is closed"
        return None if status == _OK else _reason(status, body)

    return why_not


def _reason(status: int, body: bytes) -> str:
    """What a service says of its troubles: `{"troubles": {"topics": "awaiting .."}}`, or the text as it is."""
    if not status:
        return "it does not answer yet"
    try:
        troubles = json.loads(body)["troubles"]
        text = "; ".join(f"{what}: {why}" for what, why in troubles.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        text = body.decode(errors="replace").strip()
    return (text if len(text) <= _WHY_LIMIT else f"{text[:_WHY_LIMIT]}..") or f"it answers {status}"


async def _opens(port: int) -> bool:
    try:
        async with asyncio.timeout(_DEADLINE):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
            writer.close()
    except OSError:  # TimeoutError is one
        return False
    return True


async def _get(port: int, path: str) -> tuple[int, bytes]:
    """The status and body of a GET; status 0 where nobody answers like a web server."""
    try:
        async with asyncio.timeout(_DEADLINE):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {LOOPBACK}\r\n\r\n".encode())
                answer = await _read(reader)
            finally:
                writer.close()
    except OSError:
        return 0, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), body


async def _read(reader: asyncio.StreamReader) -> bytes:
    content = b""
    while len(content) < _BODY_LIMIT and (chunk := await reader.read(_BODY_LIMIT)):
        content += chunk
    return content
