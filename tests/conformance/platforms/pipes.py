"""The pipe on which a program of a case waits for the code with which it is to end."""

from __future__ import annotations

import os
from pathlib import Path


def is_told(pipe: Path, code: int) -> bool:
    """Write the code into the pipe; False: the program does not read it yet."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # not there yet, or not read yet
        return False
    os.write(descriptor, f"{code}\n".encode())
    os.close(descriptor)
    return True
