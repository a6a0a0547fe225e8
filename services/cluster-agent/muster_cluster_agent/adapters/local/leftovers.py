"""What replicas leave on the disk, and when it goes: working folders of earlier runs, logs, and what was deleted.

Used by the local back end. Blocks. Holds: nothing goes in which a replica runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.workdirs import Workdirs, digest_of
from muster_kernel import ids

_LOGS_KEPT: Final = 2000  # log folders of removed replicas; the oldest go first
_TURN_SECONDS: Final = 0.5  # of removing at once: what is left goes in the next turns

log = structlog.get_logger(__name__)


class Leftovers:
    """The folders of one agent that outlive a replica."""

    def __init__(self, state: StateFolder, workdirs: Workdirs) -> None:
        """Nothing is looked at yet."""
        self._state = state
        self._workdirs = workdirs
        self._said = ""

    def tidy(self, replicas: Sequence[Replica]) -> None:
        """Remove the oldest logs beyond their number, and old runs of the workloads that run here."""
        self._drop_old_logs({replica.name for replica in replicas})
        living: dict[str, set[str]] = {}
        for replica in replicas:
            run = os.path.basename(str(replica.spec.get("run_folder", "")))
            living.setdefault(replica.workload_id, set()).add(run)
        for workload_id, runs in living.items():
            try:
                self._workdirs.remove_old_runs(digest_of(workload_id), runs)
            except OSError as error:  # one workload's folders must not keep the others'
                log.warning("old_runs_not_removed", workload_id=workload_id, why=str(error))

    def empty(self) -> bool:
        """Remove for one turn what was put with what goes; whether another turn has anything to do."""
        left = self._workdirs.empty(_TURN_SECONDS)
        if left and left != self._said:
            log.warning("folders_not_removed", why=left)
        self._said = left or ""
        return left == ""

    def remove(self, workload_id: str) -> None:
        """Remove the working folders and the logs of a workload that was deleted; what is large goes in later turns.

        Raises OSError.
        """
        self._workdirs.remove(digest_of(workload_id))
        prefix = f"w-{ids.digest(workload_id)}-g"
        for path in (self._state.root / "logs").iterdir():
            if path.name.startswith(prefix):
                shutil.rmtree(path, ignore_errors=True)
        self.empty()

    def _drop_old_logs(self, living: set[str]) -> None:
        """Logs of removed replicas stay within a number; each has its own budget in bytes."""
        folders = [path for path in (self._state.root / "logs").iterdir() if path.name not in living]
        if len(folders) <= _LOGS_KEPT:
            return
        for path in sorted(folders, key=_written)[:-_LOGS_KEPT]:
            shutil.rmtree(path, ignore_errors=True)


def _written(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
