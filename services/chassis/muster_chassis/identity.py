"""Event ids and commit ids: UUIDv7 with this process's clock and randomness.

The kernel knows how one is made; here is where the clock and the random bytes come from.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from muster_kernel.ids import uuid7


def event_id() -> str:
    """A new id. Ids made later by the same process sort later, down to the millisecond."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)
