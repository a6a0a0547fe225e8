"""When which part of a replica's log was written: pairs of a position and a time in a file next to its segments.

Written by the supervisor through `logfile`, read by the agent. Standard library only.
Holds: at most one pair a second and `MOST` pairs, then the older half goes; times never run backwards, so that a clock
that is set back hides nothing; what cannot be written costs the times of the log, never the log.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import struct
import time
from collections.abc import Callable
from typing import Final

MOST: Final = 32_768
"""Pairs that are kept: 512 KiB, the times of at least the last 4 hours of a log that is written all the time."""
_NAME: Final = "times"
_PAIR: Final = struct.Struct("<Qd")  # a position in bytes, seconds since 1970
_SECOND: Final = 1.0
_Pair = tuple[int, float]


class TimesWriter:
    """Appends pairs for one replica."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.time) -> None:
        """Goes on after the pairs of an earlier run in the same folder."""
        self._path = os.path.join(folder, _NAME)
        self._clock = clock
        pairs = _read(self._path)
        self._count = len(pairs)
        self._last = pairs[-1][1] if pairs else 0.0

    def note(self, position: int) -> None:
        """Say that what follows the position is written now. Raises OSError."""
        now = self._clock()
        if now < self._last + _SECOND:
            return  # also where the clock was set back: what is written counts as written at the last time
        if self._count >= MOST:
            self._rewrite(_read(self._path)[MOST // 2 :])
        with open(self._path, "ab", opener=_private) as file:
            file.write(_PAIR.pack(position, now))
        self._last, self._count = now, self._count + 1

    def drop_before(self, position: int) -> None:
        """Forget the times of bytes that are gone. Raises OSError."""
        pairs = _read(self._path)
        first = max((n for n, (at, _) in enumerate(pairs) if at <= position), default=0)
        if first:
            self._rewrite(pairs[first:])

    def _rewrite(self, pairs: list[_Pair]) -> None:
        fresh = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        with open(fresh, "xb", opener=_private) as file:
            file.write(b"".join(_PAIR.pack(*pair) for pair in pairs))
        os.replace(fresh, self._path)
        self._count = len(pairs)


def find_position(folder: str, moment: float) -> int | None:
    """The position of the first byte that may have been written at `moment` or later; None where nothing was.

    0 where that is not known: the log says no times, or those of so long ago are forgotten.
    """
    pairs = _read(os.path.join(folder, _NAME))
    if not pairs or moment <= pairs[0][1]:
        return 0
    # What follows a pair was written within a second of it, else another pair would follow.
    found = bisect.bisect_right(pairs, moment - _SECOND, key=lambda pair: pair[1])
    return pairs[found][0] if found < len(pairs) else None


def _read(path: str) -> list[_Pair]:
    """The whole pairs of a file; a torn last one is left out."""
    try:
        with open(path, "rb") as file:
            found = file.read((MOST + 1) * _PAIR.size)
    except OSError:
        return []
    return list(_PAIR.iter_unpack(found[: len(found) // _PAIR.size * _PAIR.size]))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
