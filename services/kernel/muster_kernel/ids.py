"""Identifiers: how they are made, what they may look like, and what a run's objects are called.

Pure: the clock and the random bytes are arguments. The scheduler, the agents and the tests must come to the same
names without talking to each other, because a name is what makes a second creation collide instead of doubling.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

NAME_LIMIT: Final = 63
_DIGEST_LENGTH: Final = 20
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RANDOM_BYTES: Final = 10
_LARGEST_MILLISECOND: Final = (1 << 48) - 1


def uuid7(milliseconds: int, random: bytes) -> str:
    """A UUIDv7 as lower-case text: `milliseconds` since 1970 in UTC, and ten random bytes (74 bits of them count).

    Raises ValueError where the time does not fit into 48 bits or the bytes are not ten.
    """
    if not 0 <= milliseconds <= _LARGEST_MILLISECOND:
        raise ValueError(f"a UUIDv7 takes 0..{_LARGEST_MILLISECOND} milliseconds since 1970, not {milliseconds}")
    if len(random) != _RANDOM_BYTES:
        raise ValueError(f"a UUIDv7 takes {_RANDOM_BYTES} random bytes, not {len(random)}")
    raw = bytearray(milliseconds.to_bytes(6, "big") + random)
    raw[6] = 0x70 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid5(namespace: str, name: str) -> str:
    """The UUIDv5 of a name within a namespace, which is a UUID itself: the same for ever and everywhere."""
    digest = hashlib.sha1(bytes.fromhex(namespace.replace("-", "")) + name.encode(), usedforsecurity=False).digest()
    raw = bytearray(digest[:16])
    raw[6] = 0x50 | (raw[6] & 0x0F)
    raw[8] = 0x80 | (raw[8] & 0x3F)
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Whether `text` is a UUID of any version in its canonical lower-case form."""
    return _UUID.fullmatch(text) is not None


def check_name(text: str, *, limit: int = NAME_LIMIT) -> str:
    """`text` itself where it is a legal name (DNS-1035, at most `limit` characters). Raises ValueError otherwise."""
    if not text:
        raise ValueError("a name must not be empty")
    if len(text) > limit:
        raise ValueError(f"{text!r} has {len(text)} characters; a name has at most {limit}")
    if _DNS_1035.fullmatch(text) is None:
        raise ValueError(
            f"{text!r} is not a name: lower-case letters, digits and '-', beginning with a letter and not ending in '-'"
        )
    return text


@lru_cache(maxsize=8192)
def digest(workload_id: str) -> str:
    """The 20 characters that stand for a workload in names: lower-case base32 of the SHA-256 of its id.

    Not the id's own head: the first digits of a UUIDv7 are a clock, and neighbours would share them.
    """
    # 20 letters of 5 bits are the first 100 bits; base64.b32encode is pure Python and ten times slower.
    number = int.from_bytes(hashlib.sha256(workload_id.encode()).digest()[:13], "big") >> 4
    return "".join([_BASE32[number >> shift & 31] for shift in range(5 * _DIGEST_LENGTH - 5, -1, -5)])


def base_name(workload_id: str, generation: int, attempt: int) -> str:
    """What every object of one run is called: `w-<20 base32>-g<generation>-a<attempt>`."""
    if generation < 0 or attempt < 0:
        raise ValueError(f"generation and attempt count upwards from 0, not {generation} and {attempt}")
    return f"w-{digest(workload_id)}-g{generation}-a{attempt}"


def replica_name(workload_id: str, generation: int, attempt: int, role: str, index: int, k: int) -> str:
    """The one name of a replica of one run: `<base name>-<role>-<index>-r<k>`.

    `k` counts the replacements of this replica within the attempt. Raises ValueError where the result is longer than
    63 characters or the role is not a legal part of a name.
    """
    if index < 0 or k < 0:
        raise ValueError(f"a replica's index and k count upwards from 0, not {index} and {k}")
    check_name(role)
    return check_name(f"{base_name(workload_id, generation, attempt)}-{role}-{index}-r{k}")
