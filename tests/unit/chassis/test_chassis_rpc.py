"""The gRPC server: who may call, what errors look like on the wire, health and reflection."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from muster.api.v1 import dead_letters_pb2 as pb
from muster.api.v1 import dead_letters_pb2_grpc
from muster_chassis import errors
from muster_chassis.health import Health
from muster_chassis.rpc import Server, caller, channel, passed_on, service
from muster_chassis.settings import AuthMode, IssuerSettings, RpcSettings

_SECRET = b"0123456789abcdef0123456789abcdef"


class _Servicer(dead_letters_pb2_grpc.DeadLettersServiceServicer):
    """Answers with the caller, or fails as it is told."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def ListDeadLetters(self, request: Any, context: Any) -> pb.ListDeadLettersResponse:
        if self.error is not None:
            raise self.error
        return pb.ListDeadLettersResponse(unanswered=[caller().subject, *caller().groups])

    async def RedriveDeadLetters(self, request: Any, context: Any) -> pb.RedriveDeadLettersResponse:
        return pb.RedriveDeadLettersResponse()

    async def ResumeConsumer(self, request: Any, context: Any) -> pb.ResumeConsumerResponse:
        return pb.ResumeConsumerResponse()

    async def DiscardDeadLetters(self, request: Any, context: Any) -> pb.DiscardDeadLettersResponse:
        return pb.DiscardDeadLettersResponse()

    async def ListGaps(self, request: Any, context: Any) -> pb.ListGapsResponse:
        return pb.ListGapsResponse()

    async def Republish(self, request: Any, context: Any) -> pb.RepublishResponse:
        return pb.RepublishResponse()


@asynccontextmanager
async def _served(settings: RpcSettings, health: Health | None = None) -> AsyncIterator[tuple[Any, _Servicer]]:
    servicer = _Servicer()
    mounted = service(
        pb.DESCRIPTOR.services_by_name["DeadLettersService"],
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
        servicer,
    )
    server = Server(settings, [mounted], health or Health())
    await server.start()
    async with channel(f"127.0.0.1:{server.port}") as to:
        yield to, servicer
    await server.stop(0)


def _open() -> RpcSettings:
    return RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF)


def _closed(tmp_path: Path, key: bytes) -> RpcSettings:
    path = tmp_path / "key"
    path.write_bytes(key)
    issuer = IssuerSettings(
        issuer="muster",
        audience="api",
        key_file=path,
        algorithms=("EdDSA",) if b"-----BEGIN" in key else ("HS256",),
        groups_claim="groups",
    )
    return RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.JWT, auth_issuers=(issuer,))


async def _ask(to: Any, **metadata: str) -> list[str]:
    stub = dead_letters_pb2_grpc.DeadLettersServiceStub(to)
    answer = await stub.ListDeadLetters(pb.ListDeadLettersRequest(), metadata=tuple(metadata.items()), timeout=10)
    return list(answer.unanswered)


async def test_switched_off_everyone_is_local() -> None:
    async with _served(_open()) as (to, _):
        assert await _ask(to) == ["local"]


def _claims(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "anna", "iss": "muster", "aud": "api", "exp": time.time() + 60, "groups": ["team-a"]}
    return {name: value for name, value in (claims | changes).items() if value is not None}


async def test_a_token_says_who_calls(tmp_path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    token = jwt.encode(_claims(), private, algorithm="EdDSA")
    async with _served(_closed(tmp_path, public)) as (to, _):
        assert await _ask(to, authorization=f"Bearer {token}") == ["anna", "team-a"]


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "someone else"},
        {"aud": "another"},
        {"exp": 1},
        {"exp": None},
        {"iss": None},
        {"aud": None},
        {"sub": None},
    ],
)
async def test_a_token_that_does_not_hold_is_refused(tmp_path: Path, claims: Mapping[str, Any]) -> None:
    token = jwt.encode(_claims(**claims), _SECRET, algorithm="HS256")
    async with _served(_closed(tmp_path, _SECRET)) as (to, _):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _ask(to, authorization=f"Bearer {token}")
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("header", ["", "Basic x", "Bearer ", "Bearer nonsense", "Bearer a.b.c"])
async def test_what_is_no_token_is_refused(tmp_path: Path, header: str) -> None:
    async with _served(_closed(tmp_path, _SECRET)) as (to, _):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _ask(to, authorization=header)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def _failing(error: Exception) -> grpc.aio.AioRpcError:
    async with _served(_open()) as (to, servicer):
        servicer.error = error
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await _ask(to)
        return failed.value


