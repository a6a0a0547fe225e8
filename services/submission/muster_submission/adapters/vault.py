"""Sealing and opening credentials with AES-256-GCM, under keys of a file: the first seals, all of them open.

Called by handlers/sealing.py and by the task that seals anew after a rotation. Holds: the file is read again when it
has changed; a value opens only for the holder that it was sealed for; no key and no value stands in an error or repr.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from muster_submission.domain.secrets import Sealed, SecretRef, bound_to
from muster_submission.errors import NoSealingKey

KEY_BYTES: Final = 32
_NONCE: Final = 12
_REQUESTS: Final = b"muster: digests of requests"  # one key for one purpose
_LONGEST_ID: Final = 64


class BadKeys(Exception):
    """The file of keys cannot be used; the message says where and why, and never what is in it."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys by id; `current` seals. requests: derived ones for digests of requests, the current one first."""

    current: str
    by_id: Mapping[str, AESGCM] = field(repr=False)
    requests: tuple[bytes, ...] = field(repr=False)


def read_keys(path: Path) -> Keys:
    """The keys of a file: a line each, `ID BASE64`, the current one first; # begins a remark. Raises BadKeys."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeys(f"{path}: {getattr(error, 'strerror', None) or 'not ASCII'}") from None
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, start=1):
        plain = line.partition("#")[0].split()
        if not plain:
            continue
        identity, key = _key(plain, f"{path}:{number}")
        if identity in found:
            raise BadKeys(f"{path}:{number}: the id {identity!r} stands there twice")
        found[identity] = key
    if not found:
        raise BadKeys(f"{path}: no key in it: expected lines of `ID BASE64`, {KEY_BYTES} bytes each, the current first")
    return Keys(
        next(iter(found)),
        {identity: AESGCM(raw) for identity, raw in found.items()},
        tuple(hmac.digest(raw, _REQUESTS, "sha256") for raw in found.values()),
    )


def _key(words: list[str], where: str) -> tuple[str, bytes]:
    if len(words) != 2 or len(words[0]) > _LONGEST_ID:  # noqa: PLR2004 - an id and a key
        raise BadKeys(f"{where}: expected an id of at most {_LONGEST_ID} characters, a space, and a key in base64")
    try:
        raw = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        raise BadKeys(f"{where}: the key is no base64") from None
    if len(raw) != KEY_BYTES:
        raise BadKeys(f"{where}: the key has {len(raw)} bytes; AES-256 takes {KEY_BYTES}")
    return words[0], raw


class Vault:
    """Seals and opens."""

    def __init__(self, path: Path | None) -> None:
        """path: the file of keys; None: nothing can be sealed. Raises BadKeys where the file cannot be used."""
        self._path = path
        self._seen = (0, 0)
        self._keys: Keys | None = None
        if path is not None:
            self.renew()

    @property
    def current(self) -> str:
        """The id of the key that seals; empty where there is none."""
        return self._keys.current if self._keys else ""

    def request_keys(self) -> tuple[bytes, ...]:
        """Keys for digests of requests, which may hold credentials; none where nothing can be sealed."""
        return self._keys.requests if self._keys else ()

    def renew(self) -> bool:
        """Reads the file again if it has changed; whether it did. Raises BadKeys, and the keys that were read stay."""
        if self._path is None:
            return False
        try:
            found = self._path.stat()
        except OSError as error:
            raise BadKeys(f"{self._path}: {error.strerror}") from None
        seen = (found.st_mtime_ns, found.st_ino)
        if seen == self._seen:
            return False
        self._keys = read_keys(self._path)
        self._seen = seen
        return True

    def seal(self, ref: SecretRef, holder: str, value: str) -> Sealed:
        """Seals a value for its holder. Raises NoSealingKey where there is no key."""
        if self._keys is None:
            raise NoSealingKey
        nonce = os.urandom(_NONCE)
        cipher = self._keys.by_id[self._keys.current].encrypt(nonce, value.encode(), bound_to(ref, holder))
        return Sealed(ref, holder, self._keys.current, nonce, cipher)

    def open(self, sealed: Sealed) -> str:
        """The value. Raises NoSealingKey where its key is gone from the file, or the row is not as it was sealed."""
        key = self._keys.by_id.get(sealed.key) if self._keys else None
        if key is None:
            raise NoSealingKey(f"credential {sealed.ref.id} was sealed with key {sealed.key!r}, which is not there")
        try:
            return key.decrypt(sealed.nonce, sealed.cipher, sealed.bound).decode()
        except InvalidTag:
            raise NoSealingKey(
                f"credential {sealed.ref.id} does not open: its row was changed, or its key was"
            ) from None
