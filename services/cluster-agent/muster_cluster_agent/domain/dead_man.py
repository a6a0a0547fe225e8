"""The dead-man's deadline: how long a replica may run while the bus cannot be reached.

Pure. The local back end keeps the numbers, and tells them with every heartbeat. The scheduler gives devices away only
after the deadline of the last heartbeat that it has heard, and a margin. A deadline is seconds; None is "for ever".
"""

from __future__ import annotations

from collections.abc import Iterable


def least(*deadlines: float | None) -> float | None:
    """The one that comes first; None where all are for ever."""
    return min((one for one in deadlines if one is not None), default=None)


def largest(deadlines: Iterable[float | None]) -> float | None:
    """The one that comes last; None where one is for ever. Raises ValueError for none at all."""
    found = list(deadlines)
    return None if None in found else max(one for one in found if one is not None)
