"""Landlock: a process gives up every file that it is not granted, for itself and all its descendants.

Called between fork and exec, and once by the agent to ask for the version. Standard library only; the numbers of the
system calls are the same on every architecture (linux/landlock.h, kernel documentation of Landlock).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import Final

from muster_cluster_agent.adapters.local.places import Place
from muster_cluster_agent.domain.confinement import access, handled

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of the kernel's interface; 0: there is none."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def restrict(places: Iterable[Place], landlock: int) -> None:
    """Confine this process to open places. Raises OSError; the process is then as before, but for no_new_privs."""
    files, scopes = handled(landlock)
    attributes = struct.pack("=QQQ", files, 0, scopes)
    size = 24 if scopes else 8  # an older kernel knows a shorter struct
    ruleset = _call(_CREATE_RULESET, attributes[:size], ctypes.c_size_t(size), 0)
    try:
        for place in places:
            rights = access(place.right, folder=place.folder, landlock=landlock)
            _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place.target), 0)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs could not be set")
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
