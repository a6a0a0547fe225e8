"""Removes the folders of deleted workloads: working folders, checkpoints and logs.

Run by `app.py` as an eternal task. An agent hears of a release and never of a deletion, which may come long after the
last replica has gone; so it asks. Holds: a folder goes only when submission says that its workload is deleted, or when
submission has not known it for a day, so that a database restored from a backup costs no checkpoint of the last day.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from muster_cluster_agent.errors import SecretsError
from muster_cluster_agent.ports import Deleted, Folders, Kept, Registry

_PERIOD: Final = 60.0
_MOST_IDS: Final = 1_000
_A_LOOK: Final = 5_000  # folders: of a million each is looked at every few hours, by a few calls a minute
_UNKNOWN_FOR: Final = 86_400.0

log = structlog.get_logger(__name__)


class FolderKeeper:
    """Asks what is deleted and has its folders removed. clock: seconds since 1970."""

    def __init__(self, folders: Folders, registry: Registry, clock: Callable[[], float] = time.time) -> None:
        self._folders = folders
        self._registry = registry
        self._clock = clock
        self._next: list[Kept] = []  # of the latest look, not answered yet

    async def run(self) -> None:
        """Look every minute, for ever."""
        while True:
            await asyncio.sleep(_PERIOD)
            try:
                await self.look()
            except (SecretsError, OSError) as error:
                log.info("folders_not_looked_at", why=str(error)[:300])
            except Exception:  # what replicas have left must not end the agent: said, and looked at again
                log.exception("folders_not_looked_at")

    async def look(self) -> None:
        """Look at the next folders. Raises SecretsError or OSError; what was found until then has gone.

        Folders about which submission did not answer come first in the next look.
        """
        self._next = self._next or list(await self._folders.kept(_A_LOOK))
        while kept := self._next[:_MOST_IDS]:
            answer = await self._registry.find_deleted([each.workload_id for each in kept])
            del self._next[: len(kept)]
            await self._remove(kept, answer)

    async def _remove(self, kept: Sequence[Kept], answer: Deleted) -> None:
        old = self._clock() - _UNKNOWN_FOR
        gone = [
            each.workload_id
            for each in kept
            if each.workload_id in answer.deleted or (each.workload_id in answer.unknown and each.used < old)
        ]
        if gone:
            log.info("folders_removed", workloads=len(gone))
            await self._folders.forget(gone)
