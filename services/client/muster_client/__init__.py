"""The typed client of Muster, async (`Muster`) and sync (`MusterSync`), and the `muster` command.

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
from muster_client.muster import LogLine, Muster
from muster_client.phases import Phase
from muster_client.quotas import pool_quota
from muster_client.sync import MusterSync
from muster_client.watching import WatchItem
from muster_client.words import TERMINAL, phase_of, phase_word

__all__ = [
    "TERMINAL",
    "AlreadyExists",
    "Broken",
    "Conflict",
    "CursorTooOld",
    "InvalidInput",
    "LimitReached",
    "LogLine",
    "Muster",
    "MusterError",
    "MusterSync",
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
