"""The identities of a stack's services: a private key each, and the trust file that says whose public keys count.

Called by the keeper before anything starts, and by `muster keys`. Holds: private keys have mode 0600 in a folder of
mode 0700; a file is written whole or not at all; a public key is in the trust file before anything is signed with its
private half. The format of both is the chassis's (muster_chassis/key_files.py), which this room must not import; a test
holds the two together.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muster_stack.errors import StackError
from muster_stack.layout import Layout

CALLS: Final = "calls"
ASSIGNMENTS: Final = "assignments"
_SCHEDULER: Final = "scheduler"


@dataclass(frozen=True, slots=True)
class Identity:
    """One private key of the stack: whose it is, what it signs, and the name of its file."""

    service: str
    purpose: str
    file: str

    def path(self, layout: Layout) -> Path:
        """Where the private key is."""
        return layout.identities / self.file


SERVICES: Final = tuple(
    Identity(name, CALLS, f"{name}.key") for name in ("submission", "policy", "scheduler", "telemetry")
)
SIGNING: Final = Identity(_SCHEDULER, ASSIGNMENTS, "assignments.key")
ALL: Final = (*SERVICES, SIGNING)


def service_key(layout: Layout, service: str) -> Path:
    """The private key with which a service calls others."""
    return layout.identities / f"{service}.key"


def assignments_key(layout: Layout) -> Path:
    """The private key with which the scheduler signs assignments."""
    return SIGNING.path(layout)


def trust(layout: Layout) -> Path:
    """The trust file."""
    return layout.identities / "trust.json"


def ensure(layout: Layout) -> None:
    """Makes the keys that are missing, and a trust file that has all of them. Raises StackError for a damaged one."""
    layout.identities.mkdir(mode=0o700, parents=True, exist_ok=True)
    listed = listed_keys(layout)
    for identity in ALL:
        path = identity.path(layout)
        private = _read(path) if path.exists() else Ed25519PrivateKey.generate()
        if not any(_is(member, identity, key_id(private)) for member in listed):
            listed = [*listed, member_of(identity, private)]
            write_trust(layout, listed)
        if not path.exists():
            write_private(path, private)


def listed_keys(layout: Layout) -> list[dict[str, Any]]:
    """The members of the trust file; none where there is no file. Raises StackError."""
    path = trust(layout)
    if not path.exists():
        return []
    try:
        listed: list[dict[str, Any]] = json.loads(path.read_text())["keys"]
        return [dict(member) for member in listed]
    except (OSError, ValueError, KeyError, TypeError):
        raise StackError(
            f"{path} cannot be read as a trust file: remove it, and the next `muster up` makes it again"
        ) from None


def write_trust(layout: Layout, listed: Sequence[dict[str, Any]]) -> None:
    """Replaces the trust file."""
    write_whole(trust(layout), json.dumps({"keys": list(listed)}, indent=2) + "\n")


def write_private(path: Path, private: Ed25519PrivateKey) -> None:
    """Replaces a private key."""
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_whole(path, pem.decode())


def member_of(identity: Identity, private: Ed25519PrivateKey) -> dict[str, Any]:
    """How the trust file lists the public half of a key."""
    raw = private.public_key().public_bytes_raw()
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": key_id(private),
        "x": base64.urlsafe_b64encode(raw).rstrip(b"=").decode(),
        "service": identity.service,
        "for": identity.purpose,
        "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def key_id(private: Ed25519PrivateKey) -> str:
    """The id of a key: 16 hex digits of SHA-256 over its public bytes."""
    return hashlib.sha256(private.public_key().public_bytes_raw()).hexdigest()[:16]


def current(layout: Layout, identity: Identity) -> str:
    """The id of the key that signs now. Raises StackError."""
    return key_id(_read(identity.path(layout)))


def _is(member: dict[str, Any], identity: Identity, kid: str) -> bool:
    return (member.get("kid"), member.get("service"), member.get("for")) == (kid, identity.service, identity.purpose)


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise StackError(f"{path} holds no private key ({error}): restore it, or remove it for a new one") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise StackError(f"{path} holds no Ed25519 key: restore it, or remove it for a new one")
    return key


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
