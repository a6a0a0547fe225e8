"""Asks replicas whether they can serve.

Used by the local back end: one task a replica that has something to be asked. Holds: unless its probe says otherwise, a
replica is ready after one good answer and unready after three bad ones in a row, so that one slow answer does not take
it out of its service. Only addresses on this machine that the replica was given are asked; its `host` is only a header.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local.beneath import open_beneath
from muster_cluster_agent.domain.launch import LOOPBACK

Question = Callable[[], Awaitable[bool]]

_ANSWER_SECONDS: Final = 2.0
_EAGER_SECONDS: Final = 10.0  # how long after the start it is asked often, since starts are what people wait for
_EAGER_PERIOD: Final = 0.05
_PERIOD: Final = 1.0
_MISSES: Final = 3
_OK: Final = range(200, 400)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how patiently. Times in seconds; 0: the default."""

    delay: float = 0.0
    period: float = 0.0
    timeout: float = 0.0
    successes: int = 1
    failures: int = _MISSES


async def watch(question: Question, pace: Pace, tell: Callable[[bool], None], *, ready: bool = False) -> None:
    """Asks for ever; `tell` hears every change. ready: what is known of it already."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(pace.delay)
    eager_until = loop.time() + _EAGER_SECONDS
    against = 0  # answers in a row that say the other thing
    while True:
        good = await _ask(question, pace.timeout or _ANSWER_SECONDS)
        against = against + 1 if good != ready else 0
        if against >= (pace.successes if good else pace.failures):
            ready, against = good, 0
            tell(ready)
        eager = not ready and loop.time() < eager_until
        await asyncio.sleep(_EAGER_PERIOD if eager else (pace.period or _PERIOD))


async def _ask(question: Question, patience: float) -> bool:
    try:
        async with asyncio.timeout(patience):
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


def http(port: int, path: str, *, host: str = "", tls: bool = False) -> Question:
    """Whether GET `path` answers with 200 to 399. host: for the Host header; tls: by HTTPS, with any certificate."""
    target = path if path.startswith("/") else f"/{path}"
    request = f"GET {target} HTTP/1.1\r\nHost: {host or f'{LOOPBACK}:{port}'}\r\nConnection: close\r\n\r\n".encode()
    context = _any_certificate() if tls else None

    async def question() -> bool:
        reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
        try:
            writer.write(request)
            line = await reader.readline()
            return int(line.split()[1]) in _OK if len(line.split()) > 1 else False
        finally:
            writer.close()

    return question


def _any_certificate() -> ssl.SSLContext:
    """As Kubernetes asks: a server in its own replica has no name that a certificate could prove."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def unix(work: Path, path: str) -> Question:
    """Whether something accepts on the Unix socket at a path below `work`, which leads across no link.

    The replica can put anything there. What is open here is the socket itself, so that it cannot be exchanged.
    """

    async def question() -> bool:
        folder = os.open(work, os.O_PATH | os.O_DIRECTORY)
        try:
            target = open_beneath(folder, path, os.O_PATH)
        finally:
            os.close(folder)
        try:
            _, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{target}")
        finally:
            os.close(target)
        writer.close()
        return True

    return question
