"""What an agent of a local cluster keeps of itself, in its state folder: it has no database (architecture rule 8)."""

from __future__ import annotations

import asyncio

from muster_cluster_agent.adapters.local.state import StateFolder, replace_file


class FolderState:
    """Implements `ports.AgentState` and the chassis' IdentityStore in a state folder."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._bus = state.root / "bus"
        self.instance = state.instance
        self.start = state.start

    def read_number(self, name: str) -> int:
        """A kept number; 0 where there is none."""
        return self._state.read_number(name)

    async def keep_number(self, name: str, value: int) -> None:
        """Keeps a number durably."""
        await asyncio.to_thread(self._state.keep_number, name, value)

    async def known(self) -> str | None:
        """The id of the bus that this agent last spoke to, or None before the first time."""
        try:
            return await asyncio.to_thread(self._bus.read_text) or None
        except OSError:
            return None

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus. Every connection begins with a resync, so that the new bus lacks nothing."""
        await asyncio.to_thread(replace_file, self._bus, cluster_id.encode())
