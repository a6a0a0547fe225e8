"""A control plane in memory behind a real gRPC server, in a thread of its own: what the client's tests talk to.

Its parts are the `*_plane.py` beside it, what they know is `plane_world.World`. Holds: it ends with the context, and
what gRPC still had in flight with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from muster.api.v1 import (
    access_pb2_grpc,
    dead_letters_pb2_grpc,
    explain_pb2_grpc,
    fleet_pb2_grpc,
    policies_pb2_grpc,
    templates_pb2_grpc,
    tenancy_pb2_grpc,
    triggers_pb2_grpc,
    usage_pb2_grpc,
    workloads_pb2_grpc,
)
from tests.support.plane_world import World
from tests.support.policy_plane import PolicyPlane
from tests.support.tenancy_plane import TenancyPlane
from tests.support.told_plane import DeadLettersPlane, ExplainPlane, FleetPlane, TemplatesPlane, UsagePlane
from tests.support.trigger_plane import TriggerPlane
from tests.support.workload_plane import WorkloadsPlane

_LONGEST = 30.0
"""Seconds in which a control plane begins and ends, however busy the machine is: beyond them it never would."""


@contextmanager
def control_plane(credentials: grpc.ServerCredentials | None = None) -> Iterator[tuple[str, World]]:
    """The address of a fresh one, and what it knows. It ends with the context."""
    world, begun, loop = World(), threading.Event(), asyncio.new_event_loop()
    address: list[str] = []
    stop = asyncio.Event()

    async def serve() -> None:
        server = grpc.aio.server()
        workloads_pb2_grpc.add_WorkloadsServiceServicer_to_server(WorkloadsPlane(world), server)
        tenancy_pb2_grpc.add_TenancyServiceServicer_to_server(TenancyPlane(world), server)
        explain_pb2_grpc.add_ExplainServiceServicer_to_server(ExplainPlane(world), server)
        templates_pb2_grpc.add_TemplatesServiceServicer_to_server(TemplatesPlane(world), server)
        usage_pb2_grpc.add_UsageServiceServicer_to_server(UsagePlane(world), server)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(FleetPlane(world), server)
        plane = TriggerPlane(world.calls, world.triggers, world.firings)
        triggers_pb2_grpc.add_TriggersServiceServicer_to_server(plane, server)
        policies_pb2_grpc.add_PoliciesServiceServicer_to_server(PolicyPlane(world), server)
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server(DeadLettersPlane(world), server)
        access_pb2_grpc.add_AccessServiceServicer_to_server(world.access, server)
        access_pb2_grpc.add_TokenServiceServicer_to_server(world.access, server)
        where = "127.0.0.1:0"
        port = server.add_secure_port(where, credentials) if credentials else server.add_insecure_port(where)
        address.append(f"127.0.0.1:{port}")
        await server.start()
        begun.set()
        await stop.wait()
        await server.stop(None)

    def work() -> None:
        loop.run_until_complete(serve())
        # What gRPC still has in flight (a watch whose reader went away) ends before the loop does.
        if pending := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(pending, timeout=5))

    thread = threading.Thread(target=work, name="control-plane", daemon=True)
    thread.start()
    if not begun.wait(_LONGEST):
        raise TimeoutError("the control plane of a test did not begin")
    try:
        yield address[0], world
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_LONGEST)
        if thread.is_alive():
            raise TimeoutError("the control plane of a test did not end")
        loop.close()
