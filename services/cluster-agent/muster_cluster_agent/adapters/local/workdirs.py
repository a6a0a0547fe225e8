"""Where replicas work: a folder a workload, in it one for each run, and in that one for each replica.

    work/<digest>/                  of the agent; lives as long as the workload
        owner.json                  whose it is
        keep/                       outlives attempts: checkpoints                       MUSTER_WORKLOAD_DIR
        given/<replica>/            what a launcher reads: hosts, calls (read only for the replica)
        <generation>.<attempt>/     shared by the replicas of a run                      MUSTER_RUN_DIR
            <role>-<index>/work/    where the command starts                             MUSTER_WORKDIR
            <role>-<index>/home/    HOME      <role>-<index>/tmp/   TMPDIR
            <role>-<index>/told/    what its shims leave for the agent: a socket, a record
    work/removed/                   what goes; emptied in turns, since a replica may leave any depth and number of files

Used by the local back end; everything here but `folders` blocks. Paths are short, since a Unix socket below TMPDIR has
107 bytes. Holds: below a run's folder a replica may put anything, so that nothing there is opened across a link.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.adapters.local.beneath import make_folder, read_json
from muster_cluster_agent.adapters.local.trees import Remover, unlock
from muster_cluster_agent.ports import Kept
from muster_kernel import ids

KEPT_RUNS: Final = 3
"""Folders of earlier runs that stay, the one of now among them."""
_DIGEST_LENGTH: Final = 16
_OWNER: Final = "owner.json"
_RUN: Final = re.compile(r"(\d+)\.(\d+)")
_RECORD_LIMIT: Final = 4096  # bytes, as trun.py writes it
_PARTS: Final = ("work", "home", "tmp", "told")
_REMOVED: Final = "removed"
_GIVEN_SECONDS: Final = 5.0  # for the removal of the files that one replica was given


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of one replica. Absolute paths."""

    workload: Path
    run: Path
    own: Path
    given: Path

    @property
    def keep(self) -> Path:
        """What outlives attempts."""
        return self.workload / "keep"

    @property
    def work(self) -> Path:
        """Where the command starts."""
        return self.own / "work"

    @property
    def home(self) -> Path:
        """Its HOME."""
        return self.own / "home"

    @property
    def tmp(self) -> Path:
        """Its TMPDIR."""
        return self.own / "tmp"

    @property
    def told(self) -> Path:
        """Where its shims leave what the agent looks at."""
        return self.own / "told"


class Workdirs:
    """The folders below one root."""

    def __init__(self, root: Path) -> None:
        """The root is made where it is missing; only its owner may look into it."""
        self.root = root
        root.mkdir(mode=0o711, exist_ok=True)

    def folders(self, workload_id: str, name: str) -> Folders:
        """Return where the replica `w-<digest>-g<generation>-a<attempt>-<role>-<index>-r<k>` works."""
        workload = self.root / digest_of(workload_id)
        _, _, generation, attempt, *role, k = name.split("-")
        run = workload / f"{generation[1:]}.{attempt[1:]}"
        own = "-".join(role) if k == "r0" else f"{'-'.join(role)}.{k[1:]}"
        return Folders(workload, run, run / own, workload / "given" / name)

    def make(self, folders: Folders, workload_id: str, uid: int | None) -> None:
        """Make them. uid: the user who gets those in which the replica may write. Raises OSError."""
        folders.workload.mkdir(mode=0o711, exist_ok=True)
        owner = {"workload_id": workload_id, "used": time.time()}
        _replace(folders.workload / _OWNER, json.dumps(owner))
        with contextlib.ExitStack() as open_ones:
            top = _kept_open(open_ones, os.open(folders.workload, os.O_RDONLY | os.O_DIRECTORY))
            _kept_open(open_ones, make_folder(top, "keep", 0o700, uid))
            run = _kept_open(open_ones, make_folder(top, folders.run.name, 0o700, uid))
            own = _kept_open(open_ones, make_folder(run, folders.own.name, 0o700, uid))
            for part in _PARTS:
                _kept_open(open_ones, make_folder(own, part, 0o700, uid))

    def give(self, folders: Folders, files: dict[str, str], uid: int | None) -> None:
        """Write what the replica reads: its owner alone may change it, and its user alone read it. Raises OSError."""
        folders.given.parent.mkdir(mode=0o711, exist_ok=True)
        folders.given.mkdir(mode=0o700, exist_ok=True)
        for name, text in files.items():
            path = folders.given / name
            _replace(path, text)
            if uid is not None:
                os.chown(path, 0, uid)
                path.chmod(0o640)
        if uid is not None:
            os.chown(folders.given, 0, uid)
            folders.given.chmod(0o750)

    def take_back(self, given: str) -> None:
        """Remove what a replica was given to read: it holds an environment."""
        if given:
            Remover(_GIVEN_SECONDS).remove(Path(given))

    def record(self, told: str) -> dict[str, Any] | None:
        """Return what a replica's shim has written down of its end."""
        path = os.path.relpath(told, self.root)
        return None if path.startswith("..") else read_json(self.root, f"{path}/record.json", _RECORD_LIMIT)

    def owners(self) -> Iterator[Kept]:
        """Whose folders there are. One after the other, since there may be a million."""
        with os.scandir(self.root) as folders:
            for folder in folders:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    content = json.loads(Path(folder.path, _OWNER).read_bytes())
                    yield Kept(str(content["workload_id"]), float(content["used"]))

    def remove(self, digest: str) -> None:
        """Put everything of a workload with what goes; `empty` removes it. Raises OSError."""
        self._discard(self.root / digest)

    def remove_old_runs(self, digest: str, living: set[str]) -> None:
        """Put the folders of runs but the newest ones with what goes. living: names of those in which something runs.

        Raises OSError.
        """
        try:
            runs = sorted((_run_of(path.name), path) for path in (self.root / digest).iterdir() if _run_of(path.name))
        except FileNotFoundError:
            return
        for _, path in runs[:-KEPT_RUNS]:
            if path.name not in living:
                self._discard(path)

    def empty(self, seconds: float) -> str | None:
        """Remove what goes, for at most `seconds`. None where nothing is left; else why, empty: the time is over."""
        try:
            folder = os.open(self.root / _REMOVED, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        remover = Remover(seconds)
        try:
            return None if remover.empty(folder) else remover.why
        finally:
            os.close(folder)

    def _discard(self, path: Path) -> None:
        """Move a tree to what goes, in one step: its name is free at once, however long the removal takes."""
        goes = self.root / _REMOVED
        goes.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if os.geteuid() != 0:
                    unlock(parent, path.name)  # a replica of this very user may have shut it
                os.rename(path.name, goes / f"{path.parent.name}.{path.name}.{time.time_ns()}", src_dir_fd=parent)
            finally:
                os.close(parent)


def digest_of(workload_id: str) -> str:
    """Return the name of a workload's folder: 80 bits of its digest."""
    return ids.digest(workload_id)[:_DIGEST_LENGTH]


def _run_of(name: str) -> tuple[int, int] | None:
    matched = _RUN.fullmatch(name)
    return (int(matched[1]), int(matched[2])) if matched else None


def _kept_open(stack: contextlib.ExitStack, folder: int) -> int:
    stack.callback(os.close, folder)
    return folder


def _replace(path: Path, text: str) -> None:
    """Put a small file in its place, whole. Its folder is the agent's alone, and what a crash loses is made again."""
    draft = path.with_name(f".{path.name}.{time.monotonic_ns()}.new")  # replicas of a workload are made side by side
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
