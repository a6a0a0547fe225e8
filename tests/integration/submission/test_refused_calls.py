"""What a service behind submission refuses becomes lines of the audit: bounded, counted, each batch once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from muster.api.v1 import access_pb2, refused_calls_pb2, refused_calls_pb2_grpc
from muster_chassis.health import Health
from muster_chassis.key_files import PrivateKey, read_private
from muster_chassis.rpc import ServiceIdentity, ServiceName, internal_server
from tests.support.doors import Door, door
from tests.support.identities import service_key, trust_file
from tests.support.waiting import eventually

METHOD = "method/muster.api.v1.RefusedCallsService/TakeRefusedCalls"


async def _lines(here: Door) -> Sequence[access_pb2.AuditEntry]:
    asked = access_pb2.ListAuditRequest(what="services.call")
    return sorted((await here.access.ListAudit(asked)).entries, key=lambda line: line.subject)


async def test_refused_calls_between_services_are_audited(database: Any, kafka: str) -> None:
    settings: Any = SimpleNamespace(
        trust_file=trust_file(), grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False
    )
    server = internal_server(settings, ServiceName.POLICY, [], Health())
    await server.start()
    address = f"127.0.0.1:{server.port}"
    telemetry = ServiceIdentity(ServiceName.TELEMETRY, PrivateKey(service_key("telemetry"), read_private))
    async with grpc.aio.insecure_channel(address) as channel:
        stub = refused_calls_pb2_grpc.RefusedCallsServiceStub(channel)
        for metadata in [*[[]] * 40, telemetry.metadata("policy")]:
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.TakeRefusedCalls(refused_calls_pb2.TakeRefusedCallsRequest(), metadata=metadata, timeout=5)
    async with door(database, kafka, policy_address=address) as here:
        anonymous, service = await eventually(lambda: _lines(here), lambda found: len(found) == 2)
        assert (anonymous.subject, anonymous.target, anonymous.outcome) == ("", METHOD, "UNAUTHENTICATED")
        assert (anonymous.peer, anonymous.detail) == ("ipv4:127.0.0.1", "policy: 40 calls within a minute")
        assert (service.subject, service.outcome, service.detail) == (
            "telemetry",
            "PERMISSION_DENIED",
            "policy: 1 call",
        )
        here.app.refused_calls._acknowledged.clear()  # as after a restart: the same batch is given again
        await here.app.refused_calls.collect(f"policy at {address}")
        assert len(await _lines(here)) == 2
    await server.stop(0)
