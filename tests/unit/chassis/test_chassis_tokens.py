"""Tokens of several issuers: which count, which do not, and which issuers and keys stop a process at its start."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from muster_chassis.errors import Unauthenticated
from muster_chassis.rpc import CREDENTIAL, LOCAL, TokenAuthenticator, authenticator
from muster_chassis.rpc.keys import OneKey
from muster_chassis.settings import AuthMode, IssuerSettings, RpcSettings
from tests.support.issuers import ONE, RSA, TWO, claimed, issuer, pem, raw, says, signed


async def test_a_token_gives_its_subject_and_the_groups_of_the_named_claim() -> None:
    assert (await says(signed())).groups == ()
    who = await says(signed(), issuer(groups_claim="roles"))
    assert (who.subject, who.groups, who.issuer, who.credential) == ("anna", ("a", "b"), ONE, None)


async def test_a_role_in_a_token_is_nothing() -> None:
    who = await says(signed(role="system-admin", groups=["admins"], credential=1))
    assert (who.groups, who.credential) == ((), None)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(aud="other"), "Audience"),
        (signed(exp=1), "expired"),
        (signed(nbf=time.time() + 3600), "not yet valid"),
        (signed(iss=TWO), "Issuer is not familiar"),
        (signed(iss=None), "Issuer is not familiar"),
        (signed(exp=None), "exp"),
        (signed(aud=None), "aud"),
        (signed(sub=None), "sub"),
        (signed(sub=""), "subject"),
        (signed(sub="x" * 501), "subject"),
        (signed(headers={"crit": ["b64"]}), "Critical|critical"),
        (jwt.encode(claimed(), RSA, algorithm="RS256"), "signs with ES256"),
        (jwt.encode(claimed(), "", algorithm="none"), "signs with ES256"),
        (raw({"alg": "none"}, claimed()), "signs with ES256"),
        (raw({"alg": "ES256"}, claimed()), "ignature"),
        (raw({"alg": "ES256"}, claimed(), b"x" * 64), "ignature"),
        (raw({"alg": "ES256"}, [1]), "not accepted"),
        (raw([], claimed()), "not accepted"),
        (raw({"alg": ["ES256"]}, claimed()), "not accepted"),
        (raw({"alg": "ES256", "kid": 7}, claimed()), "not accepted"),
        (raw({"alg": "ES256"}, claimed() | {"iss": [ONE]}), "not familiar"),
        (signed()[:-8] + "AAAAAAAA", "ignature"),
        ("a" * 20_000, "longer"),
        (base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.", "not accepted"),
        ("a.b.c", "not accepted"),
        ("\u0000", "not accepted"),
    ],
)
async def test_what_does_not_hold_is_refused(token: str, why: str) -> None:
    with pytest.raises(Unauthenticated, match=why):
        await says(token)


async def test_a_public_key_is_no_secret_and_one_issuer_does_not_sign_for_another() -> None:
    forged = base64.urlsafe_b64encode(b"x").decode()
    header, payload, _ = jwt.encode(claimed(), "k" * 32, algorithm="HS256").split(".")
    with pytest.raises(Unauthenticated):
        await says(f"{header}.{payload}.{forged}")
    other = ec.generate_private_key(ec.SECP256R1())
    issuers = (issuer(), issuer(name=TWO, keys=OneKey(pem(other))))
    with pytest.raises(Unauthenticated, match="ignature"):
        await says(signed(iss=TWO), *issuers)


async def test_keys_that_the_token_brings_along_are_not_read() -> None:
    mine = ec.generate_private_key(ec.SECP256R1())
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(mine.public_key()))
    for header in ({"jwk": jwk}, {"jku": "https://evil.example/keys"}, {"x5u": "https://evil.example/x"}):
        with pytest.raises(Unauthenticated, match="ignature"):
            await says(jwt.encode(claimed(), mine, algorithm="ES256", headers=header))


async def test_a_verified_token_is_remembered_for_a_minute_and_never_beyond_its_end() -> None:
    now, keys = [time.time()], _Gone(OneKey(pem()))
    authenticate = TokenAuthenticator([issuer(keys=keys)], clock=lambda: now[0])
    long, short = f"Bearer {signed(exp=now[0] + 3600)}", f"Bearer {signed(exp=now[0] + 20)}"
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
    own = issuer(applications=True)
    assert (await says(signed(**{CREDENTIAL: 3}), own)).credential == 3
    for wrong in (None, "3", True):
        with pytest.raises(Unauthenticated, match="secret"):
            await says(signed(**{CREDENTIAL: wrong}), own)


@pytest.mark.parametrize("header", [None, "", "Basic x", "Bearer", "Bearer "])
async def test_without_a_token_nobody_calls(header: str | None) -> None:
    with pytest.raises(Unauthenticated, match="MUSTER_TOKEN"):
        await TokenAuthenticator([issuer()])(header)


async def test_where_none_is_needed_one_that_is_sent_is_verified_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(pem())
    listed = IssuerSettings(issuer=ONE, audience="muster", key_file=path)
    settings = RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF, auth_issuers=(listed,))
    authenticate = authenticator(settings)
    assert await authenticate(None) == LOCAL
    assert (await authenticate(f"Bearer {signed()}")).subject == "anna"
    with pytest.raises(Unauthenticated):
        await authenticate(f"Bearer {signed(exp=1)}")
    nobody = authenticator(RpcSettings(grpc_listen="127.0.0.1:0", auth=AuthMode.OFF))
    assert await nobody("Bearer x") == LOCAL


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
        authenticator(settings, issuer(name="muster"))


def test_an_issuer_counts_once_and_there_has_to_be_one() -> None:
    one = IssuerSettings(issuer=ONE, audience="muster", jwks_url="https://one.example/keys")
    with pytest.raises(ValidationError, match="twice"):
        RpcSettings(grpc_listen="127.0.0.1:0", auth_issuers=(one, one))
    with pytest.raises(ValidationError, match="MUSTER_AUTH_ISSUERS"):
        RpcSettings(grpc_listen="127.0.0.1:0")
