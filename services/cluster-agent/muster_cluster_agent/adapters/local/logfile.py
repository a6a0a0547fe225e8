"""A replica's log within a budget: segments named by their offset, the oldest dropped first.

Written by the supervisor, read by the agent. Standard library only.
Holds: a position in the log (bytes since the replica's start) means the same for ever, also after older bytes are gone;
a full disk costs lines of the log and never the replica. A file next to the segments (`log_times`) says when which part
was written.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from muster_cluster_agent.adapters.local.log_times import TimesWriter, find_position

SEGMENTS: Final = 4
_PREFIX: Final = "log."
_LONGEST_LINE: Final = 64 << 10  # bytes that are looked through for the beginning of a line
_LEAST_BURST: Final = 1 << 20
_LARGEST_TAIL: Final = 4 << 20
_SECONDS_A_BUDGET: Final = 4.0


def segments(folder: str) -> list[tuple[int, str]]:
    """The segments that exist, as (offset of the first byte, path), oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(
        (int(name[len(_PREFIX) :]), os.path.join(folder, name))
        for name in names
        if name.startswith(_PREFIX) and name[len(_PREFIX) :].isdigit()
    )


class LogWriter:
    """Appends to a replica's log."""

    def __init__(self, folder: str, budget: int) -> None:
        """`budget`: bytes that are kept at most."""
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._limit = max(4096, budget // SEGMENTS)
        existing = segments(folder)
        self._start = existing[-1][0] + os.path.getsize(existing[-1][1]) if existing else 0
        self._size = 0
        self._file = self._open(self._start)
        self._times = TimesWriter(folder)

    def write(self, chunk: bytes) -> None:
        """Append; a full segment is followed by a new one. A full disk loses log lines, never the replica."""
        with contextlib.suppress(OSError):
            if chunk:
                self._times.note(self._start + self._size)
        with contextlib.suppress(OSError):
            self._size += os.write(self._file, chunk)
            if self._size >= self._limit:
                self._turn()

    def _turn(self) -> None:
        """Begin the next segment and drop the oldest. Raises OSError, and then goes on in this one."""
        following = self._open(self._start + self._size)
        os.close(self._file)
        self._start, self._size, self._file = self._start + self._size, 0, following
        for _, path in segments(self._folder)[:-SEGMENTS]:
            os.unlink(path)
        self._times.drop_before(segments(self._folder)[0][0])

    def _open(self, start: int) -> int:
        path = os.path.join(self._folder, f"{_PREFIX}{start:015d}")
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


class Throttle:
    """How many bytes may be copied now: a burst of one budget, then a quarter of a budget each second.

    A command that prints at full speed waits for its log, as it would for a slow terminal; without that it costs a
    core for the copying and the disk its bandwidth, only to drop nearly all of it again.
    """

    def __init__(self, budget: int, now: float) -> None:
        self._burst = float(max(_LEAST_BURST, budget))
        self._rate = self._burst / _SECONDS_A_BUDGET
        self._left = self._burst
        self._at = now

    def take(self, amount: int, now: float) -> None:
        """Count what was copied."""
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now

    def pause(self, now: float) -> float:
        """Seconds until the next chunk may be copied; 0: now."""
        return max(0.0, -self._left / self._rate - (now - self._at))


def read_from(folder: str, position: int, limit: int) -> tuple[int, bytes]:
    """At most `limit` bytes from `position` on, and the position after them; dropped bytes are skipped."""
    for start, path in segments(folder):
        try:
            size = os.path.getsize(path)
            if position >= start + size:
                continue
            with open(path, "rb") as file:
                file.seek(max(0, position - start))
                chunk = file.read(limit)
        except OSError:
            continue
        if chunk:
            return max(position, start) + len(chunk), chunk
    return position, b""


def position_since(folder: str, moment: float) -> int:
    """The position of the first line that was written at `moment` (seconds since 1970) or later, to the second.

    The end of the log where nothing was written since; its beginning where it says no times.
    """
    position = find_position(folder, moment)
    if position is None:
        last = segments(folder)[-1:]
        return sum(start + _size_of(path) for start, path in last)
    for start, path in reversed(segments(folder)):
        if start <= position:
            return _line_start(path, start, position)
    return position


def _line_start(path: str, start: int, position: int) -> int:
    """Where the line begins in which the position is; the position itself where that is far away."""
    reach = min(position - start, _LONGEST_LINE)
    try:
        with open(path, "rb") as file:
            file.seek(position - start - reach)
            before = file.read(reach)
    except OSError:
        return position
    newline = before.rfind(b"\n")
    if newline < 0 and reach == _LONGEST_LINE:
        return position
    return position - reach + newline + 1


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def first_position(folder: str, since: float | None, lines: int) -> int:
    """Where reading begins: at a moment (seconds since 1970), and then at the last so many lines of the rest; 0: all.

    Of lines that are longer than 4 MiB together the last 4 MiB count.
    """
    end = position_since(folder, since) if since is not None else 0
    if not lines:
        return end
    held = b""
    while True:
        end, chunk = read_from(folder, end, _LARGEST_TAIL)
        if not chunk:
            break
        held = (held + chunk)[-_LARGEST_TAIL:]
    return end - len(b"".join(held.splitlines(keepends=True)[-lines:]))


def tail(folder: str, limit: int) -> bytes:
    """The last whole lines, at most `limit` bytes."""
    kept = b""
    for _, path in reversed(segments(folder)):
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - limit - 1))
                kept = file.read() + kept
        except OSError:
            continue
        if len(kept) > limit:
            break
    if len(kept) <= limit:
        return kept
    cut = kept[-limit:]
    newline = cut.find(b"\n")
    begins_a_line = kept[-limit - 1 : -limit] == b"\n"
    return cut if begins_a_line or not 0 <= newline < len(cut) - 1 else cut[newline + 1 :]
