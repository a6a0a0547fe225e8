"""Use as it goes from an agent to telemetry, in memory: a bus that loses, repeats and is away, and what is counted.

Used by the sampler's tests and by rule 3. Times are seconds since 1970; the clock moves only when a test moves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from muster.events.v1 import agent_pb2
from muster_chassis.events import Event, Origin
from muster_cluster_agent.adapters import encode
from muster_cluster_agent.domain.model import Observed, Pattern
from muster_cluster_agent.ports import Report, SampleReport
from muster_cluster_agent.sampling import Sampler
from muster_telemetry.domain.accounts import GPU, SECOND, count
from muster_telemetry.domain.coverage import Span
from muster_telemetry.samples import samples_of
from tests.support.agents import workload_id
from tests.support.backends import FakeBackend

START = 1_700_000_000.0
ID = "00000000-0000-7000-8000-000000000001"


def sampled(message: Any) -> Event:
    """A record of muster.samples with this message, as telemetry's handler sees it; None: a tombstone."""
    value = message.SerializeToString() if message is not None else None
    origin = Origin("muster.samples", 0, 0, b"c", value, ())
    return Event(ID, "UsageSampled", "agent/c", "c", 0, datetime(2026, 1, 1, tzinfo=UTC), message, origin, None)


@dataclass
class Counting:
    """Telemetry's accounts in memory."""

    covered: dict[str, Sequence[Span]] = field(default_factory=dict)
    amounts: dict[str, int] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Counts one record."""
        samples, rest = samples_of(event)
        assert rest is None, rest
        spans, growth = count(samples, self.covered)
        self.covered.update(spans)
        for each in growth:
            self.amounts[each.workload] = self.amounts.get(each.workload, 0) + each.amount

    def seconds(self, number: int) -> float:
        """GPU-seconds of a workload."""
        return self.amounts.get(workload_id(number), 0) / (GPU * SECOND)


class UsageRoad:
    """A cluster whose replicas hold one GPU each, its sampler, a bus, and telemetry at its end."""

    def __init__(self, sampler: type[Sampler] = Sampler) -> None:
        self.now = START
        self.kept = 0.0
        self.queued: list[SampleReport] = []
        self.telemetry = Counting()
        self.backend = FakeBackend(clock=lambda: self.now)
        self._kind = sampler
        self.restart()

    def tell(self, report: Report) -> None:
        """The reporter's part."""
        assert isinstance(report, SampleReport)
        self.queued.append(report)

    def restart(self) -> None:
        """The agent ends at any moment and comes back; what it had queued is lost."""

        async def keep(until: float) -> None:
            self.kept = until

        self.queued.clear()
        self.sampler = self._kind(self.backend, self, keep, kept=self.kept, clock=lambda: self.now)

    def reconnect(self) -> None:
        """The connection breaks: what is queued is lost, and the reporter asks for it again."""
        self.queued.clear()
        self.sampler.rewind()

    def deliver(self, *, acknowledged: bool = True) -> None:
        """The bus takes what is queued. Without an acknowledgement the agent believes that it is lost."""
        for report in self.queued:
            self.telemetry.take(self._event(report))
            if acknowledged:
                self.sampler.acknowledged(report)
        self.queued.clear()
        if not acknowledged:
            self.sampler.rewind()

    def start(self, number: int) -> None:
        """A replica of workload `number` starts."""
        self.backend.replicas[f"r{number}"] = Observed(
            f"r{number}",
            *(workload_id(number), 1, 0, "worker", 0, 0, "n-0", "boot", Pattern.SINGLE),
            started_at=self.now,
            charge=GPU,
            project="p",
            workload=f"w-{number}",
            devices=(f"GPU-{number}",),
        )

    def end(self, number: int) -> None:
        """The replica ends, and the agent hears of it."""
        gone = replace(self.backend.replicas[f"r{number}"], gone=True, gone_at=self.now)
        self.backend.replicas[f"r{number}"] = gone
        self.sampler.ended(gone)

    def remove(self, number: int) -> None:
        """The replica is released: only after its end is on the bus, and so what was queued before it."""
        replica = self.backend.replicas[f"r{number}"]
        self.sampler.ended(replica)
        self.deliver()
        del self.backend.replicas[f"r{number}"]

    def _event(self, report: SampleReport) -> Event:
        order = agent_pb2.ReportOrder(cluster="c")
        return sampled(encode.message(report, order, ""))
