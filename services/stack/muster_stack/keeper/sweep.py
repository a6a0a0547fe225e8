"""What a killed keeper left behind, and ending it.

Called by the next keeper of the folder before it starts anything, and by `muster down`.
Known by the mark in its environment (every process that a stack starts carries MUSTER_STACK_ID), and PostgreSQL's
children, which overwrite theirs, by their working folder. Holds: a replica outlives its agent and a new keeper; only
`down` ends it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from muster_stack.layout import Layout
from muster_stack.processes import REPLICA_MARK, Identity, end_all, environment, marked, working_in

_SUPERVISOR_NAME: Final = "muster-replica"  # a replica's supervisor is forked, so it carries its agent's environment
_PUMP_NAME: Final = "muster-pump"  # it carries the connections of replicas, which go on too
_REPLICAS_DEADLINE: Final = 20.0
_GRACE: Final = 5.0


def end_services(layout: Layout) -> int:
    """Ends everything of this stack but the replicas. Returns how many processes there were."""
    return end_all(lambda: [process for process in everything(layout) if not _of_replica(process)], grace=_GRACE)


def end_everything(layout: Layout) -> int:
    """Ends all processes of this stack, replicas too. Returns how many there were, agents' own endings not counted."""
    # Agents first: a living one would take the end of its replicas for failures.
    count = end_services(layout)
    end_replicas(layout)
    count += end_all(lambda: everything(layout), grace=_GRACE)
    shutil.rmtree(layout.sockets, ignore_errors=True)  # it may lie in /tmp, where nobody would look for it
    return count


def end_replicas(layout: Layout) -> None:
    """Lets each agent's room end its replicas, so that their journals close; what that misses, the sweep ends."""
    folders = [folder for folder in (layout.root / "agents").glob("*") if folder.is_dir()]
    running = [_start_ending(folder, layout) for folder in folders]
    for process in running:
        try:
            process.wait(_REPLICAS_DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start_ending(folder: Path, layout: Layout) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "muster_cluster_agent.end", str(folder)]
    with layout.log(f"end-{folder.name}").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def everything(layout: Layout) -> list[Identity]:
    """Every living process of this stack, ourselves left out."""
    found = set(marked(layout.key))
    if layout.postgres.exists():
        found |= set(working_in(layout.postgres))
    return sorted(found, key=lambda process: process.pid)


def _of_replica(process: Identity) -> bool:
    carried: Mapping[str, str] = environment(process.pid)
    return REPLICA_MARK in carried or _name(process) in {_SUPERVISOR_NAME, _PUMP_NAME}


def _name(process: Identity) -> str:
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""
