"""What makes two requests the same, kept where others may read it: a digest under a key that only the service has.

Called where a mutation is done once. A plain digest of a request would let whoever reads the database try out weak
credentials until one fits. Holds: a digest that was kept is recognised as long as its key is among the keys, so that
a rotation turns no repetition into another request.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence


def _none() -> Sequence[bytes]:
    return ()


class Fingerprints:
    """Digests of requests. `keys`: those of now, the current one first; none for a service that takes no credential."""

    def __init__(self, keys: Callable[[], Sequence[bytes]] = _none) -> None:
        """Asks for the keys at every digest: they may be rotated meanwhile."""
        self._keys = keys

    def of(self, content: bytes) -> bytes:
        """The digest of a content, 32 bytes, under the current key."""
        keys = self._keys()
        return _under(keys[0], content) if keys else hashlib.sha256(content).digest()

    def same(self, kept: bytes, content: bytes) -> bool:
        """Whether a kept digest is that of the content, under whichever key it was made."""
        keys = self._keys()
        found = [_under(key, content) for key in keys] if keys else [self.of(content)]
        return any(hmac.compare_digest(kept, each) for each in found)


def _under(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")
