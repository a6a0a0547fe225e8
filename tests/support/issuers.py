"""Two issuers of a test, with their keys, and tokens that they sign or that somebody makes up.

Used by the tests of tokens and of the keys that these are verified with.
"""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from muster_chassis.rpc import Issuer, TokenAuthenticator
from muster_chassis.rpc.keys import OneKey

ONE, TWO = "https://one.example", "https://two.example"
PRIVATE = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def pem(key: Any = PRIVATE) -> bytes:
    found: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found


def claimed(**changes: Any) -> dict[str, Any]:
    claims = {"sub": "anna", "iss": ONE, "aud": "muster", "exp": time.time() + 3600, "roles": ["b", "a", 7]}
    return {name: value for name, value in (claims | changes).items() if value is not None}


def signed(headers: Any = None, **changes: Any) -> str:
    return jwt.encode(claimed(**changes), PRIVATE, algorithm="ES256", headers=headers)


def issuer(**changes: Any) -> Issuer:
    values: dict[str, Any] = {"name": ONE, "audience": "muster", "algorithms": ("ES256",), "keys": OneKey(pem())}
    return Issuer(**(values | changes))


async def says(token: str, *issuers: Issuer) -> Any:
    return await TokenAuthenticator(issuers or [issuer()])(f"Bearer {token}")


def raw(header: Any, claims: Any, signature: bytes = b"") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
