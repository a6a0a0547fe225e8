"""Apache Kafka's jars, fetched once per user and verified against the lock that is committed beside this file.

Called before Kafka is started. The lock names coordinates, SHA-256 and size; where they come from is jgo's business
(Maven Central, or whatever the user's jgo settings name). Holds: a jar lies in the cache folder only after its hash
was verified, and every hash is verified again before every start, so a damaged cache mends itself instead of failing
in Java.

`python -m muster_stack.jars lock` resolves the two roots anew and prints a lock.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import ssl
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from muster_stack.errors import DownloadFailed
from muster_stack.layout import cache_folder

ROOTS: Final = ("org.apache.kafka:kafka_2.13:4.1.0", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
_CONNECTIONS: Final = 8
_ATTEMPTS: Final = 3
_TIMEOUT: Final = 60  # seconds a read may take
_MEGABYTE: Final = 1_000_000

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of the lock. `size` in bytes."""

    group: str
    artifact: str
    version: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """Its name in the cache folder and at Maven Central."""
        return f"{self.artifact}-{self.version}.jar"

    def is_at(self, path: Path) -> bool:
        """Whether the file at `path` is this jar, byte for byte."""
        try:
            return path.stat().st_size == self.size and hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256
        except FileNotFoundError:
            return False


def locked() -> list[Jar]:
    """The jars of the committed lock."""
    jars = []
    for line in _lock_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256, size = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(group, artifact, version, sha256, int(size)))
    return jars


def lock_digest() -> str:
    """Names the lock in the cache: what was made from one lock is never used with another."""
    return hashlib.sha256(_lock_text().encode()).hexdigest()[:12]


def _lock_text() -> str:
    return resources.files("muster_stack").joinpath("kafka_jars.lock").read_text()


def ensure(tell: Tell | None = None, *, cache: Path | None = None) -> list[Path]:
    """The paths of all jars in the lock's order, fetched where they are missing or damaged. Raises DownloadFailed."""
    folder = (cache or cache_folder()) / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = locked()
    with one_at_a_time(folder / ".lock"):
        missing = [jar for jar in wanted if not jar.is_at(folder / jar.file_name)]
        if missing:
            _fetch(missing, folder, _Progress(missing, tell or tell_on_stderr))
    return [folder / jar.file_name for jar in wanted]


def tell_on_stderr(text: str) -> None:
    """Shows progress to a person."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Holds a file's lock in the block: two stacks started at once would write the same files."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class _Progress:
    """Counts what has come and says so at every quarter, from whichever thread brought it."""

    def __init__(self, jars: Sequence[Jar], tell: Tell) -> None:
        self._total = sum(jar.size for jar in jars)
        self._tell = tell
        self._count = len(jars)
        self._bytes = 0
        self._quarter = 0
        self._guard = threading.Lock()
        tell(f"fetching Apache Kafka: {self._count} jars, {self._total / _MEGABYTE:.0f} MB")

    def came(self, jar: Jar) -> None:
        with self._guard:
            self._bytes += jar.size
            quarter = 4 * self._bytes // self._total
            if quarter > self._quarter:
                self._tell(f"  {self._bytes / _MEGABYTE:.0f} of {self._total / _MEGABYTE:.0f} MB")
            self._quarter = quarter


def _fetch(missing: Sequence[Jar], folder: Path, progress: _Progress) -> None:
    # jgo writes straight to its target: an interrupted download would stay there as a jar.
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch,
        ThreadPoolExecutor(_CONNECTIONS) as pool,
    ):

        def one(jar: Jar) -> None:
            _download(jar, Path(scratch)).replace(folder / jar.file_name)
            progress.came(jar)

        list(pool.map(one, missing))


def _download(jar: Jar, scratch: Path) -> Path:
    failure: Exception | None = None
    for attempt in range(_ATTEMPTS):
        try:
            path = _resolve(jar, scratch / str(attempt))
        except (RuntimeError, OSError) as error:  # requests' errors are OSErrors
            failure = error
            continue
        if jar.is_at(path):
            return path
        failure = ValueError(
            f"its SHA-256 is {hashlib.sha256(path.read_bytes()).hexdigest()}, the lock has {jar.sha256}"
        )
    raise DownloadFailed(
        f"{jar.group}:{jar.artifact}:{jar.version} could not be fetched in {_ATTEMPTS} tries: {failure}. "
        "Muster needs Maven Central once; check the network or its proxy, then try again."
    )


def _resolve(jar: Jar, repository: Path) -> Path:
    context = _maven(repository)
    component = context.project(jar.group, jar.artifact).at_version(jar.version)
    return Path(component.artifact().resolve())


def _maven(repository: Path):  # type: ignore[no-untyped-def]  # noqa: ANN202 - jgo's own type, imported late
    # Imported here: it takes 0.2 s, and only a first start needs it. It warns about folders that we do not use.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from jgo.config import GlobalSettings  # noqa: PLC0415
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415

        _trust_this_machine()
        remotes = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
        return MavenContext(repo_cache=repository, remote_repos=remotes, timeout=_TIMEOUT)


def _trust_this_machine() -> None:
    """Downloads trust the machine's own certificates: behind a company's proxy the bundled ones refuse everything."""
    if authorities := ssl.get_default_verify_paths().cafile:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", authorities)


def resolve_anew() -> list[Jar]:
    """Resolves the roots with jgo and returns what a new lock would hold, sorted."""
    from jgo.parse import Coordinate  # noqa: PLC0415 - for whoever makes a lock only

    with tempfile.TemporaryDirectory() as scratch:
        context = _maven(Path(scratch))
        found = set()
        for root in ROOTS:
            # Apart, because one root's managed versions would override the other's.
            coordinate = dataclasses.replace(Coordinate.parse(root), scope="compile")
            inputs, transitive = context.resolver.resolve([context.create_dependency(coordinate)])
            transitive = [] if root != ROOTS[0] else [d for d in transitive if d.scope in {"compile", "runtime"}]
            found |= {dependency.artifact for dependency in [*inputs, *transitive]}
        return sorted(
            (_as_locked(artifact, artifact.resolve()) for artifact in found), key=lambda jar: (jar.group, jar.artifact)
        )


def _as_locked(artifact, path: Path) -> Jar:  # type: ignore[no-untyped-def]  # noqa: ANN001 - jgo's own type
    content = path.read_bytes()
    return Jar(
        artifact.groupId, artifact.artifactId, artifact.version, hashlib.sha256(content).hexdigest(), len(content)
    )


if __name__ == "__main__":
    for entry in resolve_anew():
        sys.stdout.write(f"{entry.group}:{entry.artifact}:{entry.version} {entry.sha256} {entry.size}\n")
