"""Where a list or a watch goes on: page tokens and cursors.

A page token is the last id of a page, bound to its filter: with another filter the pages would not fit together. A
cursor is a position in the change log. Both are opaque to callers, and what is malformed is refused in a sentence.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import Final

PAGE_DEFAULT: Final = 50
PAGE_LIMIT: Final = 500
_DIGEST_BYTES: Final = 8
_LONGEST: Final = 1_000  # characters of a row's name
_LARGEST: Final = 2**63 - 1


class BadToken(ValueError):
    """A token or cursor that cannot be read here; its text says why and what to do."""


def page_size(asked: int) -> int:
    """How many rows a page has; 0 asks for the default. Raises BadToken above the limit."""
    if asked > PAGE_LIMIT:
        raise BadToken(f"page_size is {asked}; 1 to {PAGE_LIMIT} are allowed, 0 means {PAGE_DEFAULT}")
    return asked or PAGE_DEFAULT


def page_token(last: str, bound: bytes) -> str:
    """The token that goes on after the row `last`, for the question whose canonical bytes are `bound`."""
    return base64.urlsafe_b64encode(_digest(bound) + last.encode()).decode().rstrip("=")


def read_page_token(token: str, bound: bytes) -> str:
    """The row after which the page begins; '' for the first page. Raises BadToken."""
    if not token:
        return ""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        last = raw[_DIGEST_BYTES:].decode()
    except (ValueError, binascii.Error):
        raise BadToken("page_token is not one that this service gave out: begin with an empty one") from None
    if "\x00" in last or len(last) > _LONGEST:
        raise BadToken("page_token is not one that this service gave out: begin with an empty one")
    if len(raw) <= _DIGEST_BYTES:
        raise BadToken("page_token is cut off: begin with an empty one")
    if raw[:_DIGEST_BYTES] != _digest(bound):
        raise BadToken("page_token belongs to another filter: ask with the same filter, or begin with an empty token")
    return last


def _digest(bound: bytes) -> bytes:
    return hashlib.sha256(bound).digest()[:_DIGEST_BYTES]


@dataclass(frozen=True, slots=True)
class Reach:
    """What the change log holds: entries after `floor`, up to `head`."""

    floor: int
    head: int


@dataclass(frozen=True, slots=True)
class TooOld:
    """The entries after the cursor are not all kept any more: the caller has to list again."""

    why: str


def read_number(last: str) -> int:
    """The number of the row in a page token whose rows are numbered. Raises BadToken."""
    if not (last.isascii() and last.isdecimal() and len(last) < 20) or int(last) > _LARGEST:  # noqa: PLR2004
        raise BadToken("page_token is not one that this service gave out: begin with an empty one")
    return int(last)


def read_cursor(text: str) -> int:
    """The position that a cursor stands for. Raises BadToken."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20) or int(text) > _LARGEST:  # noqa: PLR2004
        raise BadToken(
            f"cursor {text[:40]!r} is not one that this service gave out: leave it empty and take a snapshot"
        )
    return int(text)


def go_on(position: int, reach: Reach) -> int | TooOld:
    """From where a watch goes on after `position`, or why it cannot."""
    if position < reach.floor:
        return TooOld("the cursor is older than the change log, which is kept for 24 hours: list again, then watch")
    if position > reach.head:
        return TooOld(
            "the cursor is ahead of the change log, so it is not of this installation: list again, then watch"
        )
    return position
