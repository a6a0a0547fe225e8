"""The journal of one replica: what its supervisor did, line by line, on the disk before it is reported.

Written by the supervisor while it lives, and by an agent that found the supervisor dead. Standard library only.
Holds: only the process with the file's lock appends, so that an agent which declares a replica dead and a supervisor
that starts late cannot both win; a line that was torn by a crash is ignored by readers and ended by the next writer.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from typing import Any, Final

FILE: Final = "journal"
SPEC: Final = "spec.json"
STOP: Final = "stop"
_FULL_SECONDS: Final = 0.5  # between two tries to write to a full disk

Line = dict[str, Any]


class Locked(Exception):
    """Another process holds the journal: the supervisor lives."""


class Journal:
    """The open, locked journal of a replica's folder."""

    def __init__(self, folder: str, *, wait: bool = False) -> None:
        """Opens and locks it; raises Locked where another process has it, FileNotFoundError where there is no folder.

        wait: the supervisor waits for the lock, since an agent that only looks whether it is held has it for a moment,
        and for room on a full disk.
        """
        self._patient = wait
        self._file = os.open(os.path.join(folder, FILE), os.O_RDWR | os.O_APPEND)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise Locked(folder) from error
        tail = os.pread(self._file, 1, max(0, os.fstat(self._file).st_size - 1))
        self._torn = tail not in {b"", b"\n"}

    def append(self, *lines: Line) -> None:
        """Appends the lines and returns when the disk has them."""
        stamp = {"at": time.time(), "monotonic": time.monotonic()}
        text = "".join(json.dumps(line | stamp, separators=(",", ":")) + "\n" for line in lines)
        while not self._written(text.encode()):
            time.sleep(_FULL_SECONDS)
        self._torn = False
        os.fdatasync(self._file)

    def _written(self, text: bytes) -> bool:
        """Whether the disk took the lines. A supervisor waits for room: one that gave up would end its replica."""
        start = b"\n" if self._torn else b""
        try:
            count = os.write(self._file, start + text)
        except OSError as error:
            if self._patient and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                return False
            raise
        if count == len(start) + len(text):
            return True
        self._torn = True
        if not self._patient:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return False

    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Gives the lock back."""
        os.close(self._file)


def read(folder: str) -> list[Line]:
    """The journal's whole lines, oldest first; [] where there is none."""
    try:
        with open(os.path.join(folder, FILE), "rb") as file:
            text = file.read()
    except OSError:
        return []
    lines = []
    for raw in text.split(b"\n"):
        try:
            line = json.loads(raw)
        except ValueError:
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def held(folder: str) -> bool:
    """Whether a supervisor holds the journal, which it does from its first to its last moment."""
    try:
        Journal(folder).close()
    except Locked:
        return True
    except OSError:
        return False
    return False


def read_spec(folder: str) -> dict[str, Any]:
    """The replica's spec. Raises OSError or ValueError where it cannot be read."""
    with open(os.path.join(folder, SPEC), "rb") as file:
        spec = json.load(file)
    if not isinstance(spec, dict):
        raise ValueError(f"{folder}/{SPEC} is not a JSON object")  # noqa: TRY004  bad content, as a bad byte would be
    return spec
