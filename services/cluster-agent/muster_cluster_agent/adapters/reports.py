"""The reporter on Kafka: everything an agent says, in order, on its cluster's topic; use on the samples topic.

Run by `app.py` as an eternal task. Holds: records carry (instance, start, sequence) and are sent in that order;
whatever may have been lost (a full queue, a failed send, another bus) ends in a resync, in which the agent tells its
state again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from muster_chassis import kafka, logs, metrics, topics
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost
from muster_chassis.codec import encode_headers
from muster_cluster_agent.adapters.records import LEFT_OUT, Records
from muster_cluster_agent.ports import (
    DeadLetter,
    RefusalReport,
    Report,
    SampleReport,
    StatusReport,
)

LIMIT: Final = 20_000
_BATCH: Final = 500

REPORTS = metrics.counter(
    "muster_agent_reports_total",
    unit="reports",
    meaning="Reports that the bus has acknowledged.",
    action="None: compare it with the number of running replicas.",
    labels=("kind",),
)
RESYNCS = metrics.counter(
    "muster_agent_resyncs_total",
    unit="resyncs",
    meaning="How often everything was told again, since reports may have been lost.",
    action="If it grows all the time, look at the agent's log for why Kafka does not take its reports.",
)

_log = logs.get(__name__)


class KafkaReporter:
    """Implements `ports.Reporter`.

    `acknowledged` hears of each report that the bus has; `resync` is awaited on each new connection.
    """

    def __init__(
        self, bus: Bus, cluster: str, instance: str, start: int, observed_at: Callable[[], float] = time.time
    ) -> None:
        """observed_at: of when the back end is known, in seconds since 1970."""
        software = version("muster-cluster-agent")
        self._bus = bus
        self._cluster = cluster
        self._records = Records(cluster, instance, start, observed_at=observed_at, version=software)
        self._queue: deque[Report] = deque()
        self._wake = asyncio.Event()
        self._overflowed = False
        self._idle = asyncio.Event()
        self.acknowledged: list[Callable[[Report], None]] = []
        self.resync: Callable[[], Awaitable[None]] | None = None

    def tell(self, report: Report) -> None:
        """Queues a report. A queue that is full is thrown away: its content is state, and will be told again."""
        if len(self._queue) >= LIMIT:
            self._queue.clear()
            self._overflowed = True
        self._queue.append(report)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Sends for ever."""
        backoff = Backoff()
        while True:
            try:
                async with self._bus.session():
                    await self._bus.wait_for([topics.reports(self._cluster).name])
                    await self._connected(backoff)
            except BusLost:
                _log.warning("the bus is another one; everything will be told again")
            except kafka.KAFKA_TROUBLE as error:
                _log.warning("reports could not be sent", error=repr(error))
                await backoff.pause()

    async def drain(self) -> None:
        """Until everything that is queued has been sent. The caller sets the bound."""
        while self._queue or not self._idle.is_set():
            await self._idle.wait()

    async def _connected(self, backoff: Backoff) -> None:
        producer = kafka.producer(self._bus.broker, client=f"agent-{self._cluster}")
        try:
            await producer.start()
            await self._begin()
            backoff.reset()
            while True:
                await self._send_queued(producer)
                if self._overflowed:
                    await self._begin()
                if not self._queue:
                    self._idle.set()
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            await kafka.stop(producer)

    async def _begin(self) -> None:
        """What waited was told before the connection broke, or will be told again: only what is no state is kept."""
        kept = [one for one in self._queue if isinstance(one, DeadLetter | RefusalReport)]
        self._queue = deque(kept)
        self._overflowed = False
        RESYNCS.inc()
        if self.resync is not None:
            await self.resync()

    async def _send_queued(self, producer: AIOKafkaProducer) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(_BATCH, len(self._queue)))]
            try:
                waiting = [await self._handed_over(producer, report) for report in batch]
                for promise in chain.from_iterable(waiting):
                    await promise
            except BaseException:
                self._queue.extendleft(one for one in reversed(batch) if isinstance(one, DeadLetter | RefusalReport))
                raise
            for report in batch:
                self._took(report)

    async def _handed_over(self, producer: AIOKafkaProducer, report: Report) -> list[Any]:
        """The producer's promises for a report. A record that no broker takes must not hold up the others."""
        topic, key, aggregate = self._place(report)
        trace = report.traceparent if isinstance(report, StatusReport | RefusalReport) else None
        promises = []
        for message in self._records.of(report):
            headers = encode_headers(
                event_id=self._records.event_id(),
                event_type=message.DESCRIPTOR.full_name,
                source=f"agent/{self._cluster}",
                aggregate=aggregate,
                version=0,
                time=datetime.now(UTC),
                traceparent=trace,
            )
            try:
                sent = producer.send(topic, message.SerializeToString(), key=key.encode(), headers=headers)
                promises.append(await sent)
            except MessageSizeTooLargeError:
                LEFT_OUT.labels(type(report).__name__).inc()
                _log.error("a report is too large and was left out", kind=type(report).__name__)
        return promises

    def _place(self, report: Report) -> tuple[str, str, str]:
        """(topic, key, aggregate) of a report."""
        own = topics.reports(self._cluster).name
        match report:
            case StatusReport(status=status):
                return own, status.workload_id, status.workload_id
            case RefusalReport(refusal=refusal):
                return own, refusal.workload_id, refusal.workload_id
            case SampleReport():
                return topics.SAMPLES.name, self._cluster, self._cluster
            case DeadLetter(key=key):
                return topics.DEAD_LETTERS.name, key.decode("utf-8", "replace"), self._cluster
            case _:
                return own, self._cluster, self._cluster

    def _took(self, report: Report) -> None:
        REPORTS.labels(type(report).__name__).inc()
        for hear in self.acknowledged:
            hear(report)
