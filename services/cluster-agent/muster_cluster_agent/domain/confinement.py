"""What a replica may reach on its machine, as a value: its user, the folders it is granted, and how far they hold.

Made by the local back end for each start and applied between fork and exec (adapters/local/confine.py). Pure, standard
library only. Holds: a grant adds and nothing subtracts, so that what is not named here is out of reach; an adapter that
cannot apply a confinement whole starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

LEAST_ABI_AS_USER: Final = 6
"""From this version on Landlock keeps signals and abstract sockets of one user apart. Linux 6.12."""
NEEDED_CAPABILITIES: Final = {
    0: "CAP_CHOWN",
    1: "CAP_DAC_OVERRIDE",
    5: "CAP_KILL",
    6: "CAP_SETGID",
    7: "CAP_SETUID",
    8: "CAP_SETPCAP",
    19: "CAP_SYS_PTRACE",
    21: "CAP_SYS_ADMIN",
}
"""What root needs to run replicas as other users: a user, a view of the file system, and to find their processes."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM = 1 << 9, 1 << 10, 1 << 12
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_SCOPES: Final = 0b11  # abstract Unix sockets, signals
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_CHANGE: Final = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG
_MAKE: Final = _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER | _TRUNCATE


class Right(StrEnum):
    """What a grant allows below its path."""

    LIST = "list"
    """Names only."""
    READ = "read"
    """Read, list and execute."""
    WRITE = "write"
    """Read, and everything but device files."""
    DEVICE = "device"
    """Open a device for reading, writing and its own calls (ioctl)."""


_RIGHTS: Final = {
    Right.LIST: _READ_DIR,
    Right.READ: _READ,
    Right.WRITE: _READ | _CHANGE | _MAKE,
    Right.DEVICE: _READ_FILE | _WRITE_FILE | _READ_DIR | _TRUNCATE | _IOCTL_DEV,
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A right below a path; for a file, to the file itself. A path that is not there is left out.

    plain: the path crosses no link; for every place on the way to which a replica could put one. owner: the user who
    has to own the folder; None: any.
    """

    path: str
    right: Right
    plain: bool = False
    owner: int | None = None


class Level(StrEnum):
    """How far replicas are confined."""

    USER_AND_LANDLOCK = "uid+landlock"
    LANDLOCK = "landlock"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Host:
    """What the machine offers.

    landlock: the version of its interface, 0: none. missing: the capabilities that root lacks here.
    """

    root: bool
    landlock: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ability:
    """How far replicas can be confined here, and why not further. waived: the cluster file wants no confinement."""

    level: Level
    reason: str = ""
    waived: bool = False

    @property
    def text(self) -> str:
        """As people read it: `uid+landlock`, or `none: Linux has no Landlock here`."""
        return f"{self.level.value}: {self.reason}" if self.reason else self.level.value


def ability(host: Host, *, waived: bool) -> Ability:
    """Return the highest level that the machine offers, or that nothing is confined and why."""
    if waived:
        return Ability(Level.NONE, "the cluster file says `confinement: none`", waived=True)
    if host.landlock < 1:
        return Ability(Level.NONE, "this kernel offers no Landlock (Linux 5.13 or newer, with lsm=landlock)")
    if host.root and host.missing:
        return Ability(Level.NONE, f"root lacks {', '.join(host.missing)} here")
    if host.root:
        return Ability(Level.USER_AND_LANDLOCK)
    if host.landlock < LEAST_ABI_AS_USER:
        text = (
            f"Landlock of this kernel is version {host.landlock}; without root at least {LEAST_ABI_AS_USER} is needed"
        )
        return Ability(Level.NONE, f"{text} (Linux 6.12)")
    return Ability(Level.LANDLOCK)


def handled(landlock: int) -> tuple[int, int]:
    """Return the file rights and the scopes that a ruleset of this version denies unless a rule grants them."""
    bits = {1: 13, 2: 14, 3: 15, 4: 15}.get(landlock, 16)
    return (1 << bits) - 1, _SCOPES if landlock >= LEAST_ABI_AS_USER else 0


def access(right: Right, *, folder: bool, landlock: int) -> int:
    """Return the bits of a rule for one path. A rule for a file may name rights of files only."""
    known, _ = handled(landlock)
    return _RIGHTS[right] & known & (known if folder else _OF_FILES)


@dataclass(frozen=True, slots=True)
class Confinement:
    """The confinement of one replica.

    uid: the user and group that it becomes; None: it stays who it is. landlock: the version to apply. tmp: the folder
    that becomes its /tmp, where it becomes another user; empty: none. accounts: the files that are its /etc/passwd and
    /etc/group.
    """

    landlock: int
    grants: tuple[Grant, ...]
    uid: int | None = None
    tmp: str = ""
    accounts: tuple[str, str] | None = None

    def as_spec(self) -> dict[str, Any]:
        """As a supervisor's spec has it."""
        return {
            "landlock": self.landlock,
            "grants": [[grant.path, grant.right.value, grant.plain, grant.owner] for grant in self.grants],
            "uid": self.uid,
            "tmp": self.tmp,
            "accounts": list(self.accounts) if self.accounts else None,
        }


def of_spec(spec: dict[str, Any]) -> Confinement:
    """Return the confinement that a spec holds. Raises KeyError, ValueError or TypeError for anything else."""
    accounts = spec["accounts"]
    return Confinement(
        landlock=int(spec["landlock"]),
        grants=tuple(
            Grant(str(path), Right(right), bool(plain), None if owner is None else int(owner))
            for path, right, plain, owner in spec["grants"]
        ),
        uid=None if spec["uid"] is None else int(spec["uid"]),
        tmp=str(spec["tmp"]),
        accounts=(str(accounts[0]), str(accounts[1])) if accounts else None,
    )


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of the machine that projects may name. projects: by name; empty: every project."""

    path: str
    projects: frozenset[str] = frozenset()
    write: bool = False

    def given_to(self, project: str) -> bool:
        """Whether a project may use it."""
        return not self.projects or project in self.projects


def roots_of(project: str, roots: Iterable[Root]) -> tuple[Root, ...]:
    """Return the roots that a project may name."""
    return tuple(root for root in roots if root.given_to(project))


def below(path: str, roots: Iterable[Root]) -> Root | None:
    """Return the root that holds the path, if there is one. Both are absolute and without links."""
    wanted = PurePath(path)
    return next((root for root in roots if wanted.is_relative_to(root.path)), None)


def overlaps(path: str, private: Iterable[str]) -> str:
    """Return the private folder that lies below the path or contains it; empty: none does."""
    mine = PurePath(path)
    for folder in private:
        if mine.is_relative_to(folder) or PurePath(folder).is_relative_to(mine):
            return folder
    return ""
