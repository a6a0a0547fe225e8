"""The keys under which a stack's submission stores credentials: one file in the data folder, made once.

Called by keeper/parts.py before submission starts. Holds: only its owner reads the file; a file that is there is never
touched but by `muster keys rotate sealing`, which adds a key and removes none, so that what was sealed always opens.
"""

from __future__ import annotations

import base64
import os
import secrets
import time
from pathlib import Path
from typing import Final

from muster_stack.errors import StackError

_BYTES: Final = 32


def ensure(path: Path) -> Path:
    """The file, made with one new key where there is none."""
    if not path.exists():
        _write(path, f"{time.strftime('%Y%m%d', time.gmtime())} {_new_key()}\n")
    return path


def rotate(path: Path) -> str:
    """Puts a new key before those in the file; returns its id. Raises StackError where there is no file."""
    try:
        before = path.read_text()
    except OSError as error:
        raise StackError(f"{path} cannot be read ({error.strerror}): restore it, or name another --data") from None
    kid = f"{time.strftime('%Y%m%d', time.gmtime())}-{secrets.token_hex(4)}"
    _write(path, f"{kid} {_new_key()}\n{before}")
    return kid


def add(path: Path, other: Path) -> None:
    """Put the keys of another file that this one lacks behind its own, so that what they sealed opens."""
    own = path.read_text()
    known = {line.split()[0] for line in own.splitlines() if line.split()}
    more = [line for line in other.read_text().splitlines() if line.split() and line.split()[0] not in known]
    if more:
        _write(path, own.rstrip("\n") + "\n" + "\n".join(more) + "\n")


def listed(path: Path) -> list[str]:
    """The ids of the keys in the file, the current one first."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[0] for line in lines if line.split() and not line.startswith("#")]


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def _write(path: Path, text: str) -> None:
    """Whole or not at all: half a key would seal what nothing opens."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
