"""One user for each project: which number it has, kept for good.

Used by the local back end of a root's stack. The numbers come from the range of the cluster file, or from one that the
agent claims for itself; claims are kept for the whole machine, so that two agents never share a number. Blocks.
Holds: within an agent a number that a project had is never given to another one, since files with it may lie anywhere.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_cluster_agent.adapters.local.access import UidRange, taken
from muster_cluster_agent.adapters.local.state import replace_file
from muster_cluster_agent.errors import ClusterFileError

REGISTRY: Final = Path("/var/lib/muster/uids")
_FIRST: Final = 2_000_000
_BLOCK: Final = 1000
_BLOCKS: Final = 10_000


class NoAccount(Exception):
    """Every number of the range is given."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user of a project's replicas. files: their /etc/passwd and /etc/group."""

    uid: int
    name: str
    files: tuple[str, str]


class Accounts:
    """The users of one agent."""

    def __init__(self, folder: Path, wanted: UidRange | None, registry: Path = REGISTRY) -> None:
        """Claim the range. Raises ClusterFileError where another agent has it, or where no range is free."""
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._file = folder / "uids.json"
        self._given = _read(self._file)
        self.range = _claim(registry, str(folder), wanted)
        for uid in self._given.values():
            self._write_files(uid)  # the machine's own users may have changed

    def of(self, project: str) -> Account:
        """Return the project's user, given now where it has none. Raises NoAccount."""
        uid = self._given.get(project)
        if uid is None:
            uid = self._next()
            replace_file(self._file, json.dumps({**self._given, project: uid}).encode())
            self._given[project] = uid
            self._write_files(uid)
        return Account(uid, _name(uid), self._files(uid))

    def _next(self) -> int:
        used = set(self._given.values())
        for uid in range(self.range.first, self.range.last + 1):
            if uid not in used:
                return uid
        raise NoAccount(
            f"each of the users {self.range.text} belongs to a project already; name a wider range in the cluster file "
            "(uids: {first: .., count: ..})"
        )

    def _files(self, uid: int) -> tuple[str, str]:
        return str(self._folder / f"{uid}.passwd"), str(self._folder / f"{uid}.group")

    def _write_files(self, uid: int) -> None:
        """The machine's users and this one: programs such as mpirun refuse to run for a user without a name."""
        name = _name(uid)
        lines = (f"{name}:x:{uid}:{uid}:replicas of one project:/nonexistent:/bin/sh\n", f"{name}:x:{uid}:\n")
        for own, source, file in zip(lines, ("/etc/passwd", "/etc/group"), self._files(uid), strict=True):
            path, content = Path(file), (_text(source) + own).encode()
            # A replica that an earlier agent is starting has the file open, and cannot mount one that was replaced.
            if not path.exists() or path.read_bytes() != content:
                replace_file(path, content)
            path.chmod(0o644)


def _name(uid: int) -> str:
    return f"muster-{uid}"


def _text(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text if text.endswith("\n") or not text else f"{text}\n"


def _read(file: Path) -> dict[str, int]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    return {str(project): int(uid) for project, uid in content.items()}


def _claim(registry: Path, owner: str, wanted: UidRange | None) -> UidRange:
    with _locked(registry):
        claims = {
            range_: whose for range_, whose in _claims(registry) if os.path.isdir(whose) or _dropped(registry, range_)
        }
        mine = next((range_ for range_, whose in claims.items() if whose == owner), None)
        if wanted is None and mine is not None:
            if errors := taken(mine):  # since the last start; files of its replicas would be theirs
                raise ClusterFileError("\n".join(errors))
            return mine
        others = {range_: whose for range_, whose in claims.items() if whose != owner}
        chosen = wanted or next(_free_blocks(others), None)
        if chosen is None:
            raise ClusterFileError("uids: no free range of users was found; name one in the cluster file")
        for range_, whose in others.items():
            if chosen.first <= range_.last and range_.first <= chosen.last:
                raise ClusterFileError(
                    f"uids: the range {chosen.text} is taken: {range_.text} belongs to the agent of "
                    f"{os.path.dirname(whose)}; choose another `first`"
                )
        if mine is not None and mine != chosen:
            _path(registry, mine).unlink(missing_ok=True)
        replace_file(_path(registry, chosen), owner.encode())
        return chosen


def _free_blocks(claims: dict[UidRange, str]) -> Iterator[UidRange]:
    for block in range(_BLOCKS):
        first = _FIRST + block * _BLOCK
        candidate = UidRange(first, first + _BLOCK - 1)
        free = not any(candidate.first <= other.last and other.first <= candidate.last for other in claims)
        if free and not taken(candidate):
            yield candidate


def _claims(registry: Path) -> Iterator[tuple[UidRange, str]]:
    for path in sorted(registry.iterdir()):
        first, _, last = path.name.partition("-")
        if first.isdigit() and last.isdigit():
            yield UidRange(int(first), int(last)), path.read_text()


def _dropped(registry: Path, range_: UidRange) -> bool:
    """Forget the claim of an agent whose state folder has gone."""
    _path(registry, range_).unlink(missing_ok=True)
    return False


def _path(registry: Path, range_: UidRange) -> Path:
    return registry / f"{range_.first}-{range_.last}"


@contextmanager
def _locked(registry: Path) -> Iterator[None]:
    registry.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(registry / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
