"""What the use of a refresh token leads to: a successor, the same one again, or the end of the token's family.

Called by handlers/applications.py with the token's row locked. Holds: a token has one successor. For a short time the
same one is given again, since an answer may be lost and two shells may hold one token; a use after that time means that
two parties hold the token, and nothing tells which of them stole it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

LIFETIME: Final = timedelta(days=1)
"""How long a refresh token counts."""
AGAIN: Final = timedelta(seconds=30)
"""How long after its first use a token leads to the same successor again."""


@dataclass(frozen=True, slots=True)
class RefreshToken:
    """One refresh token. `successor`: the id of the token that it was exchanged for at `rotated_at`; None: unused."""

    id: str
    family: str
    made_at: datetime
    successor: str | None = None
    rotated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rotate:
    """The token was not used before: it gets a successor."""


@dataclass(frozen=True, slots=True)
class Again:
    """The token was used just now: the successor of that time is given again. made_at: the successor's."""

    successor: str
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Reused:
    """The token was used too long ago: its family ends."""


def judge(token: RefreshToken, now: datetime) -> Rotate | Again | Reused:
    """What a use of the token at `now` leads to."""
    if token.successor is None or token.rotated_at is None:
        return Rotate()
    if now - token.rotated_at <= AGAIN:
        return Again(token.successor, token.rotated_at)
    return Reused()
