"""The places of a confinement, each opened once: what is mounted and what is granted is the open one, never its path.

Used by the replica's own process between fork and exec. Standard library only. Holds: a folder that another replica
could have exchanged for a link is opened across no link, is a folder, and belongs to the user of the replica.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from muster_cluster_agent.adapters.local.beneath import open_beneath
from muster_cluster_agent.domain.confinement import Confinement, Grant, Right

_TOP: Final = "/"


class Place(NamedTuple):
    """A grant that is open. target: the descriptor of what is granted. path: where the replica finds it."""

    path: str
    right: Right
    target: int

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(os.fstat(self.target).st_mode)


class Opened(NamedTuple):
    """The open places of a confinement. tmp: the folder that becomes /tmp; None: there is none."""

    granted: tuple[Place, ...]
    tmp: Place | None

    @property
    def all(self) -> tuple[Place, ...]:
        """What may be used: the grants, and /tmp by itself, since it lies there below none of them."""
        return (*self.granted, self.tmp) if self.tmp else self.granted


@contextlib.contextmanager
def opened(confinement: Confinement) -> Iterator[Opened]:
    """Open every place of a confinement. Raises OSError, such as ELOOP where a link was put on the way."""
    with contextlib.ExitStack() as stack:
        granted = tuple(_granted(confinement.grants, stack))
        tmp = None
        if confinement.uid is not None and confinement.tmp:
            target = _open(Grant(confinement.tmp, Right.WRITE, plain=True, owner=confinement.uid))
            stack.callback(os.close, target)
            tmp = Place(confinement.tmp, Right.WRITE, target)
        yield Opened(granted, tmp)


def open_plain(path: str, flags: int) -> int:
    """Open an absolute path that crosses no link. Raises OSError, ELOOP among them."""
    top = os.open(_TOP, os.O_PATH | os.O_DIRECTORY)
    try:
        return open_beneath(top, path.strip(_TOP) or ".", flags)
    finally:
        os.close(top)


def _granted(grants: Iterable[Grant], stack: contextlib.ExitStack) -> Iterator[Place]:
    for grant in grants:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            target = _open(grant)
            stack.callback(os.close, target)
            yield Place(grant.path, grant.right, target)


def _open(grant: Grant) -> int:
    target = open_plain(grant.path, os.O_PATH) if grant.plain else os.open(grant.path, os.O_PATH)
    if grant.owner is not None:
        found = os.fstat(target)
        if found.st_uid != grant.owner or not stat.S_ISDIR(found.st_mode):
            os.close(target)
            raise PermissionError(
                errno.EPERM, f"{grant.path} is not a folder of user {grant.owner}, but of user {found.st_uid}"
            )
    return target
