"""Tokens of several issuers: what counts, what does not, and how keys are fetched."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from pydantic import ValidationError

from muster_chassis.errors import Unauthenticated, Unavailable
from muster_chassis.rpc import CREDENTIAL, LOCAL, Issuer, TokenAuthenticator, authenticator
from muster_chassis.rpc.keys import FetchedKeys, FetchError, OneKey, get, read_keys
from muster_chassis.settings import AuthMode, IssuerSettings, RpcSettings

ONE, TWO = "https://one.example", "https://two.example"
_PRIVATE = ec.generate_private_key(ec.SECP256R1())
_RSA = rsa.generate_private_key(65537, 2048)


def _pem(key: Any = _PRIVATE) -> bytes:
    found: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found


def _claims(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "anna", "iss": ONE, "aud": "muster", "exp": time.time() + 3600, "roles": ["b", "a", 7]}
    return {name: value for name, value in (claims | changes).items() if value is not None}


def _token(headers: Any = None, **changes: Any) -> str:
    return jwt.encode(_claims(**changes), _PRIVATE, algorithm="ES256", headers=headers)


def _issuer(**changes: Any) -> Issuer:
    values: dict[str, Any] = {"name": ONE, "audience": "muster", "algorithms": ("ES256",), "keys": OneKey(_pem())}
    return Issuer(**(values | changes))


async def _says(token: str, *issuers: Issuer) -> Any:
    return await TokenAuthenticator(issuers or [_issuer()])(f"Bearer {token}")


def _raw(header: Any, claims: Any, signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


async def test_a_token_gives_its_subject_and_the_groups_of_the_named_claim() -> None:
    assert (await _says(_token())).groups == ()
    who = await _says(_token(), _issuer(groups_claim="roles"))
    assert (who.subject, who.groups, who.issuer, who.credential) == ("anna", ("a", "b"), ONE, None)


async def test_a_role_in_a_token_is_nothing() -> None:
    who = await _says(_token(role="system-admin", groups=["admins"], credential=1))
    assert (who.groups, who.credential) == ((), None)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (_token(aud="other"), "Audience"),
        (_token(exp=1), "expired"),
        (_token(nbf=time.time() + 3600), "not yet valid"),
        (_token(iss=TWO), "Issuer is not familiar"),
        (_token(iss=None), "Issuer is not familiar"),
        (_token(exp=None), "exp"),
        (_token(aud=None), "aud"),
        (_token(sub=None), "sub"),
        (_token(sub=""), "subject"),
        (_token(sub="x" * 501), "subject"),
        (_token(headers={"crit": ["b64"]}), "Critical|critical"),
        (jwt.encode(_claims(), _RSA, algorithm="RS256"), "signs with ES256"),
        (jwt.encode(_claims(), "", algorithm="none"), "signs with ES256"),
        (_raw({"alg": "none"}, _claims()), "signs with ES256"),
        (_raw({"alg": "ES256"}, _claims()), "ignature"),
        (_raw({"alg": "ES256"}, _claims(), b"x" * 64), "ignature"),
        (_raw({"alg": "ES256"}, [1]), "not accepted"),
        (_raw([], _claims()), "not accepted"),
        (_raw({"alg": ["ES256"]}, _claims()), "not accepted"),
        (_raw({"alg": "ES256", "kid": 7}, _claims()), "not accepted"),
        (_raw({"alg": "ES256"}, _claims() | {"iss": [ONE]}), "not familiar"),
        (_token()[:-8] + "AAAAAAAA", "ignature"),
        ("a" * 20_000, "longer"),
        (base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.", "not accepted"),
        ("a.b.c", "not accepted"),
        ("\u0000", "not accepted"),
    ],
)
async def test_what_does_not_hold_is_refused(token: str, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        await _says(token)


async def test_a_public_key_is_no_secret_and_one_issuer_does_not_sign_for_another() -> None:
    forged = base64.urlsafe_b64encode(b"x").decode()
    header, payload, _ = jwt.encode(_claims(), "k" * 32, algorithm="HS256").split(".")
    with pytest.raises(Unauthenticated):
        await _says(f"{header}.{payload}.{forged}")
    other = ec.generate_private_key(ec.SECP256R1())
    issuers = (_issuer(), _issuer(name=TWO, keys=OneKey(_pem(other))))
    with pytest.raises(Unauthenticated, match="ignature"):
        await _says(_token(iss=TWO), *issuers)


async def test_keys_that_the_token_brings_along_are_not_read() -> None:
    mine = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(mine.public_key()))
    for header in ({"jwk": jwk}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/x"}):
        with pytest.raises(Unauthenticated, match="ignature"):
            await _says(jwt.encode(_claims(), mine, algorithm="ES256", headers=header))


async def test_a_verified_token_is_remembered_for_a_minute_and_never_beyond_its_end() -> None:
    now, keys = [time.time()], _Gone(OneKey(_pem()))
    authenticate = TokenAuthenticator([_issuer(keys=keys)], clock=lambda: now[0])
    long, short = f"Bearer {_token(exp=now[0] + 3600)}", f"Bearer {_token(exp=now[0] + 20)}"
    first = await authenticate(long)
    await authenticate(short)
    keys.gone = True
    assert await authenticate(long) is first
    now[0] += 21
    with pytest.raises(Unauthenticated):
        await authenticate(short)
    assert await authenticate(long) is first
    now[0] += 40
    with pytest.raises(Unauthenticated, match="no such key"):
        await authenticate(long)
    with pytest.raises(Unauthenticated):
        await authenticate(long[:-4] + "AAAA")


class _Gone:
    """Keys that can be withdrawn."""

    def __init__(self, keys: OneKey) -> None:
        self._keys = keys
        self.gone = False

    async def find(self, kid: str | None) -> Any | None:
        return None if self.gone else await self._keys.find(kid)


async def test_an_applications_token_says_with_which_secret_it_was_made() -> None:
    own = _issuer(applications=True)
    assert (await _says(_token(**{CREDENTIAL: 3}), own)).credential == 3
    for wrong in (None, "3", True):
        with pytest.raises(Unauthenticated, match="secret"):
            await _says(_token(**{CREDENTIAL: wrong}), own)


@pytest.mark.parametrize("header", [None, "", "Basic x", "Bearer", "Bearer "])
async def test_without_a_token_nobody_calls(header: str | None) -> None:
    with pytest.raises(Unauthenticated, match="MUSTER_TOKEN"):
        await TokenAuthenticator([_issuer()])(header)


async def test_where_none_is_needed_one_that_is_sent_is_verified_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(_pem())
    listed = IssuerSettings(issuer=ONE, audience="muster", key_file=path)
    settings = RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF, auth_issuers=(listed,))
    authenticate = authenticator(settings)
    assert await authenticate(None) == LOCAL
    assert (await authenticate(f"Bearer {_token()}")).subject == "anna"
    with pytest.raises(Unauthenticated):
        await authenticate(f"Bearer {_token(exp=1)}")
    nobody = authenticator(RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF))
    assert await nobody("Bearer x") == LOCAL


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
    published.keys = {"a": _PRIVATE}
    keys = published.found()
    token = _token(headers={"kid": "a"})
    assert (await _says(token, _issuer(keys=keys))).subject == "anna"
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
    published.keys = {"a": _PRIVATE}
    keys = published.found()
    assert await keys.find("a") is not None
    published.now += 3601
    published.error = OSError("away")
    assert await keys.find("a") is not None
    published.error, published.keys = None, {"b": _PRIVATE}
    published.now += 3601
    assert await keys.find("a") is None


async def test_an_issuer_that_never_answered_is_no_reason_to_refuse_for_good() -> None:
    published = _Published()
    published.error = FetchError("it answers 500")
    with pytest.raises(Unavailable, match=r"one\.example"):
        await published.found().find("a")


async def test_a_caller_that_hangs_up_does_not_take_the_keys_along() -> None:
    published, gate = _Published(), asyncio.Event()
    published.keys, published.wait = {"a": _PRIVATE}, gate.wait
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
    good = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(_RSA.public_key())) | {"kid": "good"}
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


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "either"),
        ({"jwks_url": "https://one.example/keys", "key_file": "x"}, "either"),
        ({"jwks_url": "https://one.example/keys", "algorithms": ["HS256"]}, "signs with"),
        ({"key_file": "x", "algorithms": ["none"]}, "signs with"),
        ({"key_file": "x", "algorithms": []}, "signs with"),
        ({"key_file": "x", "keyfile": "x"}, "keyfile"),
    ],
)
def test_an_issuer_that_cannot_be_meant_stops_the_process(changes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        IssuerSettings.model_validate({"issuer": ONE, "audience": "muster", **changes})


@pytest.mark.parametrize(
    ("key", "algorithms"),
    [
        (b"short", ("HS256",)),
        (b"k" * 40, ("RS256",)),
        (b"-----BEGIN PRIVATE KEY-----", ("RS256",)),
        (b"-----BEGIN PUBLIC KEY-----", ("HS256",)),
    ],
)
def test_a_key_that_cannot_be_meant_is_refused(tmp_path: Path, key: bytes, algorithms: tuple[str, ...]) -> None:
    path = tmp_path / "key"
    path.write_bytes(key)
    with pytest.raises(ValueError, match="key"):
        IssuerSettings(issuer=ONE, audience="muster", key_file=path, algorithms=algorithms).key()


def test_nobody_takes_the_name_of_our_own_issuer() -> None:
    listed = IssuerSettings(issuer="muster", audience="muster", jwks_url="https://one.example/keys")
    settings = RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF, auth_issuers=(listed,))
    with pytest.raises(ValueError, match="one name"):
        authenticator(settings, _issuer(name="muster"))


def test_an_issuer_counts_once_and_there_has_to_be_one() -> None:
    one = IssuerSettings(issuer=ONE, audience="muster", jwks_url="https://one.example/keys")
    with pytest.raises(ValidationError, match="twice"):
        RpcSettings(grpc_listen="127.0.0.1:0", auth_issuers=(one, one))
    with pytest.raises(ValidationError, match="MUSTER_AUTH_ISSUERS"):
        RpcSettings(grpc_listen="127.0.0.1:0")
