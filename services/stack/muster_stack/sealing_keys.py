"""The keys under which a stack's submission stores credentials: one file in the data folder, made once.

Called by keeper/parts.py before submission starts. Holds: only its owner reads the file; a file that is there is never
touched, so that what was sealed opens after a restart. To rotate, write a new first line.
"""

from __future__ import annotations

import base64
import os
import secrets
import time
from pathlib import Path
from typing import Final

_BYTES: Final = 32


def ensure(path: Path) -> Path:
    """The file, made with one new key where there is none."""
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        line = f"{time.strftime('%Y%m%d', time.gmtime())} {base64.b64encode(secrets.token_bytes(_BYTES)).decode()}\n"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)  # whole or not at all: half a key would seal what nothing opens
    return path
