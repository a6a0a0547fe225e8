"""What can go wrong in telemetry, beside what the chassis knows.

FaustEnded      the Faust app crashed or never came up     it is built anew, with a backoff
Reject          (chassis) a sample that cannot be counted goes to the dead letters
"""

from __future__ import annotations


class FaustEnded(Exception):
    """The Faust app is no longer running although nobody stopped it."""