def _details(error: grpc.aio.AioRpcError) -> Status:
    metadata = dict(error.trailing_metadata() or ())
    raw = metadata["grpc-status-details-bin"]
    assert isinstance(raw, bytes)
    return Status.FromString(raw)


async def test_an_error_names_every_field() -> None:
    wrong = errors.InvalidArgument("2 errors", violations=[errors.Violation("spec.gpu", "0 to 1")])
    failed = await _failing(wrong)
    assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
    info, bad = ErrorInfo(), BadRequest()
    first, second = _details(failed).details
    assert first.Unpack(info)
    assert second.Unpack(bad)
    assert (info.domain, info.reason) == ("muster", "INVALID_ARGUMENT")
    assert bad.field_violations[0].field == "spec.gpu"


async def test_a_limit_says_when_to_try_again() -> None:
    failed = await _failing(errors.ResourceExhausted("full", retry_after=1.5))
    delay = RetryInfo()
    assert any(detail.Unpack(delay) for detail in _details(failed).details)
    assert delay.retry_delay.ToMilliseconds() == 1500


async def test_the_unexpected_shows_a_trace_and_nothing_else() -> None:
    failed = await _failing(RuntimeError("the password is 1234"))
    assert failed.code() is grpc.StatusCode.INTERNAL
    assert "1234" not in (failed.details() or "")


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_dying_database_is_unavailable_and_worth_another_try(error: Exception) -> None:
    failed = await _failing(error)
    assert failed.code() is grpc.StatusCode.UNAVAILABLE
    delay = RetryInfo()
    assert any(detail.Unpack(delay) for detail in _details(failed).details)


async def test_a_refusal_is_passed_on_as_it_was() -> None:
    first = await _failing(errors.NotFound("no w1", reason="NO_WORKLOAD", metadata={"id": "w1"}))
    again = passed_on("scheduler", first)
    assert isinstance(again, errors.NotFound)
    assert (again.message, again.error_reason, again.metadata) == ("no w1", "NO_WORKLOAD", {"id": "w1"})


async def test_a_service_that_is_down_is_named() -> None:
    async with channel("127.0.0.1:1") as nowhere:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await dead_letters_pb2_grpc.DeadLettersServiceStub(nowhere).ListDeadLetters(
                pb.ListDeadLettersRequest(), timeout=5
            )
    named = passed_on("scheduler", failed.value)
    assert isinstance(named, errors.Unavailable | errors.DeadlineExceeded)
    assert named.metadata == {"service": "scheduler"}


async def test_health_follows_the_conditions_and_needs_no_token(tmp_path: Path) -> None:
    health = Health()
    health.bad("kafka", "away", at_once=True)
    async with _served(_closed(tmp_path, _SECRET), health) as (to, _):
        request = health_pb2.HealthCheckRequest(service="muster.api.v1.DeadLettersService")
        stub: Any = health_pb2_grpc.HealthStub(to)
        answer = await stub.Check(request)
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_reflection_lists_the_services() -> None:
    async with _served(_open()) as (to, _):
        request: Any = reflection_pb2
        asked = iter([request.ServerReflectionRequest(list_services="")])
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(to)
        async for answer in stub.ServerReflectionInfo(asked):
            names = {one.name for one in answer.list_services_response.service}
            assert "muster.api.v1.DeadLettersService" in names
