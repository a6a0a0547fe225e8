"""Tells how long replicas held their devices: an eternal task beside the handlers.

Run by `app.py`. Holds: an interval counts as told only when the bus has it; until then it is told again, the very same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.usage import Sample, intervals
from muster_cluster_agent.ports import Backend, Report, Reporter, SampleReport

_PERIOD: Final = 5.0
_AT_ONCE: Final = 1000  # samples told in one round


class Sampler:
    """Cuts and tells intervals of use."""

    def __init__(self, backend: Backend, reporter: Reporter, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._backend = backend
        self._reporter = reporter
        self._clock = clock
        self._told: dict[str, float] = {}
        self._known: dict[str, float] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(_PERIOD)
            await self.round()

    async def round(self) -> None:
        """Tells what is complete by now; what was told and not acknowledged is told again."""
        budget = _AT_ONCE
        present = set()
        now = self._clock()
        for replica in await self._backend.list():
            present.add(replica.name)
            if replica.charge and replica.started_at is not None:
                budget = self._tell(replica, now, budget)
        self._known = {name: until for name, until in self._known.items() if name in present}
        self._told = dict(self._known)

    def ended(self, replica: Observed) -> None:
        """The replica is gone: what is not told yet is told now, before a release takes the replica away."""
        if replica.charge and replica.started_at is not None:
            self._tell(replica, self._clock(), _AT_ONCE)

    def acknowledged(self, report: Report) -> None:
        """The bus has the interval."""
        if isinstance(report, SampleReport):
            sample = report.sample
            self._known[sample.replica] = max(sample.until, self._known.get(sample.replica, 0.0))

    def _tell(self, replica: Observed, now: float, budget: int) -> int:
        started = replica.started_at or now
        done = max(self._told.get(replica.name, 0.0), self._known.get(replica.name, 0.0))
        for since, until in intervals(started, replica.gone_at if replica.gone else None, done, now):
            if budget <= 0:
                break
            budget -= 1
            self._told[replica.name] = until
            self._reporter.tell(SampleReport(_sample(replica, since, until)))
        return budget


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
