"""Remove folders that a replica has filled: of any depth and size, across no link, and a bounded time in each turn.

Used by `workdirs.py` and `leftovers.py`. Blocks. A tree is emptied from its top: a folder that holds folders has them
moved up to the top, where they are emptied in their turn. So at most three folders are open, no path is ever longer
than one name, and a turn that ends early leaves what the next one goes on with.
Holds: only entries of folders that were opened beneath the top are removed; a link is removed and never followed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class Remover:
    """Empties folders until a moment.

    why: what kept the last entry from being removed; empty: nothing has.
    """

    def __init__(self, seconds: float) -> None:
        """The turn ends after so many seconds from now."""
        self._until = time.monotonic() + seconds
        self._names = (f".removed-{secrets.token_hex(8)}-{number}" for number in itertools.count())
        self.why = ""

    def _over(self) -> bool:
        """Whether the turn is over."""
        return time.monotonic() >= self._until

    def remove(self, path: Path) -> bool:
        """Remove a tree, or the part of it for which there is time; whether it is gone.

        The folder in which it lies must be one that no replica can write.
        """
        try:
            parent = os.open(path.parent, _FOLDER)
        except FileNotFoundError:
            return True  # with all that could lie in it
        try:
            if self._removed(parent, path.name, is_folder=True):
                return True
            with _opened(parent, path.name) as folder:
                return self.empty(folder) and self._removed(parent, path.name, is_folder=True)
        except OSError as error:
            self.why = f"{path.name}: {error.strerror}"
            return not os.path.lexists(path)
        finally:
            os.close(parent)

    def empty(self, top: int) -> bool:
        """Remove what an open folder holds; whether it is empty. False where the turn ended or something stays."""
        while not self._over():
            left, progress = False, False
            for name, is_folder in _entries(top):
                left = True
                progress |= self._emptied(top, name) if is_folder else self._removed(top, name, is_folder=False)
                if self._over():
                    return False
            if not left:
                return True
            if not progress:
                return False
        return False

    def _emptied(self, top: int, name: str) -> bool:
        """Remove a folder of the top after moving the folders in it up; whether anything was changed."""
        if self._removed(top, name, is_folder=True):
            return True
        progress = False
        try:
            with _opened(top, name) as folder:
                for inner, is_folder in _entries(folder):
                    gone = self._removed(folder, inner, is_folder=is_folder)
                    progress |= gone or (is_folder and self._lifted(folder, inner, top))
                    if self._over():
                        return progress
        except OSError as error:
            self.why = f"{_short(name)}: {error.strerror}"
            return progress
        return self._removed(top, name, is_folder=True) or progress

    def _lifted(self, folder: int, name: str, top: int) -> bool:
        """Move a folder that is not empty up to the top; False where it has gone or cannot be moved."""
        try:
            with _opened(folder, name):  # opens it for its owner, which a move to another folder needs
                os.rename(name, next(self._names), src_dir_fd=folder, dst_dir_fd=top)
        except FileNotFoundError:
            return False
        except OSError as error:
            self.why = f"{_short(name)}: {error.strerror}"
            return False
        return True

    def _removed(self, folder: int, name: str, *, is_folder: bool) -> bool:
        """Remove one file, link or empty folder; False where it has gone, is not empty or cannot be removed."""
        try:
            if is_folder:
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _FULL:
                self.why = f"{_short(name)}: {error.strerror}"
            return False
        return True


def unlock(parent: int, name: str) -> None:
    """Give the owner of a folder all rights in it, across no link. Raises OSError."""
    entry = os.open(name, _ENTRY, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{entry}", 0o700)  # the folder itself, and not what its name leads to by now
    finally:
        os.close(entry)


@contextlib.contextmanager
def _opened(parent: int, name: str) -> Iterator[int]:
    """A folder of an open one. A replica of the agent's own user may have shut it: it is unlocked first."""
    if os.geteuid() != 0:
        with contextlib.suppress(OSError):
            unlock(parent, name)
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _entries(folder: int) -> Iterator[tuple[str, bool]]:
    """Name and whether it is a folder, of each entry; read bit by bit, since there may be millions."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                yield entry.name, entry.is_dir(follow_symlinks=False)
            except OSError:
                continue  # it has gone


def _short(name: str) -> str:
    return ascii(name[:80])
