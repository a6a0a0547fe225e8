"""SCRAM-SHA-512 (RFC 5802, RFC 7677): what a broker keeps of a password, and a client's side of a login.

Passwords here are random texts of 43 ASCII characters, so that SASLprep changes nothing, and the number of iterations
is the smallest that Kafka takes: guessing 256 random bits is not made harder by more of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MECHANISM: Final = "SCRAM-SHA-512"
NUMBER: Final = 2
"""Of the mechanism in Kafka's protocol and metadata."""
ITERATIONS: Final = 4096
_HASH: Final = "sha512"
_SALT: Final = 16  # bytes
_NONCE: Final = 18  # bytes


class NotAuthentic(OSError):
    """The broker does not know the password itself: something else listens on its port."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a broker keeps of a password; the password cannot be computed from it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes


@lru_cache(maxsize=64)
def salted(password: str, salt: bytes, iterations: int = ITERATIONS) -> bytes:
    """The salted password, 64 bytes. Kept, since the keeper logs in several times a second while Kafka starts."""
    return hashlib.pbkdf2_hmac(_HASH, password.encode(), salt, iterations)


def verifier(password: str) -> Verifier:
    """A verifier with a new salt."""
    salt = secrets.token_bytes(_SALT)
    key = salted(password, salt)
    return Verifier(salt, _digest(_mac(key, b"Client Key")), _mac(key, b"Server Key"))


class Login:
    """The client's side of one login: `first()`, then `final(answer)`, then `check(answer)`."""

    def __init__(self, user: str, password: str) -> None:
        """`user`: letters, digits, dots and dashes; nothing that SCRAM would have to escape."""
        self._password = password
        self._bare = f"n={user},r={secrets.token_urlsafe(_NONCE)}"
        self._server = b""

    def first(self) -> bytes:
        """The first message."""
        return f"n,,{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """The second message, to the broker's first answer. Raises NotAuthentic for an answer that makes no sense."""
        try:
            fields = dict(part.split("=", 1) for part in answer.decode().split(","))
            nonce, salt, iterations = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            raise NotAuthentic(f"not an answer of SCRAM: {answer[:80]!r}") from error
        if not nonce.startswith(self._bare.partition("r=")[2]) or not ITERATIONS <= iterations <= 1 << 16:
            raise NotAuthentic("the answer of SCRAM does not belong to this login")
        key = salted(self._password, salt, iterations)
        client = _mac(key, b"Client Key")
        bare = f"c=biws,r={nonce}"
        signed = f"{self._bare},{answer.decode()},{bare}".encode()
        proof = bytes(a ^ b for a, b in zip(client, _mac(_digest(client), signed), strict=True))
        self._server = _mac(_mac(key, b"Server Key"), signed)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Raises NotAuthentic unless the broker's last answer proves that it knows the password too."""
        if not hmac.compare_digest(answer, b"v=" + base64.b64encode(self._server)):
            raise NotAuthentic("the broker does not prove that it knows the password")


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, _HASH)


def _digest(content: bytes) -> bytes:
    return hashlib.new(_HASH, content).digest()
