"""Where the control plane is, and whose word counts.

What was said, then the environment, then what `muster login` stored, then the stack on this machine.
Called by the SDK's constructor where no address is given, and by the command line. Reads a few small files at most.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster_client import logins, tls
from muster_client.errors import Unavailable

SERVER_VARIABLE: Final = "MUSTER_SERVER"
TOKEN_VARIABLE: Final = "MUSTER_TOKEN"  # noqa: S105  the variable's name, not a token
APPLICATION_VARIABLE: Final = "MUSTER_APPLICATION"
_START_TIME: Final = 19  # counted after the command's closing parenthesis
HOME_VARIABLE: Final = "MUSTER_HOME"


def data_folder() -> Path:
    """The folder of the stack on this machine: MUSTER_HOME, else ~/.muster."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".muster")


def find_server(given: str | None = None) -> str:
    """The address of the control plane, as host:port, or https://host:port where it is reached by TLS.

    Raises Unavailable where nothing says one, and InvalidInput for one that cannot be meant.
    """
    address = _named(given) or logins.current() or _local_stack()
    if address is None:
        raise Unavailable(
            f"no control plane is known: no stack runs in {data_folder()}. Start one with `muster up`, "
            f"or name one with --server HOST:PORT or {SERVER_VARIABLE}"
        )
    return address


def find_token(given: str | None = None, server: str = "") -> str | None:
    """The bearer token: as given, as in the environment, or as stored for `server`; None where there is none."""
    return given or os.environ.get(TOKEN_VARIABLE) or (logins.token_of(server) if server else None)


def find_application(server: str | None = None) -> Path | None:
    """The file with the id and secret to log in with; None where calls need none.

    That of this machine's stack is used for that stack alone, and a stored one for its own server: no other server is
    told a secret.
    """
    given = os.environ.get(APPLICATION_VARIABLE)
    if given:
        return Path(given)
    named = _named(server) or logins.current()
    return logins.application_of(named) if named else _local_application()


def _named(given: str | None) -> str | None:
    address = given or os.environ.get(SERVER_VARIABLE)
    return tls.named(address) if address else None


def _local_application() -> Path | None:
    """The administrator's file of a stack that asks for tokens. Raises Unavailable where the stack does not run."""
    try:
        state = json.loads((data_folder() / "stack.json").read_text())
        if not state.get("application"):
            return None
        if not _runs(state.get("keeper") or {}):
            # The ports of a stack are anyone's once its keeper has gone: no secret may be sent there.
            raise Unavailable(f"the stack in {data_folder()} does not run. Start it with `muster up`")
        return Path(state["application"])
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _runs(keeper: Mapping[str, int]) -> bool:
    """Whether the process with that pid and that start time (field 22 of /proc/PID/stat) lives."""
    try:
        fields = Path(f"/proc/{keeper['pid']}/stat").read_text().rpartition(")")[2].split()
        return int(fields[_START_TIME]) == keeper["started"]
    except (OSError, ValueError, LookupError):
        return False


def _local_stack() -> str | None:
    """Submission's address out of the keeper's own file; None where no stack has written one."""
    try:
        state = json.loads((data_folder() / "stack.json").read_text())
        return str(state["services"]["submission"]["grpc"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no file, or one that is just being written: the same as no stack to a caller
