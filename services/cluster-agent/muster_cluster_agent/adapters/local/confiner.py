"""Decides how each replica is confined on this machine, once the machine has shown that it works.

Used by the local back end. Holds: the level is tried and not believed. Before the first start a process is confined
like a replica, has to fail to open a private file and has to start the interpreter. Where that does not work, nothing
is confined, the cluster's profile says why, and a stack that asks for tokens starts no replica.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import muster_cluster_agent
from muster_cluster_agent.adapters.local import landlock
from muster_cluster_agent.adapters.local.access import NOTHING, Access
from muster_cluster_agent.adapters.local.accounts import Account, Accounts, NoAccount
from muster_cluster_agent.adapters.local.machine import Machine
from muster_cluster_agent.adapters.local.workdirs import Folders
from muster_cluster_agent.domain.confinement import (
    NEEDED_CAPABILITIES,
    Ability,
    Confinement,
    Grant,
    Host,
    Level,
    Right,
    ability,
    overlaps,
    roots_of,
)
from muster_cluster_agent.errors import NotAllowed

_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/proc", "/sys"),
    *("/run/systemd/resolve", "/nix/store", "/run/current-system", "/run/opengl-driver"),
)
_DEVICES: Final = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"),
    *("/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/accel", "/dev/infiniband", "/dev/dxg"),
)
_TRIAL_SECONDS: Final = 30
_TRIAL_PROJECT: Final = ""  # no project has an empty name: its user runs the trial alone
_TRIAL_FOLDER: Final = "trial"
_TRIAL: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from muster_cluster_agent.adapters.local.confine import trial; trial(sys.argv[2], sys.argv[3], sys.argv[4:])"
)


class NotConfined(NotAllowed):
    """A replica cannot be started, since it cannot be confined as it has to be."""


@dataclass(frozen=True, slots=True)
class Private:
    """What no replica may reach: folders of the stack, and a file in one of them that a trial tries to open."""

    folders: tuple[str, ...]
    file: str


class Confiner:
    """The confinement of one agent's replicas. required: a stack that asks for tokens."""

    def __init__(self, machine: Machine, folder: Path, private: Private, *, required: bool) -> None:
        """Nothing is known before `settle`. folder: for what is kept of the projects' users."""
        self._machine = machine
        self._folder = folder
        self._private = private
        self._required = required
        self._accounts: Accounts | None = None
        self._access = NOTHING
        self._fixed: tuple[Grant, ...] = ()
        self._landlock = 0
        self.ability = Ability(Level.NONE, "it has not been tried yet")
        self.path = ""  # the PATH of replicas

    def settle(self, access: Access) -> None:
        """Find out how far replicas can be confined, and try it. Raises ClusterFileError where the users are taken."""
        self._access = access
        self._landlock = landlock.version()
        root = os.geteuid() == 0
        found = ability(Host(root, self._landlock, _missing() if root else ()), waived=access.waived)
        self._accounts = None
        if found.level is Level.USER_AND_LANDLOCK:
            self._accounts = Accounts(self._folder, access.uids)
        if found.level is not Level.NONE:
            self._fixed = self._fixed_grants()
            trouble = self._trouble()
            found = Ability(Level.NONE, trouble) if trouble else found
        self.ability = found
        self.path = self._reachable_path()

    def follow(self, access: Access) -> None:
        """Take the roots of a cluster file that has changed; the users and the level stay until the next start."""
        self._access = replace(access, uids=self._access.uids, waived=self._access.waived)

    def account(self, project: str) -> Account | None:
        """Return the user of a project's replicas; None: the agent's own. Raises NotConfined."""
        if self.ability.level is not Level.USER_AND_LANDLOCK or self._accounts is None:
            return None
        try:
            return self._accounts.of(project)
        except NoAccount as error:
            raise NotConfined(str(error)) from error

    def of(self, project: str, folders: Folders, account: Account | None) -> Confinement | None:
        """Return the confinement of a replica; None: it is not confined. Raises NotConfined where it has to be."""
        if self.ability.level is Level.NONE:
            if self._required and not self.ability.waived:
                raise NotConfined(
                    f"no replica starts here, since replicas cannot be confined ({self.ability.reason}); mend that, or "
                    "say `confinement: none` in the cluster file"
                )
            return None
        own = (folders.run, folders.keep)
        uid = account.uid if account else None
        roots = roots_of(project, self._access.roots)
        return Confinement(
            landlock=self._landlock,
            grants=(
                *self._fixed,
                Grant(str(folders.given), Right.READ, plain=True),
                *(Grant(str(folder), Right.WRITE, plain=True, owner=uid) for folder in own),
                *(Grant(root.path, Right.WRITE if root.write else Right.READ, plain=True) for root in roots),
            ),
            uid=uid,
            tmp=str(folders.tmp),
            accounts=account.files if account else None,
        )

    def _reachable_path(self) -> str:
        """The machine's PATH without what a replica may not look into: a search would end there."""
        known = [grant.path for grant in self._fixed]
        folders = dict(self._machine.base_env).get("PATH", "").split(":")
        if self.ability.level is Level.NONE:
            return ":".join(folders)
        return ":".join(folder for folder in folders if any(_within(folder, each) for each in known))

    def _fixed_grants(self) -> tuple[Grant, ...]:
        code = (self._machine.shims, self._machine.tools)
        return (
            *(Grant(path, Right.READ) for path in (*_SYSTEM, *self._machine.interpreters, *code)),
            *(Grant(path, Right.DEVICE) for pattern in _DEVICES for path in sorted(glob.glob(pattern))),
            Grant("/dev", Right.LIST),
            Grant("/dev/shm", Right.WRITE),  # noqa: S108  the place itself
        )

    def _trouble(self) -> str:
        """Why a process like a replica does not run confined here; empty: it does."""
        for folder in self._machine.interpreters:
            private = overlaps(folder, self._private.folders)
            if private:
                return f"the interpreter's folder {folder} and {private} lie in one another; install it elsewhere"
        account = self._accounts.of(_TRIAL_PROJECT) if self._accounts else None
        trial = Confinement(
            landlock=self._landlock,
            grants=self._fixed,
            uid=account.uid if account else None,
            tmp=self._trial_folder(account.uid) if account else "",
            accounts=account.files if account else None,
        )
        return _tried(trial, self._private.file, self._machine.python)

    def _trial_folder(self, uid: int) -> str:
        """A folder that becomes the /tmp of the trial."""
        folder = self._folder / _TRIAL_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, uid, uid)
        return str(folder)


def _tried(confinement: Confinement, private: str, python: str) -> str:
    source = str(Path(muster_cluster_agent.__file__).parent.parent)
    words = [sys.executable, "-I", "-S", "-c", _TRIAL, source, json.dumps(confinement.as_spec()), private]
    try:
        ran = subprocess.run(
            [*words, python, "-I", "-c", "import ctypes"],
            capture_output=True,
            text=True,
            timeout=_TRIAL_SECONDS,
            check=False,
            cwd="/",
            env={"PATH": os.defpath},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"a trial could not be run: {error}"
    if ran.returncode == 0:
        return ""
    said = (ran.stderr.strip().splitlines() or [f"it ended with {ran.returncode}"])[-1]
    return f"a confined process does not run {python}: {said[:300]}"


def _missing() -> tuple[str, ...]:
    """The powers that root lacks here, such as in a container."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return tuple(name for bit, name in NEEDED_CAPABILITIES.items() if not held >> bit & 1)
    return ("its capabilities in /proc",)


def _within(path: str, folder: str) -> bool:
    return (
        path == folder or path.startswith(f"{folder.rstrip('/')}/") or os.path.realpath(path).startswith(f"{folder}/")
    )
