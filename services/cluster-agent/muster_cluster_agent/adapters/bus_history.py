"""Which Kafka the agent spoke to last, and from which epoch on the assignments of a new one count.

Used by the composition root as the IdentityStore of the bus.
An emptied Kafka gets the scheduler's past again before its present: assignments of runs that are over come before the
tombstones that ended them. An agent that had done such a run and cleared it away would start it a second time. The
scheduler raises its epoch for a new Kafka and writes all that holds under the new one, so that what an epoch of before
says there is the past.
Holds: the epoch is kept no later than the identity; an agent that ends in between finds a new Kafka once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster_chassis import logs
from muster_chassis.numbers import LARGEST_EPOCH
from muster_cluster_agent.ports import AgentState

LEAST_EPOCH: Final = "least_epoch"
_log = logs.get(__name__)


class BusHistory:
    """state: where both are kept. epoch: the highest that the agent has obeyed."""

    def __init__(self, state: AgentState, epoch: Callable[[], int]) -> None:
        self._state = state
        self._epoch = epoch
        kept = state.read_number(LEAST_EPOCH)
        self.least_epoch = kept if 0 <= kept <= LARGEST_EPOCH else 0

    async def known(self) -> str | None:
        """The id of the bus that this agent last spoke to, or None before the first time."""
        return await self._state.known()

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus, and that assignments of the epochs until now are its past."""
        before = await self._state.known()
        if before is not None and before != cluster_id:
            self.least_epoch = min(self._epoch() + 1, LARGEST_EPOCH)
            await self._state.keep_number(LEAST_EPOCH, self.least_epoch)
            _log.info("assignments of a new Kafka count from a later epoch on", epoch=self.least_epoch)
        await self._state.replace(cluster_id)
