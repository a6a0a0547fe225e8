"""How a replica is asked whether it can serve: as often and as patiently as its probe says, by HTTP or HTTPS."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import Iterable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster_cluster_agent.adapters.local import readiness


async def heard_of(answers: Iterable[bool], pace: readiness.Pace) -> list[bool]:
    """What is told of a replica that gives these answers."""
    coming = iter(answers)
    heard: list[bool] = []

    async def question() -> bool:
        try:
            return next(coming)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        await readiness.watch(question, pace, tell=heard.append)
    return heard


async def test_as_many_answers_in_a_row_as_the_probe_wants_change_the_mind() -> None:
    pace = readiness.Pace(period=0.001, successes=2, failures=1)
    assert await heard_of([True, False, True, True, False], pace) == [True, False]
    assert await heard_of([True, False, True, False], pace) == []


async def test_an_answer_that_takes_longer_than_the_probe_allows_is_none() -> None:
    async def never() -> bool:
        await asyncio.Event().wait()
        return True

    assert not await readiness._ask(never, 0.01)


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's context with a certificate that nobody has reason to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    today = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, today, today + dt.timedelta(days=9_000))
    file = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(("status", "ready"), [(204, True), (302, True), (404, False), (503, False)])
async def test_a_get_is_answered_with_200_to_399(tmp_path: Path, tls: bool, status: int, ready: bool) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status} x\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificate(tmp_path) if tls else None)
    port = server.sockets[0].getsockname()[1]
    assert await readiness._ask(readiness.http(port, "health", host="model.local", tls=tls), 5.0) == ready
    assert asked[0].startswith(b"GET /health HTTP/1.1\r\nHost: model.local\r\n")
    server.close()
    await server.wait_closed()
