"""Keys of issuers: when they are fetched, how long they count, and what is no answer with keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from muster_chassis.errors import Unavailable
from muster_chassis.rpc.keys import FetchedKeys, FetchError, get, read_keys
from muster_chassis.settings import IssuerSettings
from tests.support.issuers import ONE, PRIVATE, RSA, issuer, says, signed


class _Published:
    """An issuer's keys, and how often they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.keys: dict[str, Any] = {}
        self.wait: Callable[[], Any] | None = None
        self.error: Exception | None = None

    async def fetch(self, _url: str) -> bytes:
        self.asked += 1
        if self.error is not None:
            raise self.error
        if self.wait is not None:
            await self.wait()
        keys = []
        for kid, key in self.keys.items():
            keys.append(json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig"})
        return json.dumps({"keys": keys}).encode()

    def found(self) -> FetchedKeys:
        return FetchedKeys("https://one.example/keys", fetch=self.fetch, clock=lambda: self.now)


async def test_keys_are_fetched_for_an_unknown_id_at_most_once_a_minute() -> None:
    published = _Published()
    published.keys = {"a": PRIVATE}
    keys = published.found()
    token = signed(headers={"kid": "a"})
    assert (await says(token, issuer(keys=keys))).subject == "anna"
    for kid in ("b", "c", None):
        await keys.find(kid)
    assert await keys.find("b") is None
    assert published.asked == 1
    published.keys["b"] = _RSA_LIKE
    published.now += 61
    assert await keys.find("b") is not None
    assert published.asked == 2
    assert await keys.find(None) is None  # two keys: which one is meant?


_RSA_LIKE = ec.generate_private_key(ec.SECP256R1())


async def test_a_withdrawn_key_goes_within_the_hour_and_an_issuer_that_is_away_keeps_its_keys() -> None:
    published = _Published()
    published.keys = {"a": PRIVATE}
    keys = published.found()
    assert await keys.find("a") is not None
    published.now += 3601
    published.error = OSError("away")
    assert await keys.find("a") is not None
    published.error, published.keys = None, {"b": PRIVATE}
    published.now += 3601
    assert await keys.find("a") is None


async def test_an_issuer_that_never_answered_is_no_reason_to_refuse_for_good() -> None:
    published = _Published()
    published.error = FetchError("it answers 500")
    with pytest.raises(Unavailable, match=r"one\.example"):
        await published.found().find("a")


async def test_a_caller_that_hangs_up_does_not_take_the_keys_along() -> None:
    published, gate = _Published(), asyncio.Event()
    published.keys, published.wait = {"a": PRIVATE}, gate.wait
    keys = published.found()
    first, second = asyncio.create_task(keys.find("a")), asyncio.create_task(keys.find("a"))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second is not None
    assert published.asked == 1


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 1}', b"[" * 100_000, b"\xff"])
def test_what_is_no_jwks_is_said(document: bytes) -> None:
    with pytest.raises(FetchError):
        read_keys(document)


def test_only_signing_keys_of_known_kinds_are_taken() -> None:
    good = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())) | {"kid": "good"}
    keys = [
        good,
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        good | {"kid": "enc", "use": "enc"},
        {"kty": "EC", "crv": "P-0", "kid": "odd"},
        "x",
    ]
    assert set(read_keys(json.dumps({"keys": keys}).encode())) == {"good"}


@asynccontextmanager
async def _answering(answer: bytes) -> AsyncIterator[str]:
    """A server that says the same to everyone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys?x=1"


async def test_keys_are_read_over_http() -> None:
    async with _answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{} \r\n0\r\n\r\n") as url:
        assert await get(url) == b"{} "


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 300_000, "larger"),
        (b"no http\r\n\r\n", "HTTP"),
        (b"", "HTTP"),
    ],
)
async def test_what_is_no_answer_with_keys_is_said(answer: bytes, why: str) -> None:
    async with _answering(answer) as url:
        with pytest.raises(FetchError, match=why):
            await get(url)


@pytest.mark.parametrize("url", ["http://one.example/", "ftp://127.0.0.1/", "https://a@b/", "http://[::1", "https://"])
async def test_keys_come_over_https_or_from_this_machine(url: str) -> None:
    with pytest.raises(FetchError):
        await get(url)
    with pytest.raises(ValidationError, match="https"):
        IssuerSettings(issuer=ONE, audience="muster", jwks_url=url)
