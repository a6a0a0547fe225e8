"""The agent's state folder: who this agent is, what it has started, and what it has forgotten.

Opened once by the composition root. Layout:

    lock, instance, starts, epoch       the agent's identity and counters
    replicas/<name>/                    one folder a replica: spec.json, journal, stop (adapters/local/journal.py)
    logs/<name>/                        its log, which stays after the folder has gone
    nodes/<node>/{boot-id,switch}       the nodes of the local cluster
    history.jsonl                       the identity, devices and journal of every replica that was removed
    work/<digest>/                      where the replicas of a workload work (adapters/local/workdirs.py)
    accounts/                           which user each project's replicas are, where root runs the agent
    confinement                         how far replicas are confined, for `muster status`
    ports.json                          the port of each workload that serves
    alive.json, agent.sock, pump.sock, tools/

Holds: one agent a folder (flock); a file that replaces another is written whole and fsynced before it takes its name;
what a process is given (its words, its environment) is on the disk no longer than its replica.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any, Final

from muster_cluster_agent.errors import StateFolderError

_LOCK_SECONDS: Final = 2.0
_LOCK_AGAIN: Final = 0.05
_KEPT: Final = ("name", "workload_id", "generation", "attempt", "devices")
"""What of a spec outlives its replica. Words and environment must not: credentials stand there in clear text."""
REMEMBERED: Final = 10_000  # names of removed replicas that are kept; an older name cannot be told from a new one


class StateFolder:
    """The locked folder. Paths are absolute."""

    def __init__(self, root: Path) -> None:
        """Makes and locks the folder. Raises StateFolderError where another agent has it."""
        self.root = root.resolve()
        for name in ("replicas", "logs", "nodes", "tools", "accounts"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
        self._lock = os.open(self.lock, os.O_RDWR | os.O_CREAT, 0o600)
        _lock_or_fail(self._lock, self.root)
        self.instance = self._instance()
        self.start = self._count_start()
        self._remembering = Lock()  # over the history and what is known of it
        self._lines = 0  # of the history
        self.removed: OrderedDict[str, None] = self._read_history()

    def close(self) -> None:
        """Gives the folder back."""
        os.close(self._lock)

    async def aclose(self) -> None:
        """The same, as the runtime asks for it."""
        self.close()

    def replica(self, name: str) -> Path:
        """A replica's folder."""
        return self.root / "replicas" / name

    def log(self, name: str) -> Path:
        """A replica's log folder."""
        return self.root / "logs" / name

    @property
    def work(self) -> Path:
        """Where replicas work (adapters/local/workdirs.py)."""
        return self.root / "work"

    @property
    def lock(self) -> Path:
        """The locked file: it is there as long as an agent is, and no replica may open it."""
        return self.root / "lock"

    @property
    def socket(self) -> Path:
        """Where supervisors tell that their journal has grown."""
        return self.root / "agent.sock"

    @property
    def alive(self) -> Path:
        """The file that supervisors with a dead-man's deadline watch."""
        return self.root / "alive.json"

    def tell_alive(self, content: bytes) -> None:
        """Renews the dead-man's deadline, whole or not at all: a supervisor that read half of it would end its.

        Replica.
        """
        draft = self.alive.with_name(".alive.new")
        draft.write_bytes(content)
        draft.replace(self.alive)

    def tell_confinement(self, text: str) -> None:
        """Leaves for `muster status` how far replicas are confined."""
        replace_file(self.root / "confinement", text.encode())

    def read_number(self, name: str) -> int:
        """A kept number; 0 where there is none."""
        try:
            return int((self.root / name).read_text())
        except (OSError, ValueError):
            return 0

    def keep_number(self, name: str, value: int) -> None:
        """Keeps a number durably."""
        replace_file(self.root / name, str(value).encode())

    def remember(self, spec: dict[str, Any], lines: list[dict[str, Any]]) -> None:
        """Writes down, durably, that a replica is being removed: its name is never used again."""
        entry = {"spec": {key: spec[key] for key in _KEPT if key in spec}, "journal": lines, "removed_at": time.time()}
        file = self._append(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        try:
            os.fdatasync(file)  # many at once: each takes milliseconds
        finally:
            os.close(file)
        with self._remembering:
            self._admit(str(spec["name"]))

    def _append(self, line: bytes) -> int:
        """Append a line to the history, which is cut where it is too long. Returns its open file."""
        # Several threads remove replicas. A second cut at the same time would leave nothing of what the first one left,
        # and a line that is written to the file before the cut would be lost with it.
        with self._remembering:
            file = os.open(self.root / "history.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(file).st_size
                torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"  # by a crash: it must not spoil this line too
                os.write(file, (b"\n" if torn else b"") + line)
                self._lines += 1
                if self._lines > 2 * REMEMBERED:
                    self._cut_history()
            except BaseException:
                os.close(file)
                raise
        return file

    def _admit(self, name: str) -> None:
        self.removed[name] = None
        while len(self.removed) > REMEMBERED:
            self.removed.popitem(last=False)

    def _read_history(self) -> OrderedDict[str, None]:
        self.removed = OrderedDict()
        path = self.root / "history.jsonl"
        if not path.exists():
            return self.removed
        with path.open("rb") as file:
            for self._lines, line in enumerate(file, 1):
                try:
                    self._admit(str(json.loads(line)["spec"]["name"]))
                except (ValueError, KeyError, TypeError):
                    continue  # torn by a crash: its folder still exists then
        if self._lines > 2 * REMEMBERED:
            self._cut_history()
        return self.removed

    def _cut_history(self) -> None:
        """Leave the last lines of the history. Line by line: as a whole they were 20 MiB that the agent kept."""
        path = self.root / "history.jsonl"
        with path.open("rb") as file:
            replace_file(path, itertools.islice(file, self._lines - REMEMBERED, None))
        self._lines = REMEMBERED

    def _instance(self) -> str:
        known = instance_of(self.root)
        if known:
            return known
        made = str(uuid.uuid4())
        replace_file(self.root / "instance", made.encode())
        return made

    def _count_start(self) -> int:
        number = self.read_number("starts") + 1
        self.keep_number("starts", number)
        return number


def instance_of(root: Path) -> str:
    """Return the identity of the agent whose folder this is; empty: no agent has been here yet. Needs no lock."""
    path = root / "instance"
    return path.read_text().strip() if path.exists() else ""


def _lock_or_fail(lock: int, root: Path) -> None:
    """Takes the lock. Raises StateFolderError where another agent has it."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A child that an agent forked in the moment of its death holds the lock until it has become its program.
            if time.monotonic() < deadline:
                time.sleep(_LOCK_AGAIN)
                continue
            os.close(lock)
            raise StateFolderError(
                f"{root} is in use by another agent; one agent a state folder (MUSTER_STATE_DIR)"
            ) from error
        return


def replace_file(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Put `content`, whole or in pieces, in the place of a file, so that a crash leaves the old or the new one."""
    draft = path.with_name(f".{path.name}.new")
    write_synced(draft, content)
    draft.replace(path)
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Writes a file that its owner alone may read, and returns when the disk has it."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Makes the folder's entries durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
