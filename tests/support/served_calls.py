"""A gRPC server with a plain method and a stream, as the chassis serves them, for tests of hostile callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from muster.api.v1 import dead_letters_pb2 as pb
from muster.api.v1 import dead_letters_pb2_grpc, workloads_pb2, workloads_pb2_grpc
from muster_chassis.errors import Unauthenticated
from muster_chassis.health import Health
from muster_chassis.rpc import LIMITS, Caller, Limiter, Server, caller, channel, service
from muster_chassis.settings import AuthMode, CallKind, CallLimit, RpcSettings

LIST: Final = "/muster.api.v1.DeadLettersService/ListDeadLetters"
WATCH: Final = "/muster.api.v1.WorkloadsService/WatchWorkloads"
GOOD: Final = (("authorization", "Bearer good"),)


class Letters(dead_letters_pb2_grpc.DeadLettersServiceServicer):  # type: ignore[misc,unused-ignore]
    """Answers with the caller's name."""

    async def ListDeadLetters(self, request: Any, context: Any) -> pb.ListDeadLettersResponse:
        return pb.ListDeadLettersResponse(unanswered=[caller().subject])


class Workloads(workloads_pb2_grpc.WorkloadsServiceServicer):  # type: ignore[misc,unused-ignore]
    """Watches that go on until their caller goes away; counts those that are open."""

    def __init__(self) -> None:
        self.open = 0
        self.ended_by: list[str] = []
        self.ended = asyncio.Event()

    async def WatchWorkloads(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.open += 1
        task = asyncio.current_task()
        try:
            while True:  # more than a caller takes who does not read on: the server waits inside its own write
                yield workloads_pb2.WatchWorkloadsResponse(cursor="x" * (1 << 20))
        finally:
            self.open -= 1
            self.ended_by.append("its own task" if asyncio.current_task() is task else "another task")
            self.ended.set()


async def authenticate(authorization: str | None) -> Caller:
    if not (authorization or "").startswith("Bearer good"):
        raise Unauthenticated("no token")
    return Caller((authorization or "")[7:])


@asynccontextmanager
async def served(limiter: Limiter | None = None, **limits: CallLimit) -> AsyncIterator[tuple[Any, Workloads]]:
    """A server with both, a channel to it, and the watches. limits: by the name of the kind in lower case."""
    workloads = Workloads()  # type: ignore[abstract]  # only one of its methods is called
    described, watched = pb.DESCRIPTOR.services_by_name, workloads_pb2.DESCRIPTOR.services_by_name
    services = [
        service(
            described["DeadLettersService"],
            dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
            Letters(),  # type: ignore[abstract]  # the same
        ),
        service(watched["WorkloadsService"], workloads_pb2_grpc.add_WorkloadsServiceServicer_to_server, workloads),
    ]
    limiter = limiter or Limiter(dict(LIMITS) | {CallKind[name.upper()]: limit for name, limit in limits.items()})
    settings = RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF)
    server = Server(settings, services, Health(), authenticate, limiter=limiter)
    await server.start()
    try:
        async with channel(f"127.0.0.1:{server.port}") as opened:
            yield opened, workloads
    finally:
        await server.stop(0)
