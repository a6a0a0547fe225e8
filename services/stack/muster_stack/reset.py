"""`muster reset`: delete what a stack on this machine has stored, so that the next `muster up` begins empty.

Holds: nothing is deleted while anything of the stack runs, nor before a person has agreed; only a folder that a stack
has made is touched; what people write themselves (the declarations of clusters) stays unless they say so.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from muster_client.cli.printable import one_line
from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.keeper import sweep
from muster_stack.layout import Layout
from muster_stack.postgres_home import forget_orphans

_SIGNS: Final = ("kafka", "postgres")
"""A data folder of a stack has a lock and one of these; hardly another folder has both."""


def reset(
    *,
    data: Data = None,
    everything: Annotated[
        bool, Parameter(name="--all", help="Also the declarations of clusters.", negative="")
    ] = False,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask.", negative="")] = False,
) -> int:
    """Delete the data of the stack on this machine: workloads, projects, events, logs, credentials."""
    layout = Layout.of(data)
    try:
        with _ours(layout):
            doomed = doomed_of(layout, everything=everything)
            names = one_line(", ".join(path.name for path in doomed))
            if not yes and not agreed(f"delete {names} in {layout.root}"):
                sys.stderr.write("nothing was deleted\n")
                return 1
            for path in doomed:
                delete(path)
            forget_orphans()  # root's PostgreSQL has its files elsewhere, behind a link that is gone now
    except StackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    kept = "" if everything else "; the declarations of clusters stay (--all deletes them too)"
    sys.stdout.write(f"the data in {layout.root} is deleted{kept}\n")
    return 0


def doomed_of(layout: Layout, *, everything: bool) -> list[Path]:
    """What is deleted. The lock stays: it is held, and a keeper that starts meanwhile has to see it."""
    kept = {layout.lock} if everything else {layout.lock, layout.clusters}
    return sorted(path for path in layout.root.iterdir() if path not in kept)


@contextmanager
def _ours(layout: Layout) -> Iterator[None]:
    """Hold the stack's lock in the block. Raises StackError if there is no stack, or if something of it runs."""
    if not layout.lock.exists() or not any((layout.root / name).exists() for name in _SIGNS):
        raise StackError(f"no stack has its data in {layout.root}: name its folder with --data, or with MUSTER_HOME")
    with idle(layout):
        yield


@contextmanager
def idle(layout: Layout) -> Iterator[None]:
    """Hold the lock of a data folder in the block. Raises StackError if something of a stack runs there."""
    with layout.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(f"the stack in {layout.root} runs: `muster down` first") from None
        if left := len(sweep.everything(layout)):
            raise StackError(f"{left} processes of the stack in {layout.root} still run: `muster down` first")
        yield


def agreed(what: str) -> bool:
    """Whether a person agrees to `what`. Raises StackError where there is no terminal to ask at."""
    if not sys.stdin.isatty():
        raise StackError(f"to {what} needs a confirmation and there is no terminal: say --yes")
    sys.stderr.write(f"{what}? This cannot be undone. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def delete(path: Path) -> None:
    """Deletes a file, a folder, or a link; what a link leads to is not followed. Raises StackError.

    A replica may have nested folders deeper than Python's own removal, which recurses, can go.
    """
    done = subprocess.run(["/bin/rm", "-rf", "--", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"{path} is not deleted: {one_line(done.stderr.strip())[:300]}")
