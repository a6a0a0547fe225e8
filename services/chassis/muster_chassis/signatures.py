"""Signatures of assignment records: who writes on the topic is shown by a key, not by a header that says so.

Called by the relay of assignments (`RecordSigner`), by agents and by takeovers (`RecordVerifier`). Holds:
a signature covers the topic, the key and all bytes of the value, or the headers that a tombstone consists of; every
part is signed with its length, so that no two records have the same signed text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

from cryptography.exceptions import InvalidSignature

from muster_chassis.key_files import PrivateKey, Purpose, TrustFile

SIGNATURE: Final = "muster_signature"
"""The header with the signature in base64: headers are text, as CloudEvents has them."""
KEY: Final = "muster_key"
"""The header with the id of the key."""
TOMBSTONE_HEADERS: Final = ("epoch", "generation", "attempt", "grace", "reason")
"""The headers that say what a tombstone releases."""
_CONTEXT: Final = b"muster assignment 1"
_SIGNER: Final = "scheduler"


class BadSignature(ValueError):
    """A record that no trusted key has signed; the message says why."""


class RecordSigner:
    """Signs records with the scheduler's key for assignments."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key

    def headers(
        self, topic: str, key: bytes, value: bytes | None, headers: Sequence[tuple[str, bytes]]
    ) -> list[tuple[str, bytes]]:
        """The two headers to add to a record."""
        own = self._key.get()
        signature = own.private.sign(signed_text(topic, key, value, dict(headers)))
        return [(KEY, own.kid.encode()), (SIGNATURE, base64.b64encode(signature))]


class RecordVerifier:
    """Verifies records by the keys in a trust file."""

    def __init__(self, trust: TrustFile) -> None:
        self._trust = trust

    def verify(self, topic: str, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> None:
        """Raises BadSignature where no trusted key has signed this very record for this very topic."""
        kid, signature = headers.get(KEY), headers.get(SIGNATURE)
        if kid is None or signature is None:
            raise BadSignature("it is not signed: the scheduler signs every record on an assignments topic")
        public = self._trust.find(_SIGNER, Purpose.ASSIGNMENTS, kid[:64].decode("ascii", "replace"))
        if public is None:
            raise BadSignature(
                f"it is signed with the key {kid[:64]!r}, which {self._trust.path} does not list for assignments; "
                "if the scheduler has a new key, `muster clusters register` writes the trust file again"
            )
        try:
            public.verify(base64.b64decode(signature, validate=True), signed_text(topic, key, value, headers))
        except (InvalidSignature, ValueError):
            raise BadSignature("its signature does not fit: topic, key or content were changed") from None


def signed_text(topic: str, key: bytes, value: bytes | None, headers: Mapping[str, bytes]) -> bytes:
    """What is signed of a record."""
    if value is not None:
        return _joined(_CONTEXT, b"value", topic.encode(), key, value)
    said = [part for name in TOMBSTONE_HEADERS for part in (name.encode(), headers.get(name, b""))]
    return _joined(_CONTEXT, b"tombstone", topic.encode(), key, *said)


def _joined(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
