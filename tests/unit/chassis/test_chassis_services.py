"""Who may call the services behind submission: the table, tokens of services, and every way to be refused."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muster.api.v1 import dead_letters_pb2, dead_letters_pb2_grpc
from muster_chassis.dead_letters import dead_letters_service
from muster_chassis.health import Health
from muster_chassis.key_files import PrivateKey, TrustFile, read_private
from muster_chassis.rpc import ServiceIdentity, ServiceName, internal_server, service
from muster_chassis.rpc.refused_calls import MOST, RefusedCalls
from muster_chassis.rpc.server import refused_calls_service
from muster_chassis.rpc.services import CALLERS, REFUSED, ServiceGate
from muster_policy.rpc import policies_service
from muster_scheduler.rpc import services as scheduler_services
from muster_stack import identities
from muster_stack.layout import Layout
from tests.support.issuers import signed

NOTHING: Final[Any] = None
METHOD: Final = "/muster.api.v1.DeadLettersService/ListDeadLetters"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    identities.ensure(made)
    return made


def identity(layout: Layout, name: ServiceName) -> ServiceIdentity:
    return ServiceIdentity(name, PrivateKey(identities.service_key(layout, name), read_private))


class Letters(dead_letters_pb2_grpc.DeadLettersServiceServicer):
    """Counts the calls that reach it."""

    def __init__(self) -> None:
        self.calls = 0

    async def ListDeadLetters(self, request: Any, context: Any) -> dead_letters_pb2.ListDeadLettersResponse:
        self.calls += 1
        return dead_letters_pb2.ListDeadLettersResponse()

    async def RedriveDeadLetters(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def DiscardDeadLetters(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ResumeConsumer(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def ListGaps(self, request: Any, context: Any) -> Any:
        raise NotImplementedError

    async def Republish(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


def test_every_method_behind_submission_names_its_callers() -> None:
    served = [
        dead_letters_service(NOTHING),
        policies_service(NOTHING),
        *scheduler_services(NOTHING),
        refused_calls_service(NOTHING),
    ]
    walked = {method for one in served for method in one.methods}
    assert walked == set(CALLERS)
    assert all(CALLERS.values())


def test_a_service_with_a_method_that_nobody_may_call_does_not_start(layout: Layout) -> None:
    gate = ServiceGate(ServiceName.POLICY, TrustFile(identities.trust(layout)))
    with pytest.raises(ValueError, match="no caller is listed for"):
        gate.check([METHOD, "/muster.api.v1.FleetService/Cordon"])


def _signed(private: Any, algorithm: str, **claims: Any) -> str:
    given = {
        "iss": "muster/service/submission",
        "sub": "submission",
        "aud": "muster/service/policy",
        "exp": time.time() + 60,
    }
    return jwt.encode(given | claims, private, algorithm=algorithm)


async def test_only_submissions_own_token_for_this_very_service_lets_a_call_in(layout: Layout) -> None:
    letters = Letters()
    served = service(
        dead_letters_pb2.DESCRIPTOR.services_by_name["DeadLettersService"],
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
        letters,
    )
    settings: Any = SimpleNamespace(
        trust_file=identities.trust(layout), grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False
    )
    server = internal_server(settings, ServiceName.POLICY, [served], Health())
    await server.start()
    refused_before = REFUSED.labels(METHOD)._value.get()
    stranger = Ed25519PrivateKey.generate()
    own = identity(layout, ServiceName.SUBMISSION).metadata("policy")
    scheduler_key = read_private(identities.service_key(layout, "scheduler"))
    wrong: dict[str, list[tuple[str, str]]] = {
        "no token": [],
        "a user's token": [("authorization", f"Bearer {signed()}")],
        "another audience": identity(layout, ServiceName.SUBMISSION).metadata("scheduler"),
        "a service that may not call this": identity(layout, ServiceName.SCHEDULER).metadata("policy"),
        "an unknown key": [("authorization", f"Bearer {_signed(stranger, 'EdDSA')}")],
        "another service's key": [("authorization", f"Bearer {_signed(scheduler_key.private, 'EdDSA')}")],
        "an old token": [("authorization", f"Bearer {_signed(scheduler_key.private, 'EdDSA', exp=1)}")],
    }
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = dead_letters_pb2_grpc.DeadLettersServiceStub(channel)

        async def code(metadata: list[tuple[str, str]]) -> grpc.StatusCode:
            try:
                await stub.ListDeadLetters(dead_letters_pb2.ListDeadLettersRequest(), metadata=metadata, timeout=5)
            except grpc.aio.AioRpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        assert await code(own) is grpc.StatusCode.OK
        for what, metadata in wrong.items():
            expected = grpc.StatusCode.PERMISSION_DENIED if "may not" in what else grpc.StatusCode.UNAUTHENTICATED
            assert await code(metadata) is expected, what
    await server.stop(0)
    assert letters.calls == 1
    assert REFUSED.labels(METHOD)._value.get() == refused_before + len(wrong)


def test_a_token_is_made_again_after_half_a_minute_and_with_a_new_key(layout: Layout) -> None:
    now = [1000.0]
    key = PrivateKey(identities.service_key(layout, "submission"), read_private, lambda: now[0])
    shown = ServiceIdentity(ServiceName.SUBMISSION, key, lambda: now[0])
    first = shown.metadata("policy")
    now[0] += 29
    assert shown.metadata("policy") == first
    assert shown.metadata("scheduler") != first
    now[0] += 1.5
    second = shown.metadata("policy")
    assert second != first
    identities.write_private(identities.service_key(layout, "submission"), Ed25519PrivateKey.generate())
    now[0] += 1.5
    assert shown.metadata("policy") != second


def test_refused_calls_are_handed_over_until_they_are_acknowledged_and_once_a_minute() -> None:
    now = [0.0]
    ledger = RefusedCalls(lambda: now[0])
    assert not ledger.take("").batch
    for port in range(3):
        ledger.note(METHOD, "", f"ipv4:127.0.0.1:{port}", "UNAUTHENTICATED")
    ledger.note(METHOD, "scheduler", "ipv6:[::1]:1", "PERMISSION_DENIED")
    first = ledger.take("")
    assert [(one.caller, one.address, one.reason, one.count) for one in first.calls] == [
        ("", "ipv4:127.0.0.1", "UNAUTHENTICATED", 3),
        ("scheduler", "ipv6:[::1]", "PERMISSION_DENIED", 1),
    ]
    assert ledger.take("") == first  # the answer was lost
    ledger.note(METHOD, "", "ipv4:127.0.0.1:9", "UNAUTHENTICATED")
    assert not ledger.take(first.batch).batch
    now[0] = 60.0
    second = ledger.take(first.batch)
    assert second.batch not in {"", first.batch}
    assert [one.count for one in second.calls] == [1]


def test_a_flood_from_many_addresses_is_a_bounded_number_of_entries() -> None:
    ledger = RefusedCalls()
    for number in range(5000):
        ledger.note(METHOD, "", f"ipv6:[2001:db8::{number:x}]:1", "UNAUTHENTICATED")
    calls = ledger.take("").calls
    assert len(calls) == MOST + 1
    assert (calls[-1].address, sum(one.count for one in calls)) == ("other", 5000)
