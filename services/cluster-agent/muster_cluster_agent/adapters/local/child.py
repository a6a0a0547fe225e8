"""The replica's own process between fork and exec: what it is given and what is taken from it.

Called right after the fork, in the child (command.py). Standard library only. Holds: nothing of the user runs
before the supervisor has written the process down; a step that fails ends the process, and its errno
is told. Limits come first, while the process may still set them; after the confinement it may not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from typing import Final

from muster_cluster_agent.adapters.local import confine, journal, limits
from muster_cluster_agent.domain.confinement import of_spec

_PR_SET_PDEATHSIG: Final = 1
NOT_EXECUTABLE: Final = 126
_PIECE: Final = 65536
ERROR_BYTES: Final = 512
GO: Final = b"!"

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, argument: int | bytes) -> None:
    """Change one property of this process. Raises OSError."""
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when `parent` ends; ends it at once where that has happened already."""
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(NOT_EXECUTABLE)


def become_command(parent: int, words: int, error: int, output: int) -> None:
    """Wait for the folder of a replica, take on its limits and its confinement, wait for `GO`, become the command.

    Never returns. What failed goes to `error`: its errno, and a text where the command itself is not to blame.
    """
    blame = ""
    try:
        die_with(parent)
        os.setsid()
        os.umask(confine.UMASK)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        folder, more = _folder(words)
        spec = journal.read_spec(folder)
        blame = "its limits could not be set"
        limits.enter(spec.get("budget", {}))
        blame = "it could not be confined"
        if spec.get("confinement"):
            confine.apply(of_spec(spec["confinement"]))
        die_with(parent)  # a change of the user has cleared the wish
        # All of that went on while the supervisor wrote the process down; nothing of the user runs before it has.
        if (more or os.read(words, 1)) != GO:
            os._exit(NOT_EXECUTABLE)
        blame = spec["cwd"]
        confine.change_folder(spec["cwd"])
        blame = ""
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606  no shell is the point
    except OSError as failure:
        text = f"{blame}: {failure.strerror or failure}" if blame else ""
        os.write(error, f"{failure.errno or errno.EACCES} {text}".encode()[:ERROR_BYTES])
    finally:
        os._exit(NOT_EXECUTABLE)


def _folder(words: int) -> tuple[str, bytes]:
    """The folder of the replica, and what came with it. Ends the process where the supervisor has no replica for it."""
    said = b""
    while b"\n" not in said:
        piece = os.read(words, _PIECE)
        if not piece:
            os._exit(NOT_EXECUTABLE)
        said += piece
    folder, _, more = said.partition(b"\n")
    return os.fsdecode(folder), more
