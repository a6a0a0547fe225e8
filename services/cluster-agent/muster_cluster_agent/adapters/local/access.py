"""What a cluster file says of access: the folders that projects may name, the users of replicas, and confinement.

Read by cluster_file.py; `check` compares it with the machine. Holds: a file that would open a private folder to a
replica, or that gives replicas a user whom the machine knows, is refused with every error named.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from muster_cluster_agent.adapters import values
from muster_cluster_agent.domain.confinement import Root, overlaps

KEYS: Final = frozenset({"roots", "uids", "confinement"})
_ROOT: Final = frozenset({"path", "projects", "write"})
_UIDS: Final = frozenset({"first", "count"})
_LEAST_UID: Final = 1000  # below it the users of the system
_MOST_UID: Final = (1 << 31) - 1
_USUAL_COUNT: Final = 1000
_MOST_COUNT: Final = 1_000_000
_NEVER: Final = ("/", "/proc", "/sys", "/dev", "/etc", "/boot", "/root")  # as a whole

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UidRange:
    """The users that replicas may become, first and last."""

    first: int
    last: int

    def __contains__(self, uid: int) -> bool:
        return self.first <= uid <= self.last

    @property
    def text(self) -> str:
        """As people read it."""
        return f"{self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class Access:
    """roots: what projects may name. uids: None, the agent chooses. waived: replicas are not confined."""

    roots: tuple[Root, ...] = ()
    uids: UidRange | None = None
    waived: bool = False


NOTHING: Final = Access()
"""A file that says nothing of access."""


class Reader(Protocol):
    """What gathers the errors of a cluster file."""

    errors: list[str]

    def mapping(self, value: Any, path: str, allowed: frozenset[str]) -> Mapping[str, Any]:
        """Return names with values."""
        ...

    def items(self, value: Any, path: str) -> list[Any]:
        """Return a list."""
        ...

    def get(self, source: Mapping[str, Any], key: str, path: str, convert: Callable[[Any], T], default: T) -> T:
        """Return a converted value."""
        ...


def read(reader: Reader, top: Mapping[str, Any]) -> Access:
    """Return what the file says; errors go to the reader."""
    roots = [
        _root(reader, raw, f"roots[{number}]") for number, raw in enumerate(reader.items(top.get("roots"), "roots"))
    ]
    return Access(
        roots=tuple(root for root in roots if root is not None),
        uids=_uids(reader, top["uids"]) if top.get("uids") is not None else None,
        waived=reader.get(top, "confinement", "file", values.choice("auto", "none"), "auto") == "none",
    )


def _root(reader: Reader, raw: Any, path: str) -> Root | None:
    source = reader.mapping(raw, path, _ROOT)
    folder = reader.get(source, "path", path, values.text, "")
    if not folder.startswith("/") or os.path.normpath(folder) != folder:
        reader.errors.append(
            f"{path}.path: expected an absolute path without `..`, such as /data/images, not {folder!r}"
        )
        return None
    return Root(
        path=folder,
        projects=frozenset(_projects(reader, source, path)),
        write=reader.get(source, "write", path, values.flag, False),
    )


def _projects(reader: Reader, source: Mapping[str, Any], path: str) -> tuple[str, ...]:
    return reader.get(source, "projects", path, values.words, ())


def _uids(reader: Reader, raw: Any) -> UidRange | None:
    source = reader.mapping(raw, "uids", _UIDS)
    first = reader.get(source, "first", "uids", values.count, 0)
    count = reader.get(source, "count", "uids", values.count, _USUAL_COUNT)
    if not _LEAST_UID <= first <= _MOST_UID - count or not 1 <= count <= _MOST_COUNT:
        wanted = f"first from {_LEAST_UID} to {_MOST_UID}, count from 1 to {_MOST_COUNT}"
        reader.errors.append(f"uids: first {first} and count {count}; expected {wanted}")
        return None
    return UidRange(first, first + count - 1)


def check(access: Access, private: Sequence[str], *, root: bool) -> list[str]:
    """Return what the machine says against it. private: folders of the stack. root: replicas become other users."""
    errors = [error for number, one in enumerate(access.roots) for error in _against_root(one, number, private)]
    if access.uids is not None and root and not access.waived:
        errors.extend(taken(access.uids))
    return errors


def _against_root(root: Root, number: int, private: Sequence[str]) -> Iterator[str]:
    where = f"roots[{number}].path: {root.path}"
    if root.path in _NEVER:
        yield f"{where} is a folder of the system; name a folder with data"
    elif private_one := overlaps(root.path, private):
        yield f"{where} would open {private_one}, a folder of the stack itself; name another folder"
    elif not os.path.isdir(root.path):
        yield f"{where} is not a folder of this machine; make it, or take the root out"
    elif (real := os.path.realpath(root.path)) != root.path:
        yield f"{where} leads through a link to {real}; name that folder"


def taken(uids: UidRange) -> list[str]:
    """Return who has a number of the range already: users, groups, and ranges that belong to users."""
    names = [f"user {entry.pw_name} has {entry.pw_uid}" for entry in pwd.getpwall() if entry.pw_uid in uids]
    names += [f"group {entry.gr_name} has {entry.gr_gid}" for entry in grp.getgrall() if entry.gr_gid in uids]
    for file in ("/etc/subuid", "/etc/subgid"):
        names += [f"{file} gives {other.text} to {name}" for name, other in _subordinate(file) if _meet(uids, other)]
    if not _mapped(uids):
        names.append("this user namespace has not all of these numbers (/proc/self/uid_map)")
    return [f"uids: the range {uids.text} is taken: {name}; choose another `first`" for name in names[:3]]


def _subordinate(file: str) -> Iterable[tuple[str, UidRange]]:
    try:
        lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if first.isdigit() and count.isdigit() and int(count) > 0:
            yield name, UidRange(int(first), int(first) + int(count) - 1)


def _meet(one: UidRange, other: UidRange) -> bool:
    return one.first <= other.last and other.first <= one.last


def _mapped(uids: UidRange) -> bool:
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        inside, _, count = (int(word) for word in line.split())
        if inside <= uids.first and uids.last < inside + count:
            return True
    return False
