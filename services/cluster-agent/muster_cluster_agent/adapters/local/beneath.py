"""Opens what a replica may have written, without following where it points.

Used by the agent and the supervisors wherever they read or make something in a folder that a replica can write: a link
that it planted would otherwise lead root to any file of the machine. Standard library only (openat2, Linux 5.6).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import stat
import struct
from pathlib import Path
from typing import Any, Final

_OPENAT2: Final = 437
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 2, 4, 8

_libc = ctypes.CDLL(None, use_errno=True)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open a path that neither leaves the open folder nor crosses a link. Raises OSError, ELOOP or EXDEV among them."""
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _NO_MAGIC_LINKS | _NO_SYMLINKS | _BENEATH)
    result = int(_libc.syscall(_OPENAT2, folder, os.fsencode(path), how, ctypes.c_size_t(len(how))))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result


def make_folder(parent: int, name: str, mode: int, owner: int | None) -> int:
    """Make a folder, or take the one that is there, and return it open. owner: the user and group that get it."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, mode, dir_fd=parent)
    folder = open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY)
    if owner is not None and os.fstat(folder).st_uid != owner:
        os.fchown(folder, owner, owner)
    return folder


def read_json(root: Path, path: str, limit: int) -> dict[str, Any] | None:
    """Return a JSON object of at most `limit` bytes from a regular file below `root`; None where there is none."""
    try:
        folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
        try:
            # Not blocking: a replica may have put a pipe there that has no writer.
            with open(open_beneath(folder, path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                content = json.loads(file.read(limit + 1)[:limit])
        finally:
            os.close(folder)
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
