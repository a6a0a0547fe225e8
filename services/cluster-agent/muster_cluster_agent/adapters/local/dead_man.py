"""The dead-man's deadline of this cluster: what supervisors are held to, and what heartbeats tell of it (rule 7).

Used by `backend.py`. The cluster file may change at any time, and replicas keep the deadline that they were started
with. Holds: no replica has a longer deadline than the last heartbeat that the bus acknowledged, or any told since; what
is told is never shorter than the deadline of a replica that is not gone; no replica starts whose deadline is over.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable

import structlog

from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.dead_man import largest, least

_BOUND = "dead-man"

log = structlog.get_logger(__name__)


class DeadMan:
    """Deadlines of one state folder. `declared`: what the cluster file says now; `blocking`: runs work in a thread."""

    def __init__(
        self,
        state: StateFolder,
        declared: Callable[[], float | None],
        replicas: Register,
        blocking: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._state = state
        self._declared = declared
        self._replicas = replicas
        self._blocking = blocking
        self._writing = asyncio.Lock()
        self._last_told: float | None = None
        # The longest deadline that the scheduler is sure to wait for; it outlives the agent, as replicas do.
        self._bound: float | None = state.read_number(_BOUND) or None
        self._renewed = _renewed(state)

    @property
    def granted(self) -> float | None:
        """The deadline of a replica that starts now: a longer one counts only once the bus has acknowledged it."""
        return least(self._declared(), self._bound)

    def objection(self, now: float) -> str:
        """Why no replica may start now (`now`: monotonic clock); empty: it may."""
        granted = self.granted
        if granted is None or (self._renewed is not None and now - self._renewed <= granted):
            return ""
        heard = "no heartbeat" if self._renewed is None else f"no heartbeat for {now - self._renewed:.0f} s"
        return f"the bus has acknowledged {heard}; after {granted:g} s (dead_man) replicas end, so none is started"

    async def told(self) -> float | None:
        """What a heartbeat made now tells: the longest deadline of the replicas, and of those that may follow."""
        held = [(r.spec.get("deadline") or {}).get("seconds") for r in self._replicas if not r.gone]
        told = self._last_told = largest((self._declared(), *held))
        # It counts at once: a heartbeat may be heard although its acknowledgement is lost.
        if told is not None and least(told, self._bound) != self._bound:
            await self._keep(told)
        return told

    async def renew(self, sent_at: float, told: float | None) -> None:
        """The bus has acknowledged the heartbeat of `sent_at` (monotonic clock), which told this deadline."""
        self._renewed = max(sent_at, self._renewed or sent_at)
        content = json.dumps({"boot": procfs.boot_id(), "monotonic": self._renewed}).encode()
        async with self._writing:
            await self._blocking(lambda: self._state.tell_alive(content))
        bound = least(told, self._last_told)
        if bound != self._bound:
            await self._keep(bound)

    async def _keep(self, bound: float | None) -> None:
        self._bound = bound
        async with self._writing:
            try:
                await self._blocking(lambda: self._state.keep_number(_BOUND, math.ceil(self._bound or 0)))
            except OSError as error:  # a full disk must not end the agent; its memory has the right one
                log.warning("dead_man_not_kept", error=str(error))


def _renewed(state: StateFolder) -> float | None:
    """When the last heartbeat was sent that was acknowledged since this machine has started."""
    try:
        content = json.loads(state.alive.read_bytes())
        if content["boot"] == procfs.boot_id():
            return min(float(content["monotonic"]), time.monotonic())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None
