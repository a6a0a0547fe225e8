"""Exit codes, which scripts may rely on: they are documented in docs/cli.md and change only with a major version.

Called by `main` with whatever a verb raised.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from muster_client.errors import (
    AlreadyExists,
    InvalidInput,
    MusterError,
    NotAllowed,
    NotFound,
    Unauthenticated,
    Unavailable,
    WaitTimedOut,
)


class Exit(IntEnum):
    """How the command ended."""

    OK = 0  # it was done
    FAILED = 1  # the control plane answered and it was not done, or the workload that was waited for failed
    INVALID = 2  # the command line or the document is wrong; nothing was done
    NOT_FOUND = 3  # what was named does not exist
    UNAVAILABLE = 4  # nobody answered in time; the same command may work later
    NOT_ALLOWED = 5  # no token, a bad one, or one that may not do this
    INTERRUPTED = 130  # Ctrl-C


_EXITS: Final[tuple[tuple[type[MusterError], Exit], ...]] = (
    (InvalidInput, Exit.INVALID),
    (AlreadyExists, Exit.INVALID),
    (NotFound, Exit.NOT_FOUND),
    (Unavailable, Exit.UNAVAILABLE),
    (WaitTimedOut, Exit.UNAVAILABLE),
    (Unauthenticated, Exit.NOT_ALLOWED),
    (NotAllowed, Exit.NOT_ALLOWED),
)


def exit_of(problem: MusterError) -> Exit:
    """The exit code of an error."""
    return next((code for kind, code in _EXITS if isinstance(problem, kind)), Exit.FAILED)
