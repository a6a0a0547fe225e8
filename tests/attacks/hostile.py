"""What several attacks on the edges share: calls with a deadline, and whether the stack still answers others.

Called by the attacks of rows A7, B1, B4, B5, B6, B7 and B11.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import httpx

from muster.api.v1 import access_pb2
from muster.api.v1.access_pb2_grpc import AccessServiceStub
from muster_chassis.rpc import channel
from tests.attacks.attack import Actor, Verdict, broken, held
from tests.attacks.stage import Stage

SECONDS: Final = 5.0
"""For one call: above it the stack counts as frozen."""


async def outcome(call: Awaitable[Any]) -> str:
    """The gRPC status that a call ends with."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def asks(stage: Stage, actor: Actor | None = None) -> str:
    """The status of a small question over a connection of its own: by `actor`, or by the judge."""
    judge = {"authorization": f"Bearer {stage.admin_token}"} if stage.admin_token else {}
    headers = judge if actor is None else stage.headers(actor)
    async with channel(stage.grpc) as opened:
        call = AccessServiceStub(opened).WhoAmI(
            access_pb2.WhoAmIRequest(), metadata=tuple(headers.items()), timeout=SECONDS
        )
        return await outcome(call)


async def repeatedly(stage: Stage, attempt: Callable[[], Awaitable[str]], allowed: frozenset[str]) -> Verdict:
    """Attempts until `stage.until`, at least once; holds where each ends in an allowed way and others are answered."""
    seen: dict[str, int] = {}
    while True:
        ended = await attempt()
        seen[ended] = seen.get(ended, 0) + 1
        others = await asks(stage)
        if ended not in allowed or others != "OK":
            return broken(f"attempts ended as {seen}; a small question of another caller: {others}")
        if time.monotonic() >= stage.until:
            return held(f"attempts ended as {seen}; others were answered")


async def http(
    stage: Stage,
    method: str,
    path: str,
    *,
    actor: Actor | None = None,
    headers: dict[str, str] | None = None,
    content: bytes = b"",
) -> httpx.Response:
    """One HTTP request with a body as it is."""
    sent = {**(stage.headers(actor) if actor is not None else {}), **(headers or {})}
    async with httpx.AsyncClient(base_url=f"http://{stage.rest}", timeout=SECONDS) as client:
        return await client.request(method, path, headers=sent, content=content or None)


async def judged(stage: Stage, path: str) -> httpx.Response:
    """A GET by the judge, over a connection of its own."""
    headers = {"authorization": f"Bearer {stage.admin_token}"} if stage.admin_token else {}
    return await http(stage, "GET", path, headers=headers)


async def http_status(call: Awaitable[httpx.Response]) -> str:
    """The status of an answer, or what kept it from coming."""
    try:
        return str((await call).status_code)
    except httpx.HTTPError as error:
        return type(error).__name__
