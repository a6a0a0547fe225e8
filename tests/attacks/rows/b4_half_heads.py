"""B4: connections that begin a request and do not end it, while other tenants use the same address."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from typing import Final

from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.hostile import http_status, judged
from tests.attacks.stage import Stage

_CONNECTIONS: Final = 2_010
_SPARE: Final = 200  # open files that the attacker needs for everything else
_PROOF: Final = "tests/rules/test_attacks_edges.py::test_without_guarded_connections_half_sent_heads_shut_everyone_out"
_HEAD: Final = b"POST /api/v1/workloads/trainings HTTP/1.1\r\nhost: 127.0.0.1\r\n"


async def _holds_open(stage: Stage, begin: bytes) -> Verdict:
    """Keeps connections open that have sent `begin`, opens others for those that are closed, and asks in between."""
    host, _, port = stage.rest.rpartition(":")
    many = _room()
    opened: list[asyncio.StreamWriter] = []
    asked = 0
    try:
        while True:
            opened = [one for one in opened if not one.transport.is_closing()]
            for _ in range(many - len(opened)):
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(host, int(port))
                    writer.write(begin)
                    opened.append(writer)
            status = await http_status(judged(stage, "/api/v1/workloads?limit=1"))
            asked += 1
            if status != "200":
                return broken(
                    f"{len(opened)} connections of {many} are held open; question {asked} of another: {status}"
                )
            if time.monotonic() >= stage.until:
                return held(f"{len(opened)} connections were held open; {asked} questions of others were answered")
    finally:
        for one in opened:
            one.transport.abort()


def _room() -> int:
    """Connections that this process can open, with its limit raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS + _SPARE if hard == resource.RLIM_INFINITY else min(hard, _CONNECTIONS + _SPARE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return min(_CONNECTIONS, max(soft, wanted) - _SPARE)


async def _half_heads(stage: Stage) -> Verdict:
    """Heads without their end."""
    return await _holds_open(stage, _HEAD)


async def _silent(stage: Stage) -> Verdict:
    """Connections that say nothing at all."""
    return await _holds_open(stage, b"")


async def _half_bodies(stage: Stage) -> Verdict:
    """Requests of a viewer whose bodies never come."""
    token = stage.headers(Actor.VIEWER).get("authorization", "")
    whole = b"content-type: application/json\r\ncontent-length: 1000\r\nauthorization: " + token.encode() + b"\r\n\r\n{"
    return await _holds_open(stage, _HEAD + whole)


ATTACKS: Final = (
    Attack("B4", "half-sent-heads", Actor.LOOPBACK, _half_heads, _PROOF, noisy=True),
    Attack("B4", "connections-that-say-nothing", Actor.LOOPBACK, _silent, _PROOF, noisy=True),
    Attack("B4", "bodies-that-never-come", Actor.VIEWER, _half_bodies, _PROOF, noisy=True),
)
