"""The applications that a stack begins with: one for its administrator, one for the agents of its clusters.

Called by the keeper before submission starts, which makes them from these files at its first start. Holds: the files
are their owner's alone, and are written once; who loses one makes another application and revokes this one.
"""

from __future__ import annotations

import json
import os
import secrets
import uuid
from pathlib import Path
from typing import Final

from muster_stack.layout import Layout

_ROLES: Final = {"admin": "system-admin", "agents": "cluster-agent"}


def administrator(layout: Layout) -> Path:
    """The file of the first administrator."""
    return layout.credentials / "admin.json"


def agents(layout: Layout) -> Path:
    """The file that the agents log in with."""
    return layout.credentials / "agents.json"


def ensure(layout: Layout) -> list[Path]:
    """Writes the files that are missing; returns all of them."""
    layout.credentials.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = [layout.credentials / f"{name}.json" for name in _ROLES]
    for path, role in zip(found, _ROLES.values(), strict=True):
        if not path.exists():
            _write(path, {"id": str(uuid.uuid4()), "secret": secrets.token_urlsafe(32), "role": role})
    return found


def _write(path: Path, application: dict[str, str]) -> None:
    """Whole or not at all, and never readable by others, not even for a moment."""
    fresh = path.with_suffix(".partial")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(application, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
