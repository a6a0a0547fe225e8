"""`muster backup` and `muster restore`: the database, the keys and the declarations of the stack on this machine.

A backup is a folder: `muster.dump` (PostgreSQL's custom format, a consistent copy of one moment), and what the data
folder has of keys, credentials and declarations. Kafka is not part of it, because all that is acknowledged is in
PostgreSQL: a restore removes Kafka's records, and the services publish again what the database has (rule 8). Replicas
and the state of agents are not part of it either: they belong to the machine.
Holds: a folder with that name is a whole backup; a restore that fails before the database is replaced changes nothing
but keys that were missing; no key that the stack has is replaced, since what was sealed under it has to open; what the
replaced database knew and the backup does not is written down before it goes.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from muster_client.cli.printable import one_line
from muster_stack import sealing_keys
from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.layout import Layout
from muster_stack.postgres import DATABASE, LOADING, START_DEADLINE, STOP_GRACE, STOP_SIGNAL, PostgresServer, answering
from muster_stack.processes import stop, wait_until
from muster_stack.reset import agreed, delete, idle

_DUMP: Final = "muster.dump"
_FORGOTTEN: Final = "forgotten.txt"
_SHOWN: Final = 20
_STATES: Final = """
SELECT id, project || '/' || name, phase, desired, generation, attempt FROM submission.workloads
UNION ALL SELECT id, project || '/' || name, phase, desired, generation, attempt FROM submission.archive
"""
_MIB: Final = 1 << 20


def backup(folder: Path, *, data: Data = None) -> int:
    """Save PostgreSQL, keys and declarations of this machine's stack in a new folder; the stack goes on running."""
    layout = Layout.of(data)
    target = folder.expanduser().resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        if target.exists():
            raise StackError(f"{target} exists: name a folder that does not")
        server = answering(layout)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        (partial / _DUMP).touch(mode=0o600)
        server.dump(partial / _DUMP)
        for path in _saved(layout):  # after the database: every key that it needs is there by now
            _add(path, partial / path.relative_to(layout.root))
        os.sync()  # a folder of this name is whole, also after a crash of the machine
        partial.rename(target)
    except (StackError, OSError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        why = str(error).replace(str(partial), str(target))
        sys.stderr.write(f"nothing was saved: {why}\n")
        return 1
    size = (target / _DUMP).stat().st_size / _MIB
    sys.stdout.write(f"saved in {target} ({size:.1f} MiB). It has the keys to all stored credentials: guard it\n")
    return 0


def restore(
    folder: Path,
    *,
    data: Data = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative="")] = False,
) -> int:
    """Replace the database of this machine's stack by a backup, and empty Kafka; the stack has to be down."""
    layout, source = Layout.of(data), folder.expanduser().resolve()
    try:
        if not (source / _DUMP).is_file():
            raise StackError(f"{source} has no {_DUMP}: name a folder that `muster backup` made")
        layout.make()
        with idle(layout):
            if layout.postgres.exists() and not yes and not agreed(f"replace the database in {layout.root}"):
                sys.stderr.write("nothing was changed\n")
                return 1
            _take_keys(layout, source)
            with _running(PostgresServer.of(layout)) as server:
                server.load(source / _DUMP)
                forgotten = _forgotten(server)
                _write_down(layout, forgotten)
                server.take_loaded()
            delete(layout.kafka)
    except (StackError, OSError) as error:
        sys.stderr.write(f"not restored: {error}\n")
        return 1
    for line in forgotten[:_SHOWN]:
        sys.stdout.write(f"  {line}\n")
    named = f" --data {shlex.quote(str(data))}" if data else ""
    sys.stdout.write(
        f"{layout.root} has the database of the backup; {len(forgotten)} workloads were newer or changed later"
        f"{f' (all in {layout.root / _FORGOTTEN})' if forgotten else ''}. Start it by `muster up -d{named}`, with the "
        "options that it had\n"
    )
    return 0


def _forgotten(server: PostgresServer) -> list[str]:
    """A line for each workload that the database knows and the backup does not, or knows in another state."""
    if server.rows(DATABASE, "SELECT to_regclass('submission.workloads') IS NOT NULL") != [["t"]]:
        return []  # an empty database: a new machine, or a restore that was ended halfway
    saved = {row[0]: row for row in server.rows(LOADING, _STATES)}
    lines = []
    for row in sorted(server.rows(DATABASE, _STATES)):
        if row != saved.get(row[0]):
            what = "changed later" if row[0] in saved else "not in the backup"
            lines.append(f"{one_line(row[1])} {row[0]}: {what}")
    return lines


def _write_down(layout: Layout, forgotten: list[str]) -> None:
    if forgotten:
        (layout.root / _FORGOTTEN).write_text("".join(f"{line}\n" for line in forgotten))


def _saved(layout: Layout) -> list[Path]:
    """The files and folders of keys, credentials and declarations that are there."""
    wanted = (layout.sealing_keys, layout.identities, layout.credentials, layout.tls, layout.clusters)
    return [path for path in wanted if path.exists()]


def _take_keys(layout: Layout, source: Path) -> None:
    """Take what the stack lacks from the backup; of sealing keys those of both count."""
    saved = source / layout.sealing_keys.name
    if saved.exists() and layout.sealing_keys.exists():
        sealing_keys.add(layout.sealing_keys, saved)
    for path in _saved(Layout(source)):
        if path.name == layout.clusters.name and any(layout.clusters.glob("*.yaml")):
            continue  # a cluster that was removed since must not come back
        _add(path, layout.root / path.relative_to(source))


def _add(path: Path, target: Path) -> None:
    """Copy a file, or each file of a folder, where the target has none of that name."""
    if path.is_dir():
        target.mkdir(mode=0o700, exist_ok=True)
        for each in sorted(path.iterdir()):
            _add(each, target / each.name)
    elif not target.exists():
        shutil.copy2(path, target)


@contextmanager
def _running(server: PostgresServer) -> Iterator[PostgresServer]:
    """Run a PostgreSQL for the time of the block."""
    server.end_leftovers()
    server.prepare()
    process = server.command().spawn()
    try:
        wait_until(server.ready, seconds=START_DEADLINE, what="PostgreSQL's start")
        yield server
    finally:
        stop(process, grace=STOP_GRACE, number=STOP_SIGNAL)
