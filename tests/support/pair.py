"""A real PostgreSQL with a real synchronous standby, which a test may stop and start again."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from muster_stack.embedded import EmbeddedPostgres
from muster_stack.postgres import ADMIN, DATABASE, PORT, START_DEADLINE, PostgresServer
from muster_stack.processes import Command, stop
from tests.support.waiting import eventually_now

NAME: Final = "standby"
_WAL: Final = ("wal_level=replica", "max_wal_senders=4", "hot_standby=on")


class _Sends(PostgresServer):
    """A server whose log a standby may read."""

    def command(self, **options: object) -> Command:
        given = super().command()
        return replace(given, argv=[*given.argv, *(part for one in _WAL for part in ("-c", one))])


class Pair:
    """The two servers. `primary` answers the services; `sql` asks the standby."""

    def __init__(self, primary: EmbeddedPostgres, folder: Path) -> None:
        self.primary = primary
        self._folder = folder
        self._sockets = folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Copies the primary, starts the copy as its standby, and has every commit wait for it."""
        server = self.primary.server
        self._take(self._folder, self._sockets)
        source = f"host={server._sockets} port={PORT} user={ADMIN} password={server.password(ADMIN)}"
        server._run(
            [
                *(str(server._binary("pg_basebackup")), "-D", str(self._folder / "data"), "-X", "stream", "-R"),
                *("-d", f"{source} application_name={NAME}", "--checkpoint=fast", "--no-sync"),
            ]
        )
        self.start()
        server._sql("postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
        server._sql("postgres", "SELECT pg_reload_conf()")
        eventually_now(lambda: server._sql("postgres", "SELECT sync_state FROM pg_stat_replication") == "sync")

    def start(self) -> None:
        """Starts the standby."""
        given = self.primary.server.command()
        argv = [given.argv[0], "-D", str(self._folder / "data"), *given.argv[3:]]
        argv += ["-c", f"unix_socket_directories={self._sockets}"]
        command = replace(given, argv=argv, cwd=self._folder / "data", log=self._folder / "standby.log")
        self._process = replace(command, dies_with_parent=signal.SIGQUIT).spawn()
        eventually_now(self._ready, within=START_DEADLINE)

    def stop(self) -> None:
        """Ends the standby; the primary goes on."""
        if self._process is not None:
            stop(self._process, grace=10, number=signal.SIGINT)
            self._process = None

    def sql(self, text: str) -> str:
        """What the standby answers."""
        server = self.primary.server
        argv = [str(server._binary("psql")), "-X", "-q", "-A", "-t", "-h", str(self._sockets), "-p", str(PORT)]
        argv += ["-U", ADMIN, "-d", DATABASE, "-c", text]
        env = {"PGPASSWORD": server.password(ADMIN)}
        return subprocess.run(argv, capture_output=True, text=True, check=True, env=env, timeout=30).stdout.strip()

    def _ready(self) -> bool:
        argv = [str(self.primary.server._binary("pg_isready")), "-q", "-h", str(self._sockets), "-p", str(PORT)]
        return subprocess.run(argv, check=False, env={}).returncode == 0

    def _take(self, *folders: Path) -> None:
        for folder in folders:
            self.primary.server._take(folder)


@contextmanager
def pair() -> Iterator[Pair]:
    """A primary and its synchronous standby, ended and removed at the end."""
    primary = EmbeddedPostgres()
    primary.server.__class__ = _Sends
    folder = primary.folder.with_name(f"{primary.folder.name}-standby")
    with primary:
        both = Pair(primary, folder)
        try:
            both.make()
            yield both
        finally:
            both.stop()
            shutil.rmtree(folder, ignore_errors=True)
