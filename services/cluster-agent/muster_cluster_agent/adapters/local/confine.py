"""Applies a confinement to the process that is about to become a replica.

Called by child.py between fork and exec. Standard library only. Holds: every step works or raises; after the last one
this process is another user without any capability, or the same user, and reaches only what it was granted.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Final

from muster_cluster_agent.adapters.local import landlock, mounts, places
from muster_cluster_agent.domain.confinement import Confinement, of_spec

_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_INVALID: Final = 22
UMASK: Final = 0o022
"""Of replicas, as of a login. The services of a stack have one that lets in no other user."""

_libc = ctypes.CDLL(None, use_errno=True)


def apply(confinement: Confinement) -> None:
    """Confine this process. Raises OSError.

    Who changes the user clears the wish to die with the parent: the caller sets it again.
    """
    if confinement.uid is not None:
        mounts.own_namespace()
    # Opened in this namespace, since nothing of another one can be mounted here, and before anything is covered.
    with places.opened(confinement) as opened:
        if confinement.uid is not None:
            mounts.enter(confinement, opened)
            _give_up_powers()
            os.setgroups([])
            os.setresgid(confinement.uid, confinement.uid, confinement.uid)
            os.setresuid(confinement.uid, confinement.uid, confinement.uid)
        landlock.restrict(opened.all, confinement.landlock)


def change_folder(path: str) -> None:
    """Start in a folder that lies across no link. Raises OSError."""
    folder = places.open_plain(path, os.O_PATH | os.O_DIRECTORY)
    try:
        os.fchdir(folder)
    finally:
        os.close(folder)


def _give_up_powers() -> None:
    """Empty the bounding and the ambient set; the others are emptied by the change of the user."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if ctypes.get_errno() != _INVALID:  # beyond the last one that this kernel knows
        raise OSError(ctypes.get_errno(), f"capability {capability} could not be dropped")


def trial(spec: str, private: str, argv: list[str]) -> None:
    """Confine this process like a replica and become `argv`. What goes wrong is its last line on standard error."""
    confinement = of_spec(json.loads(spec))
    os.umask(UMASK)
    try:
        apply(confinement)
    except OSError as error:
        sys.exit(str(error))
    try:
        os.close(os.open(private, os.O_RDONLY))
        sys.exit(f"{private} could be opened all the same")
    except OSError:
        pass
    try:
        os.execv(argv[0], argv)  # noqa: S606  no shell is the point
    except OSError as error:
        user = "this user" if confinement.uid is None else f"user {confinement.uid}"
        sys.exit(f"{argv[0]}: {error.strerror}; its folder has to be readable for {user}")
