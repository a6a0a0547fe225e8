"""Throw-away servers and stacks for tests, to start, kill and wipe.

Called by the fixtures. Kafka and PostgreSQL alone are held by the calling process, a whole stack by a real keeper.
Holds: leaving the context ends everything and deletes the folder (a stack's stays where the block failed).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from muster_stack import kafka, postgres
from muster_stack.bus.access import Access
from muster_stack.bus.identities import Identities, client_options
from muster_stack.commands import end, keeper_command, start_detached
from muster_stack.kafka_probe import Broker
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout
from muster_stack.ports import free_ports
from muster_stack.processes import kill_group, stop, wait_until


def _scratch(kind: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"muster-{kind}-"))
    folder.chmod(0o711)  # root's PostgreSQL runs as another user, who must get through
    return folder


@contextmanager
def temporary_stack(
    *,
    instances: Mapping[str, int] | None = None,
    hold: bool = False,
    auth: bool = False,
    clusters: Mapping[str, str] | None = None,
    seconds: float = 180,
) -> Iterator[Stack]:
    """The whole stack in a folder of its own, ready; ended and forgotten afterwards.

    `clusters`: declarations (YAML) by name, instead of the default two. Where the block fails, the folder with its logs
    stays, and its place is added to the error as a note. Raises StartFailed.
    """
    layout = Layout.of(_scratch("stack"))
    layout.make()
    for name, declaration in (clusters or {}).items():
        (layout.clusters / f"{name}.yaml").write_text(declaration)
    try:
        start_detached(layout, keeper_command(layout, instances, hold=hold, auth=auth), seconds=seconds)
        yield Stack(layout)
    except BaseException as error:
        error.add_note(f"the stack's logs are in {layout.logs}")
        end(layout)
        raise
    end(layout)
    shutil.rmtree(layout.root, ignore_errors=True)


class EmbeddedKafka:
    """A broker of one's own. `start`, `stop`, `kill` and `wipe` in any order; the port stays.

    guarded: clients log in, as in a whole stack, with the identities in `folder/credentials/kafka`. Without it every
    client is taken, which most tests use: who may do what is no part of their subject.
    """

    def __init__(self, *, guarded: bool = False, clusters: Sequence[str] = (), kind: type[Access] = Access) -> None:
        """`clusters`: those whose agents get an identity. `kind`: what decides who may do what."""
        self.folder: Final = _scratch("kafka")
        self.layout: Final = Layout.of(self.folder)
        self.access: Access | None = kind(Identities(self.layout.bus_identities), clusters) if guarded else None
        port, controller_port = free_ports(2)
        self._server = kafka.KafkaServer(
            self.folder / "kafka",
            port=port,
            controller_port=controller_port,
            log=self.folder / "kafka.log",
            runtime=kafka.prepare_runtime(),
            access=self.access,
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return self._server.bootstrap

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that runs."""
        broker = self._server.ready()
        if broker is None:
            raise TimeoutError("Kafka does not answer")
        return broker.cluster_id

    def start(self) -> Broker:
        """Starts it and returns who it is once it serves."""
        self._server.prepare()
        # A test run that is killed takes its servers with it.
        self._process = replace(self._server.command(), dies_with_parent=signal.SIGKILL).spawn()
        wait_until(lambda: self._server.ready() is not None, seconds=kafka.START_DEADLINE, what="Kafka's start")
        self._server.settle()
        broker = self._server.ready()
        if broker is None:
            raise TimeoutError("Kafka answered and then did not")
        return broker

    def client(self, name: str) -> dict[str, str]:
        """How aiokafka's clients connect as one of the identities, or without one where the broker is not guarded."""
        if self.access is None:
            return {"bootstrap_servers": self.bootstrap}
        return client_options(self.bootstrap, self.access.identities.of(name))

    def guard(self, access: Access) -> None:
        """From its next start on clients log in."""
        self.access = self._server.access = access

    def settle(self) -> None:
        """Makes the running broker agree with the files of the identities."""
        self._server.settle()

    def rotate(self) -> list[str]:
        """New passwords for all identities, and a new start."""
        names = self._server.rotate()
        self.stop()
        self.start()
        return names

    def stop(self) -> None:
        """Ends it in order."""
        if self._process:
            stop(self._process, grace=kafka.STOP_GRACE)
        self._process = None

    def kill(self) -> None:
        """Ends it with SIGKILL."""
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def wipe(self) -> Broker:
        """Starts it again as another cluster on the same port: all topics, records and offsets are gone."""
        self.kill()
        self._server.wipe()
        return self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class EmbeddedPostgres:
    """A server of one's own, with the four services' roles.

    kill -9 loses nothing, though it does not fsync unless it is `durable`: tests do not cut the power.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self.folder: Final = _scratch("pg")
        self.server: Final = postgres.PostgresServer(
            self.folder / "data",
            sockets=self.folder / "s",
            secrets_file=self.folder / "secrets.json",
            log=self.folder / "postgres.log",
            durable=durable,
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it serves and has the services' roles."""
        self.server.prepare()
        self._process = replace(self.server.command(), dies_with_parent=signal.SIGQUIT).spawn()
        wait_until(self.server.ready, seconds=postgres.START_DEADLINE, what="PostgreSQL's start")
        self.server.bootstrap()

    def stop(self) -> None:
        """Ends it in order; sessions are closed."""
        if self._process:
            stop(self._process, grace=postgres.STOP_GRACE, number=postgres.STOP_SIGNAL)
        self._process = None

    def kill(self) -> None:
        """Ends it with SIGKILL, its sessions' processes too."""
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            kill_group(self._process.pid)
        self._process = None
        self.server.end_leftovers()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
