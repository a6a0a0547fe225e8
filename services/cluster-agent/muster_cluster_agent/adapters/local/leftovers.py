"""What replicas leave on the disk, and when it goes: working folders of earlier runs, logs, and what was deleted.

Used by the local back end. Blocks. Holds: nothing goes in which a replica runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Final

from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.workdirs import Workdirs, digest_of
from muster_kernel import ids

_LOGS_KEPT: Final = 2000  # log folders of removed replicas; the oldest go first


class Leftovers:
    """The folders of one agent that outlive a replica."""

    def __init__(self, state: StateFolder, workdirs: Workdirs) -> None:
        """Nothing is looked at yet."""
        self._state = state
        self._workdirs = workdirs

    def tidy(self, replicas: Sequence[Replica]) -> None:
        """Remove the oldest logs beyond their number, and old runs of the workloads that run here."""
        self._drop_old_logs({replica.name for replica in replicas})
        living: dict[str, set[str]] = {}
        for replica in replicas:
            run = os.path.basename(str(replica.spec.get("run_folder", "")))
            living.setdefault(replica.workload_id, set()).add(run)
        for workload_id, runs in living.items():
            self._workdirs.remove_old_runs(digest_of(workload_id), runs)

    def remove(self, workload_id: str) -> None:
        """Remove the working folders and the logs of a workload that was deleted."""
        self._workdirs.remove(digest_of(workload_id))
        prefix = f"w-{ids.digest(workload_id)}-g"
        for path in (self._state.root / "logs").iterdir():
            if path.name.startswith(prefix):
                shutil.rmtree(path, ignore_errors=True)

    def _drop_old_logs(self, living: set[str]) -> None:
        """Logs of removed replicas stay within a number; each has its own budget in bytes."""
        folders = [path for path in (self._state.root / "logs").iterdir() if path.name not in living]
        if len(folders) <= _LOGS_KEPT:
            return
        for path in sorted(folders, key=lambda p: p.stat().st_mtime)[:-_LOGS_KEPT]:
            for file in path.iterdir():
                file.unlink(missing_ok=True)
            path.rmdir()
