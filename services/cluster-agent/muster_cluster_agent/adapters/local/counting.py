"""Count what a replica has on the disk: its folders at any depth, and open files that have no name any more.

Used by `disk.py`. Blocks. Folders are walked by descriptors, so that no path is too long; only the lowest few are open,
and those above them are found again by `..`. An inode counts once, however many names or descriptors it has.
Holds: no link is followed, no other file system is entered, and a count ends after a number of entries.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = 64  # folders of one walk that are open at a time
_BLOCK: Final = 512
Inode = tuple[int, int]  # (device, number)


@dataclass(slots=True)
class Count:
    """Bytes on the disk. left: entries that may still be counted; 0: there is more than was counted.

    devices: those of the folders and files that were counted; an overlay may give files another one than folders.
    """

    left: int
    bytes: int = 0
    devices: set[int] = field(default_factory=set)
    _seen: set[Inode] = field(default_factory=set)

    def add(self, found: os.stat_result) -> None:
        """Count a file or folder; a file that has not exactly one name may be met again and counts once."""
        self.left -= 1
        self.devices.add(found.st_dev)
        if found.st_nlink != 1 and not stat.S_ISDIR(found.st_mode):
            inode = (found.st_dev, found.st_ino)
            if inode in self._seen:
                return
            self._seen.add(inode)
        self.bytes += found.st_blocks * _BLOCK


@dataclass(slots=True)
class _Level:
    """A folder on the way down: its descriptor (-1: closed meanwhile), who it is, and which folders are to come."""

    folder: int
    inode: Inode
    names: list[str]


def add_folder(count: Count, folder: Path) -> None:
    """Count what a folder holds. One that is moved or removed meanwhile counts as far as the walk went."""
    try:
        top = os.open(folder, _FOLDER)
    except OSError:
        return
    count.devices.add(os.fstat(top).st_dev)
    way = [_level(count, top)]
    try:
        while way and count.left:
            if way[-1].names:
                _descend(count, way)
            else:
                _ascend(way)
    finally:
        for level in way:
            _close(level)


def add_unnamed(count: Count, pids: Iterable[int]) -> None:
    """Count the open and the mapped files of processes that have no name any more, where they can be looked at."""
    for pid in pids:
        for path in (*_descriptors(pid), *_mappings(pid)):
            if not count.left:
                return
            with contextlib.suppress(OSError):
                found = os.stat(path)
                if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_dev in count.devices:
                    count.add(found)
                else:
                    count.left -= 1


def _level(count: Count, folder: int) -> _Level:
    """Count the entries of an open folder."""
    own = os.fstat(folder)
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not count.left:
                break
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    count.add(found)
                elif found.st_dev == own.st_dev:
                    count.add(found)
                    names.append(entry.name)
    return _Level(folder, (own.st_dev, own.st_ino), names)


def _descend(count: Count, way: list[_Level]) -> None:
    name = way[-1].names.pop()
    try:
        inner = os.open(name, _FOLDER, dir_fd=way[-1].folder)
    except OSError:
        return
    way.append(_level(count, inner))
    if len(way) > _OPEN:
        _close(way[-1 - _OPEN])


def _ascend(way: list[_Level]) -> None:
    """Leave a folder. Where the one above it was closed and is no longer there, the walk ends."""
    done = way.pop()
    try:
        if way and way[-1].folder < 0:
            above = os.open("..", _FOLDER, dir_fd=done.folder)
            found = os.fstat(above)
            if (found.st_dev, found.st_ino) != way[-1].inode:
                os.close(above)
                way.clear()
            else:
                way[-1].folder = above
    except OSError:
        way.clear()
    finally:
        _close(done)


def _close(level: _Level) -> None:
    if level.folder >= 0:
        os.close(level.folder)
        level.folder = -1


def _descriptors(pid: int) -> Iterator[str]:
    """The open files of a process; each thread may have descriptors of its own."""
    for thread in _names(f"/proc/{pid}/task"):
        folder = f"/proc/{pid}/task/{thread}/fd"
        yield from (f"{folder}/{name}" for name in _names(folder))


def _mappings(pid: int) -> Iterator[str]:
    """The mapped files of a process that have no name any more."""
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            for line in file:
                if line.rstrip().endswith(b"(deleted)"):
                    yield f"/proc/{pid}/map_files/{line.split(b' ', 1)[0].decode()}"
    except OSError:
        return


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
