"""Where the control plane is, and whose word counts.

What was said, then the environment, then the stack on this machine.
Called by the SDK's constructor where no address is given, and by the command line. Reads one small file at most.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from muster_client.errors import Unavailable

SERVER_VARIABLE: Final = "MUSTER_SERVER"
TOKEN_VARIABLE: Final = "MUSTER_TOKEN"  # noqa: S105  the variable's name, not a token
HOME_VARIABLE: Final = "MUSTER_HOME"


def data_folder() -> Path:
    """The folder of the stack on this machine: MUSTER_HOME, else ~/.muster."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".muster")


def find_server(given: str | None = None) -> str:
    """The address of the control plane, as host:port. Raises Unavailable where nothing says one."""
    address = given or os.environ.get(SERVER_VARIABLE) or _local_stack()
    if address is None:
        raise Unavailable(
            f"no control plane is known: no stack runs in {data_folder()}. Start one with `muster up`, "
            f"or name one with --server HOST:PORT or {SERVER_VARIABLE}"
        )
    return address


def find_token(given: str | None = None) -> str | None:
    """The bearer token, or None where nobody gave one (the local stack asks for none)."""
    return given or os.environ.get(TOKEN_VARIABLE) or None


def _local_stack() -> str | None:
    """Submission's address out of the keeper's own file; None where no stack has written one."""
    try:
        state = json.loads((data_folder() / "stack.json").read_text())
        return str(state["services"]["submission"]["grpc"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no file, or one that is just being written: the same as no stack to a caller
