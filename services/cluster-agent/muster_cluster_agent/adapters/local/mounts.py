"""A view of the file system for one replica of root's stack, in a mount namespace of its own.

Applied between fork and exec, as root. Standard library only. A folder that the replica's user may not search (root's
home, a data folder) is covered by an empty one in which only what is granted appears, under the path that it has
outside: an interpreter below a 0700 /root is reachable, its neighbours do not exist. /tmp is the replica's own
(its /dev/shm comes with its budget, limits.py). Nothing of it is seen outside, and it goes with the last process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from muster_cluster_agent.domain.confinement import Confinement, Right

_NEW_NAMESPACE: Final = 0x20000  # CLONE_NEWNS
_READ_ONLY, _NO_SUID, _NO_DEVICES = 1, 2, 4
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20, 0x1000, 0x4000, 1 << 18
_TMP: Final = "/tmp"  # noqa: S108  the place itself

_libc = ctypes.CDLL(None, use_errno=True)


def unreachable(path: str, uid: int) -> str:
    """Return the highest folder above `path` that a user without groups may not search; empty: none."""
    for folder in reversed(Path(path).parents):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(folder)
            if not status.st_mode & (stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH):
                return str(folder)
    return ""


def enter(confinement: Confinement) -> None:
    """Enter the view. Raises OSError."""
    # Its budget may have given it a namespace already; another one would copy every mount again.
    if _namespace("self") == _namespace(str(os.getppid())) and _libc.unshare(_NEW_NAMESPACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"a mount namespace: {os.strerror(code)}")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    # Opened in this namespace, since nothing of another one can be mounted here, and before anything is covered.
    covers = _covers(confinement, confinement.uid or 0)
    accounts = [os.open(file, os.O_PATH) for file in confinement.accounts or ()]
    own, inside_tmp = os.open(confinement.tmp, os.O_PATH | os.O_DIRECTORY), _granted_in_tmp(confinement)
    for folder, inside in covers.items():
        _cover(folder, inside)
    _bind(own, _TMP, read_only=False)
    for path, target, read_only in sorted(inside_tmp):
        _place(path, target)
        _bind(target, path, read_only=read_only)
    for account, place in zip(accounts, ("/etc/passwd", "/etc/group"), strict=False):
        _bind(account, place, read_only=True)


def _namespace(process: str) -> int:
    return os.stat(f"/proc/{process}/ns/mnt").st_ino


def _granted_in_tmp(confinement: Confinement) -> list[tuple[str, int, bool]]:
    """What is granted below /tmp, where a stack may lie: it appears in the replica's own /tmp under the same path."""
    found = []
    for grant in confinement.grants:
        if _within(grant.path, _TMP) and grant.path != _TMP:
            with contextlib.suppress(FileNotFoundError):
                found.append((grant.path, os.open(grant.path, os.O_PATH), grant.right is not Right.WRITE))
    return found


def _covers(confinement: Confinement, uid: int) -> dict[str, list[tuple[str, int, bool]]]:
    """What has to be covered, each with what appears in it: the path, the open target, and whether it is read only."""
    found: dict[str, list[tuple[str, int, bool]]] = {}
    for grant in confinement.grants:
        folder = unreachable(grant.path, uid)
        if folder and not _within(folder, _TMP):
            with contextlib.suppress(FileNotFoundError):
                entry = (grant.path, os.open(grant.path, os.O_PATH), grant.right is not Right.WRITE)
                found.setdefault(folder, []).append(entry)
    outermost = [one for one in found if not any(_within(one, other) for other in found if other != one)]
    return {
        folder: [entry for inner, entries in found.items() if _within(inner, folder) for entry in entries]
        for folder in outermost
    }


def _cover(folder: str, inside: Iterable[tuple[str, int, bool]]) -> None:
    _mount("tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=755,size=1m")
    for path, target, read_only in sorted(inside):  # an outer one before what lies in it
        _place(path, target)
        _bind(target, path, read_only=read_only)
    _mount("none", folder, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)


def _place(path: str, target: int) -> None:
    """Make a mount point of the target's kind."""
    if os.path.exists(path):
        return
    if stat.S_ISDIR(os.fstat(target).st_mode):
        os.makedirs(path, 0o755)
        return
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def _bind(target: int, path: str, *, read_only: bool) -> None:
    """Mount what is open as `target` at a path, and close it."""
    _mount(f"/proc/self/fd/{target}", path, None, _BIND | _RECURSIVE)
    os.close(target)
    flags = _REMOUNT | _BIND | _NO_SUID | _NO_DEVICES
    _mount("none", path, None, flags | _READ_ONLY if read_only else flags)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    name = kind.encode() if kind else None
    if _libc.mount(source.encode(), os.fsencode(target), name, ctypes.c_ulong(flags), options.encode() or None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount on {target}: {os.strerror(code)}")
