"""Where one stack keeps its things: every path under the data folder is named here and nowhere else.

Called by everything in this room. Holds: all that a stack writes lies under one folder, except the Kafka jars (shared
by all stacks, in the cache folder), PostgreSQL's socket (its path may have 107 bytes at most) and, for root only,
PostgreSQL's files where an unprivileged user cannot reach the folder (postgres.py says why).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muster_stack.errors import NoFolder

_SOCKET_NAME = "/.s.PGSQL.5432.lock"
_RUNTIME = Path("/run")
_SOCKET_PATH_LIMIT = 107


def default_data_folder() -> Path:
    """`MUSTER_HOME`, else `~/.muster`."""
    return Path(os.environ.get("MUSTER_HOME") or Path.home() / ".muster")


def cache_folder() -> Path:
    """Where downloads are kept for all stacks of this user: `MUSTER_CACHE`, else `~/.cache/muster`."""
    if given := os.environ.get("MUSTER_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one stack. `root` is absolute, so that two spellings of one folder are one stack."""

    root: Path

    @classmethod
    def of(cls, folder: Path | None = None) -> Layout:
        """The layout of `folder`, or of the default one."""
        return cls((folder or default_data_folder()).expanduser().resolve())

    @property
    def key(self) -> str:
        """Twelve hex digits that name this folder where its path is too long: sockets, marks on processes."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]

    @property
    def lock(self) -> Path:
        """Locked by the keeper while it lives."""
        return self.root / "lock"

    @property
    def state(self) -> Path:
        """What runs and where: ports, pids, start times. Written by the keeper, read by everyone."""
        return self.root / "stack.json"

    @property
    def secrets(self) -> Path:
        """Passwords of the database roles; 0600."""
        return self.root / "secrets.json"

    @property
    def credentials(self) -> Path:
        """The applications that the stack begins with: the administrator's and the agents'; 0700, its files 0600."""
        return self.root / "credentials"

    @property
    def bus_identities(self) -> Path:
        """The users of Kafka, one file each; 0700, its files 0600."""
        return self.credentials / "kafka"

    @property
    def identities(self) -> Path:
        """The private keys of the services and the trust file; 0700, its files 0600."""
        return self.root / "identities"

    @property
    def tls(self) -> Path:
        """The stack's own authority and the certificate of submission's gRPC; 0700, its files 0600."""
        return self.root / "tls"

    @property
    def sealing_keys(self) -> Path:
        """Under which submission stores credentials of specs."""
        return self.root / "sealing-keys"

    @property
    def control(self) -> Path:
        """The keeper's control socket: in the data folder where the path limit allows it."""
        near = self.root / "control"
        return near if len(os.fsencode(near)) <= _SOCKET_PATH_LIMIT else self.sockets / "control"

    @property
    def logs(self) -> Path:
        """One file a process."""
        return self.root / "logs"

    @property
    def kafka(self) -> Path:
        """Kafka's settings and log."""
        return self.root / "kafka"

    @property
    def postgres(self) -> Path:
        """PostgreSQL's data folder, or a link to it."""
        return self.root / "postgres"

    @property
    def clusters(self) -> Path:
        """One declaration a cluster, `<name>.yaml`."""
        return self.root / "clusters"

    @property
    def old_policy(self) -> Path:
        """The policy file of earlier releases; policies stand in the database now."""
        return self.root / "policy.yaml"

    def agent(self, cluster: str) -> Path:
        """The locked state folder of one cluster's agent."""
        return self.root / "agents" / cluster

    def confinement(self, cluster: str) -> str:
        """How far the agent confines its replicas, as it has written it down; empty: it has not yet."""
        try:
            return (self.agent(cluster) / "confinement").read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def log(self, service: str) -> Path:
        """The log file of one process."""
        return self.logs / f"{service}.log"

    @property
    def sockets(self) -> Path:
        """A short folder for this stack's Unix sockets: in the data folder, the user's runtime folder, /run or /tmp."""
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        places = [self.root / "run"]
        if runtime and Path(runtime).is_dir():
            places.append(Path(runtime) / f"muster-{self.key}")
        if os.geteuid() == 0:
            # PostgreSQL runs as another user, who cannot look into root's folders. In /run only root makes folders.
            places = [_RUNTIME / f"muster-{self.key}"] if os.access(_RUNTIME, os.W_OK) else []
        short = (place for place in places if len(os.fsencode(place)) + len(_SOCKET_NAME) <= _SOCKET_PATH_LIMIT)
        return next(short, Path(tempfile.gettempdir()) / f"muster-{os.geteuid()}-{self.key}")

    def make(self) -> None:
        """Creates the folders; the data folder is for its owner only. Raises NoFolder where that cannot be."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for status in (self.root.lstat(), self.root.stat()):
                if status.st_uid != os.geteuid():  # laid out by another user, such as in /tmp: all secrets lie in it
                    raise NoFolder(f"{self.root} belongs to user id {status.st_uid}: name another with --data")
            for folder in (self.logs, self.clusters, self.kafka):
                folder.mkdir(mode=0o700, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            file = next((above for above in self.root.parents if above.is_file()), error.filename)
            raise NoFolder(f"{file} is not a folder: name one with --data, or with MUSTER_HOME") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise NoFolder(f"{self.root} cannot be the data folder ({why}): name another with --data") from None
