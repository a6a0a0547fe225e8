"""Folders as a hostile replica makes them."""

from __future__ import annotations

import os
from pathlib import Path


def deep_folders(top: Path, depth: int, content: bytes = b"") -> None:
    """Make `depth` nested folders below `top`, deeper than a path can name, with a file of `content` in the last."""
    top.mkdir(parents=True, exist_ok=True)
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for _ in range(depth):
            os.mkdir("d", dir_fd=folder)
            inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open("file", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder)
        os.write(file, content)
        os.close(file)
    finally:
        os.close(folder)
