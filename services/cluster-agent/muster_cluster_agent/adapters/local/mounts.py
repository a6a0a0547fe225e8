"""A view of the file system for one replica of root's stack, in a mount namespace of its own.

Applied between fork and exec, as root. Standard library only. A folder that the replica's user may not search (root's
home, a data folder) is covered by an empty one in which only what is granted appears, under the path that it has
outside: an interpreter below a 0700 /root is reachable, its neighbours do not exist. /tmp is the replica's own
(its /dev/shm comes with its budget, limits.py). Nothing of it is seen outside, and it goes with the last process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterable
from typing import Final

from muster_cluster_agent.adapters.local.beneath import make_folder, open_beneath
from muster_cluster_agent.adapters.local.places import Opened, Place, open_plain
from muster_cluster_agent.domain.confinement import Confinement, Right

NAMESPACES: Final = {"mnt": 0x20000, "ipc": 0x8000000}  # CLONE_NEWNS, CLONE_NEWIPC
_READ_ONLY, _NO_SUID, _NO_DEVICES = 1, 2, 4
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 0x20, 0x1000, 0x4000, 1 << 18
_TMP: Final = "/tmp"  # noqa: S108  the place itself

_libc = ctypes.CDLL(None, use_errno=True)


def unreachable(path: str, uid: int, known: dict[str, str] | None = None) -> str:
    """Return the highest folder above `path` that a user without groups may not search; empty: none.

    path: absolute and normal. known: what was found before by folder, which is looked at once only.
    """
    folder = os.path.dirname(path)
    found = {} if known is None else known
    if folder not in found:
        above = unreachable(folder, uid, found) if folder != path else ""
        found[folder] = above or (folder if _shut(folder, uid) else "")
    return found[folder]


def _shut(folder: str, uid: int) -> bool:
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        return False
    return not status.st_mode & (stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH)


def own_namespace() -> None:
    """Give this process mounts, System V segments and message queues that are seen nowhere else. Raises OSError.

    They end with its last process.
    """
    missing = 0
    for kind, flag in NAMESPACES.items():
        # Its budget may have given it a namespace already; another one would copy every mount again.
        if _namespace(kind, "self") == _namespace(kind, str(os.getppid())):
            missing |= flag
    if _libc.unshare(missing) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"a namespace of its own: {os.strerror(code)}")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)


def enter(confinement: Confinement, opened: Opened) -> None:
    """Enter the view. opened: the places of the confinement, open in this namespace. Raises OSError."""
    covers = _covers(opened.granted, confinement.uid or 0)
    accounts = [os.open(file, os.O_PATH) for file in confinement.accounts or ()]
    for folder, inside in covers.items():
        _cover(folder, inside)
    if opened.tmp is not None:
        _bind(opened.tmp.target, _TMP, read_only=False)
        base = os.open(_TMP, os.O_PATH | os.O_DIRECTORY)
        _show(base, _TMP, [place for place in opened.granted if place.path != _TMP and _within(place.path, _TMP)])
        os.close(base)
    for account, path in zip(accounts, ("/etc/passwd", "/etc/group"), strict=False):
        _bind(account, path, read_only=True)
        os.close(account)


def _namespace(kind: str, process: str) -> int:
    return os.stat(f"/proc/{process}/ns/{kind}").st_ino


def _covers(granted: Iterable[Place], uid: int) -> dict[str, list[Place]]:
    """Return the folders that have to be covered, each with the places that appear in it."""
    found: dict[str, list[Place]] = {}
    known: dict[str, str] = {}
    for place in granted:
        folder = unreachable(place.path, uid, known)
        if folder and not _within(folder, _TMP):
            found.setdefault(folder, []).append(place)
    outermost = [one for one in found if not any(_within(one, other) for other in found if other != one)]
    return {
        folder: [place for inner, places in found.items() if _within(inner, folder) for place in places]
        for folder in outermost
    }


def _cover(folder: str, inside: Iterable[Place]) -> None:
    path = os.path.realpath(folder)
    point = open_plain(path, os.O_PATH | os.O_DIRECTORY)
    options = "mode=755,size=1m"
    _mount("tmpfs", _by_descriptor(point), "tmpfs", _NO_SUID | _NO_DEVICES, options)
    cover = open_plain(path, os.O_PATH | os.O_DIRECTORY)  # what is mounted there now, so on a device of its own
    if os.fstat(cover).st_dev == os.fstat(point).st_dev:
        raise OSError(errno.EBUSY, f"{folder} was exchanged while it was covered")
    _show(cover, folder, inside)
    _restrict(_by_descriptor(cover), read_only=True)
    os.close(cover)
    os.close(point)


def _show(base: int, folder: str, inside: Iterable[Place]) -> None:
    """Mount each place at its path below a folder, open as `base`, of which a replica may have filled a part."""
    shown: list[Place] = []
    for place in sorted(inside):  # an outer one before those that lie in it
        outer = [other for other in shown if _within(place.path, other.path)]
        if not any(other.right in {place.right, Right.WRITE} for other in outer):  # else it is seen there already
            _bind_beneath(place, base, place.path[len(folder) :].strip("/"))
            shown.append(place)


def _bind_beneath(place: Place, base: int, path: str) -> None:
    """Mount a place at a path below an open folder; what is missing on the way is made."""
    point = _mount_point(base, path, folder=place.folder)
    try:
        _mount(_by_descriptor(place.target), _by_descriptor(point), None, _BIND | _RECURSIVE)
    finally:
        os.close(point)
    mounted = open_beneath(base, path, os.O_PATH)
    try:
        _restrict(_by_descriptor(mounted), read_only=place.right is not Right.WRITE)
    finally:
        os.close(mounted)


def _mount_point(base: int, path: str, *, folder: bool) -> int:
    """Return an open mount point of its kind, made where it is missing."""
    above, name = os.path.split(path)
    parent = os.dup(base)
    for part in above.split("/") if above else ():
        inner = make_folder(parent, part, 0o755, None)
        os.close(parent)
        parent = inner
    try:
        if folder:
            return make_folder(parent, name, 0o755, None)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=parent))
        return open_beneath(parent, name, os.O_PATH)
    finally:
        os.close(parent)


def _bind(target: int, path: str, *, read_only: bool) -> None:
    """Mount what is open as `target` at a path of the machine."""
    _mount(_by_descriptor(target), path, None, _BIND | _RECURSIVE)
    _restrict(path, read_only=read_only)


def _restrict(mounted: str, *, read_only: bool) -> None:
    """Let nothing of what is mounted there be a device or lend rights. Raises OSError where nothing is mounted."""
    flags = _REMOUNT | _BIND | _NO_SUID | _NO_DEVICES
    _mount("none", mounted, None, flags | _READ_ONLY if read_only else flags)


def _by_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    name = kind.encode() if kind else None
    if _libc.mount(source.encode(), os.fsencode(target), name, ctypes.c_ulong(flags), options.encode() or None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount on {target}: {os.strerror(code)}")
