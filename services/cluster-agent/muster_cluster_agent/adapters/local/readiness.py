"""Asks replicas whether they can serve.

Used by the local back end: one task a replica that has something to be asked. Holds: a replica is ready after one good
answer and unready after three bad ones in a row, so that one slow answer does not take it out of its service.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from muster_cluster_agent.domain.launch import LOOPBACK

Question = Callable[[], Awaitable[bool]]

_ANSWER_SECONDS: Final = 2.0
_EAGER_SECONDS: Final = 10.0  # how long after the start it is asked often, since starts are what people wait for
_EAGER_PERIOD: Final = 0.05
_PERIOD: Final = 1.0
_MISSES: Final = 3
_OK: Final = range(200, 400)


async def watch(question: Question, *, delay: float, period: float, tell: Callable[[bool], None]) -> None:
    """Asks for ever; `tell` hears every change. period 0: the default of a second. Times in seconds."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(delay)
    eager_until = loop.time() + _EAGER_SECONDS
    ready = False
    misses = 0
    while True:
        good = await _ask(question)
        misses = 0 if good else misses + 1
        if good != ready and (good or misses >= _MISSES):
            ready = good
            tell(ready)
        eager = not ready and loop.time() < eager_until
        await asyncio.sleep(_EAGER_PERIOD if eager else (period or _PERIOD))


async def _ask(question: Question) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await question()
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
        return False


def tcp(port: int) -> Question:
    """Whether something listens on the port."""

    async def question() -> bool:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return True

    return question


def http(port: int, path: str) -> Question:
    """Whether GET `path` answers with 200 to 399."""

    async def question() -> bool:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        try:
            target = path if path.startswith("/") else f"/{path}"
            writer.write(f"GET {target} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
            return int(line.split()[1]) in _OK if len(line.split()) > 1 else False
        finally:
            writer.close()

    return question


def unix(path: Path) -> Question:
    """Whether something accepts on the Unix socket."""

    async def question() -> bool:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        writer.close()
        return True

    return question
