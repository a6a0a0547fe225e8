"""What `muster login` stored: the credentials of each control plane, and which one is meant where none is named.

Called by address.py and by the verbs. One file a control plane under `$XDG_CONFIG_HOME/muster/logins` (else
`~/.config`), named by a digest of its address. Holds: folders are 0700 and files 0600; a credential is used for the
address that it was stored for and no other.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Application:
    """An application's id and secret."""

    id: str
    secret: str


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, used as it is until it ends."""

    token: str


Credentials = Application | Token


def folder() -> Path:
    """Where logins are stored."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "muster" / "logins"


def current() -> str | None:
    """The control plane that was logged in to last; None where there is none."""
    try:
        server = str(json.loads((folder() / "current.json").read_text())["server"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return server or None


def store(server: str, credentials: Credentials, *, current: bool) -> Path:
    """Writes the credentials of a control plane; returns the file. `current`: it is meant where none is named."""
    path = path_of(server)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    body: dict[str, Any] = {"server": server}
    if isinstance(credentials, Application):
        body |= {"id": credentials.id, "secret": credentials.secret}
    else:
        body["token"] = credentials.token
    _write(path, body)
    path.with_suffix(".token").unlink(missing_ok=True)  # a token of the credentials before
    if current:
        _write(path.parent / "current.json", {"server": server})
    return path


def forget(server: str) -> bool:
    """Deletes what is stored of a control plane; whether there was anything."""
    path = path_of(server)
    if current() == server:
        (path.parent / "current.json").unlink(missing_ok=True)
    path.with_suffix(".token").unlink(missing_ok=True)
    try:
        path.unlink()
    except OSError:
        return False
    return True


def path_of(server: str) -> Path:
    """The file of a control plane."""
    return folder() / f"{hashlib.sha256(server.encode()).hexdigest()[:16]}.json"


def application_of(server: str) -> Path | None:
    """The file with the application of a control plane; None where there is none."""
    return path_of(server) if "secret" in _read(server) else None


def token_of(server: str) -> str | None:
    """The stored token of a control plane; None where there is none."""
    return str(_read(server)["token"]) if "token" in _read(server) else None


def _read(server: str) -> dict[str, Any]:
    try:
        found = json.loads(path_of(server).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("server") == server else {}


def _write(path: Path, body: dict[str, Any]) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(body, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
