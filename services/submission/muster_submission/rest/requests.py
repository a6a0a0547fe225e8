"""Parts of a request that several routes read the same way."""

from __future__ import annotations

import uuid
from typing import Final

from starlette.requests import Request

_LARGEST: Final = (1 << 63) - 1


def idempotency_key(request: Request) -> str:
    """The key that makes a repeated request harmless: the caller's, else one of its own."""
    return request.headers.get("idempotency-key", "") or str(uuid.uuid4())


def number_of(text: str) -> int | None:
    """The number that an id is; None where it is none, and so names nothing."""
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST))
    return int(text) if plain and int(text) <= _LARGEST else None
