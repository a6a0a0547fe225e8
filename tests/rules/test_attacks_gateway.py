"""The wire between an agent and submission: TLS keeps credentials from those who listen or pretend to be submission.

Each attack works once TLS is taken out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from muster.api.v1 import access_pb2, access_pb2_grpc, agent_gateway_pb2, agent_gateway_pb2_grpc
from muster_chassis.health import Health
from muster_chassis.rpc import Server, ServerTls, Target, everyone_is_local, service
from muster_cluster_agent.errors import SecretsError
from muster_cluster_agent.rpc import Gateway
from tests.support.certificates import Authority, authority

CREDENTIAL: Final = "a-token-for-a-notebook"
LOGIN: Final = "the-secret-of-the-agents"
NO_BACKEND: Final[Any] = None


class Submission(agent_gateway_pb2_grpc.AgentGatewayServiceServicer):
    """Gives one credential to each who asks."""

    def Connect(self, request_iterator: Any, context: Any) -> Any:
        raise NotImplementedError

    async def FetchSecrets(self, request: Any, context: Any) -> agent_gateway_pb2.FetchSecretsResponse:
        return agent_gateway_pb2.FetchSecretsResponse(
            secrets=[agent_gateway_pb2.Secret(reference="notebookToken", value=CREDENTIAL)]
        )

    async def FindDeleted(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


class Tokens(access_pb2_grpc.TokenServiceServicer):
    """Keeps the secrets that it was given."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def IssueToken(self, request: access_pb2.IssueTokenRequest, context: Any) -> access_pb2.IssueTokenResponse:
        self.told.append(request.secret)
        return access_pb2.IssueTokenResponse(access_token="token", expires_in=3600)


@asynccontextmanager
async def submission(tls: ServerTls | None, tokens: Tokens) -> AsyncIterator[int]:
    served = [
        service(
            agent_gateway_pb2.DESCRIPTOR.services_by_name["AgentGatewayService"],
            agent_gateway_pb2_grpc.add_AgentGatewayServiceServicer_to_server,
            Submission(),
        ),
        service(
            access_pb2.DESCRIPTOR.services_by_name["TokenService"],
            access_pb2_grpc.add_TokenServiceServicer_to_server,
            tokens,
        ),
    ]
    settings: Any = SimpleNamespace(grpc_listen="127.0.0.1:0", call_limits={}, ports_reserved=False)
    server = Server(settings, served, Health(), everyone_is_local)
    await server.start(tls)
    try:
        yield server.port
    finally:
        await server.stop(0)


@asynccontextmanager
async def listener(port: int, heard: bytearray) -> AsyncIterator[int]:
    """A relay to `port` that changes nothing and keeps what passes."""
    flows: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            heard.extend(data)
            sink.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, back))
        flows.extend(asyncio.create_task(pump(*ends)) for ends in ((reader, back), (there, writer)))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for flow in flows:
            flow.cancel()
        for writer in writers:
            writer.close()
        await asyncio.gather(*flows, *(writer.wait_closed() for writer in writers), return_exceptions=True)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ours.crt")


@pytest.fixture
def application(tmp_path: Path) -> Path:
    file = tmp_path / "application.json"
    file.write_text(f'{{"id": "agents", "secret": "{LOGIN}"}}')
    return file


async def fetch(target: Target, application: Path) -> str:
    gateway = Gateway(target, "c", "me", NO_BACKEND, application)
    return (await gateway.of("w"))["notebookToken"]


async def overheard(target: Target, tls: ServerTls | None, application: Path) -> bytes:
    """What a listener between agent and submission reads while the agent fetches a credential."""
    heard = bytearray()
    async with submission(tls, Tokens()) as port, listener(port, heard) as relayed:
        here = Target(f"127.0.0.1:{relayed}", target.secured, target.ca)
        assert await fetch(here, application) == CREDENTIAL
    assert heard
    return bytes(heard)


async def test_who_listens_on_the_wire_reads_no_credential(ours: Authority, application: Path, tmp_path: Path) -> None:
    heard = await overheard(Target("", secured=True, ca=ours.file), ServerTls(*ours.issue(tmp_path)), application)
    assert CREDENTIAL.encode() not in heard
    assert LOGIN.encode() not in heard


async def test_without_tls_who_listens_on_the_wire_reads_credentials(application: Path) -> None:
    heard = await overheard(Target(""), None, application)
    assert CREDENTIAL.encode() in heard
    assert LOGIN.encode() in heard


async def test_who_pretends_to_be_submission_is_told_no_secret(
    ours: Authority, application: Path, tmp_path: Path
) -> None:
    impostor, tokens = authority(tmp_path / "impostor.crt"), Tokens()
    for tls in (ServerTls(*impostor.issue(tmp_path)), None):
        async with submission(tls, tokens) as port:
            with pytest.raises(SecretsError):
                await fetch(Target(f"127.0.0.1:{port}", secured=True, ca=ours.file), application)
    assert tokens.told == []


async def test_without_tls_who_pretends_to_be_submission_is_told_the_secret(application: Path) -> None:
    tokens = Tokens()
    async with submission(None, tokens) as port:
        await fetch(Target(f"127.0.0.1:{port}"), application)
    assert tokens.told == [LOGIN]
