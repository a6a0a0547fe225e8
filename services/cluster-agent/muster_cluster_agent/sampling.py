"""Tells how long replicas held their devices: an eternal task beside the handlers.

Run by `app.py`. A round tells the use of every replica up to one moment, in records that are bounded by bytes, and the
next one follows only once the bus has them all, so that a bus that is away costs no memory. What was not told
meanwhile is one longer interval in the next round.
Holds: what the bus may have lost (every such loss ends in a resync) is told again; the moment until which all use is
acknowledged is kept in the state folder, so that an agent that was away for days tells what it has missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.usage import MOST, Sample, batches, boundary, intervals
from muster_cluster_agent.ports import Backend, Report, Reporter, SampleReport

BATCH_BYTES: Final = 128 << 10
# A bus that was wiped may have lost what it had acknowledged and telemetry had not read: so much is told again.
REWIND: Final = 3600.0  # seconds
REMEMBERED: Final = 14 * 86400.0  # seconds for which telemetry is sure to know what it has counted
_PERIOD: Final = 5.0
_AT_ONCE: Final = 2000  # samples that are told together

log = structlog.get_logger(__name__)


class Sampler:
    """Cuts and tells intervals of use. Times are seconds since 1970."""

    def __init__(
        self,
        backend: Backend,
        reporter: Reporter,
        keep: Callable[[float], Awaitable[None]],
        *,
        kept: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """keep: keeps the moment until which all use is acknowledged; kept: the last one that was; 0: none."""
        self._backend = backend
        self._reporter = reporter
        self._keep = keep
        self._clock = clock
        self._kept = kept
        self._since = 0.0  # from then on use is told of a replica that is not in `_told`
        self._told: dict[str, float] = {}
        self._outstanding = 0  # records that the bus has not acknowledged
        self._reached = 0.0  # until then the last round told all use; 0: a round is due
        self._rewinds = 0
        self._ended: set[str] = set()  # replicas that have ended since the round under way looked at them
        self.rewind()

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(_PERIOD)
            await self.round()

    async def round(self) -> None:
        """Tells what is complete by now, unless the bus has still to take what was told before."""
        if self._outstanding:
            return
        if self._reached not in {0.0, self._kept}:
            await self._acknowledge(self._reached)
        now = self._clock()
        if self._reached == boundary(now):
            return
        rewinds = self._rewinds
        self._ended.clear()
        complete, present = True, set[str]()
        samples: list[Sample] = []
        async for replicas in self._backend.portions():
            for replica in replicas:
                present.add(replica.name)
                found = [] if replica.name in self._ended else self._cut(replica, now)
                complete = complete and len(found) < MOST
                samples += found
            if len(samples) >= _AT_ONCE:
                self._tell(samples)
                samples = []
        self._tell(samples)
        if rewinds != self._rewinds:
            return  # what this round told may be lost
        self._told = {name: until for name, until in self._told.items() if name in present}
        self._reached = boundary(now) if complete else 0.0

    def ended(self, replica: Observed) -> None:
        """The replica is gone: what is not told yet is told now, before a release takes the replica away."""
        self._ended.add(replica.name)
        self._tell(self._cut(replica, self._clock()))

    def acknowledged(self, report: Report) -> None:
        """The bus has the intervals."""
        if isinstance(report, SampleReport):
            self._outstanding = max(0, self._outstanding - 1)

    def rewind(self) -> None:
        """Reports may have been lost: what is not known to be acknowledged, and some time before it, is told again."""
        near = self._clock() - self._kept < REMEMBERED
        self._since = self._kept - REWIND if near else self._kept
        self._told.clear()
        self._outstanding = 0
        self._reached = 0.0
        self._rewinds += 1

    async def _acknowledge(self, until: float) -> None:
        self._kept = until
        try:
            await self._keep(until)
        except OSError as error:  # a full disk must not end the agent; the next round tries again
            log.warning("usage_not_kept", error=str(error))

    def _cut(self, replica: Observed, now: float) -> list[Sample]:
        """The intervals of a replica that are to be told; they count as told from now on."""
        if not replica.charge or replica.started_at is None:
            return []
        done = self._told.get(replica.name, self._since)
        found = intervals(replica.started_at, replica.gone_at if replica.gone else None, done, now)
        if found:
            self._told[replica.name] = found[-1][1]
        return [_sample(replica, since, until) for since, until in found]

    def _tell(self, samples: Iterable[Sample]) -> None:
        for batch in batches(samples, BATCH_BYTES):
            self._outstanding += 1
            self._reporter.tell(SampleReport(batch))


def _sample(replica: Observed, since: float, until: float) -> Sample:
    return Sample(
        workload_id=replica.workload_id,
        generation=replica.generation,
        attempt=replica.attempt,
        replica=replica.name,
        project=replica.project,
        name=replica.workload,
        since=since,
        until=until,
        charge=replica.charge,
        devices=replica.devices,
    )
