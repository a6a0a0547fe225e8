"""The typed async client of Muster and the `muster` command.

from muster_client import Muster
"""

from __future__ import annotations

from muster_client.calls import Patience
from muster_client.errors import (
    AlreadyExists,
    Broken,
    Conflict,
    CursorTooOld,
    InvalidInput,
    LimitReached,
    MusterError,
    NotAllowed,
    NotFound,
    NotNow,
    NotOffered,
    TimedOut,
    Unauthenticated,
    Unavailable,
    Violation,
    WaitTimedOut,
)
from muster_client.muster import Muster
from muster_client.quotas import pool_quota
from muster_client.watching import WatchItem
from muster_client.words import TERMINAL, phase_of, phase_word
from muster_kernel.lifecycle import Phase

__all__ = [
    "TERMINAL",
    "AlreadyExists",
    "Broken",
    "Conflict",
    "CursorTooOld",
    "InvalidInput",
    "LimitReached",
    "Muster",
    "MusterError",
    "NotAllowed",
    "NotFound",
    "NotNow",
    "NotOffered",
    "Patience",
    "Phase",
    "TimedOut",
    "Unauthenticated",
    "Unavailable",
    "Violation",
    "WaitTimedOut",
    "WatchItem",
    "phase_of",
    "phase_word",
    "pool_quota",
]
