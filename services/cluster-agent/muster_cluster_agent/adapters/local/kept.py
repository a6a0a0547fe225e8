"""The bus's identity, kept in the state folder: an agent has no database (architecture rules 8 and 10)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from muster_cluster_agent.adapters.local.state import replace_file


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """Implements the chassis' IdentityStore in one file."""

    path: Path

    async def known(self) -> str | None:
        """The id of the cluster that this agent last spoke to, or None before the first time."""
        try:
            return await asyncio.to_thread(self.path.read_text) or None
        except OSError:
            return None

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus. What it lacks is told anyway: every connection begins with a resync."""
        await asyncio.to_thread(replace_file, self.path, cluster_id.encode())
