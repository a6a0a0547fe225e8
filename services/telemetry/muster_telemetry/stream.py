"""muster.samples through Faust, into the chassis's intake: what makes records count once, and poison a dead letter.

Faust reads, balances partitions between instances and commits offsets after its agent has gone on; its consumer has a
thread of its own. It is at-least-once and can crash: so nothing is kept in it, and it is built anew after a crash
and on another bus (an app that has lived on the old broker could resume in the middle of an emptied topic, rule 8).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import EventT

from muster_chassis import logs, parking
from muster_chassis.attempts import patiently
from muster_chassis.backoff import Backoff
from muster_chassis.breakers import Tripped
from muster_chassis.broker import MECHANISM, Broker
from muster_chassis.bus import Bus, BusLost
from muster_chassis.codec import inbox_key
from muster_chassis.database import TRANSIENT
from muster_chassis.events import Event, Origin
from muster_chassis.intake import Intake, Place
from muster_chassis.parking import REJECTED, Parking
from muster_chassis.topics import SAMPLES
from muster_chassis.unit import Unit
from muster_telemetry.domain.accounts import Sample
from muster_telemetry.errors import FaustEnded
from muster_telemetry.handlers import Handlers
from muster_telemetry.samples import Rest, samples_of

_log = logs.get(__name__)
_BATCH: Final = 100
_BATCH_BYTES: Final = 1 << 20  # of records in one transaction: some 5,000 samples
_BUFFER: Final = 64  # records that Faust reads ahead, each of up to 128 KiB and at most 2 MiB
_REST: Final = uuid.UUID("6d757374-6572-5000-8000-007361726573")
_WITHIN: Final = 0.1  # seconds that a batch waits to become larger
_LOOK: Final = 0.1
_STOP_SECONDS: Final = 5.0
_START_SECONDS: Final = 20.0
_RESUMED: Final = 0.5
_SWEEP: Final = 1.0


class Samples:
    """The handler of the intake: events into samples, all of a batch at once."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    async def __call__(self, unit: Unit, events: Sequence[Event]) -> None:
        """Counts one batch. Raises Reject for an event of which nothing can be counted."""
        found: list[Sample] = []
        for event in events:
            samples, rest = samples_of(event)
            found += samples
            if rest is not None:
                await parking.park(unit, _parked(event, rest))
        await self._handlers.on_samples(unit, found)


def _parked(event: Event, rest: Rest) -> Parking:
    """The dead letter of what could not be counted.

    Its key follows from the content: a redrive that counts a part of it leaves another rest.
    """
    key = uuid.uuid5(_REST, f"{inbox_key(event, '')}/{hashlib.sha256(rest.value).hexdigest()}")
    origin = replace(event.origin, value=rest.value)
    return Parking(str(key), REJECTED, origin, "", 0, rest.reason, 1, event.traceparent)


class SampleStream:
    """One Faust app at a time, as long as the process lives."""

    def __init__(self, bus: Bus, intake: Intake, *, name: str, instance: str) -> None:
        self._bus = bus
        self._intake = intake
        self._name = name
        self._instance = instance
        self._stopping = asyncio.Event()
        self._finished = asyncio.Event()

    async def run(self) -> None:
        """Reads until `stop`. An eternal task."""
        backoff = Backoff()
        try:
            while not self._stopping.is_set():
                try:
                    async with self._bus.session() as session:
                        self._intake.bus = session.cluster_id
                        await self._bus.wait_for([SAMPLES.name])
                        await self._live(session.cluster_id, backoff)
                except BusLost:
                    _log.info("the samples are read anew on another bus")
                except Exception as error:  # noqa: BLE001 - whatever ends Faust, it is built anew
                    _log.warning("Faust is built anew", error=repr(error))
                    await backoff.pause()
        finally:
            self._finished.set()

    async def stop(self) -> None:
        """Lets the batch in hand end, and Faust with it."""
        self._stopping.set()
        await self._finished.wait()

    async def sweep(self) -> None:
        """Every second handles what was asked to be redriven. An eternal task."""
        while True:
            await asyncio.sleep(_SWEEP)
            with suppress(*TRANSIENT, TimeoutError):
                await self._intake.sweep()

    async def _live(self, cluster_id: str, backoff: Backoff) -> None:
        with tempfile.TemporaryDirectory(prefix="muster-faust-") as folder:
            group = f"{self._name}-{cluster_id}"
            app = build(self._bus.broker, self._feed, group=group, instance=self._instance, folder=Path(folder))
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await app.start()
                backoff.reset()
                _log.info("Faust reads the samples", group=app.conf.id)
                while not self._stopping.is_set():
                    if app.crashed or app.should_stop:
                        raise FaustEnded(f"Faust has ended: {app.crash_reason!r}")
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._stopping.wait(), _LOOK)
            finally:
                await _end(app)

    async def _feed(self, stream: faust.Stream[Any]) -> AsyncIterator[int]:
        """Faust's agent: its offsets go on when this does."""
        async for batch in stream.take_events(_BATCH, within=_WITHIN):
            for origins in in_bytes([origin_of(event) for event in batch], _BATCH_BYTES):
                await self._process(origins)
            yield len(batch)

    async def _process(self, origins: Sequence[Origin]) -> None:
        done: dict[Place, int] = {}
        while True:
            try:
                await self._intake.process(origins, done)
                return
            except Tripped:
                await self._wait_for_resume()

    async def _wait_for_resume(self) -> None:
        """Wait until an operator resumes the topic: nearly everything on it was rejected."""
        await patiently(lambda: self._intake.breakers.remember(SAMPLES.name))
        self._bus.health.bad(f"consumer {SAMPLES.name}", self._intake.breakers.stopped[SAMPLES.name], at_once=True)
        while SAMPLES.name in self._intake.breakers.stopped:
            await asyncio.sleep(_RESUMED)
            with suppress(*TRANSIENT, TimeoutError):
                await self._intake.breakers.look()
        self._bus.health.good(f"consumer {SAMPLES.name}")


def build(broker: Broker, feed: Any, *, group: str, instance: str, folder: Path) -> faust.App:
    """A Faust app that reads muster.samples and writes nothing to Kafka: no tables, no topics of its own."""
    logging.getLogger("faust").setLevel(logging.WARNING)
    logging.getLogger("mode").setLevel(logging.WARNING)
    app = faust.App(
        group,
        broker=";".join(f"kafka://{address.strip()}" for address in broker.bootstrap.split(",")),
        broker_credentials=_credentials(broker),
        loop=asyncio.get_running_loop(),
        datadir=folder,
        store="memory://",
        value_serializer="raw",
        key_serializer="raw",
        consumer_auto_offset_reset="earliest",
        broker_commit_interval=0.5,
        stream_buffer_maxsize=_BUFFER,
        topic_disable_leader=True,
        topic_allow_declare=False,
        consumer_group_instance_id=instance,
        web_enabled=False,
        logging_config=None,
    )
    app.transport = _Transport(app.conf.broker_consumer, app)
    app.agent(app.topic(SAMPLES.name, key_serializer="raw", value_serializer="raw"), name="samples")(feed)
    return app


def _credentials(broker: Broker) -> faust.SASLCredentials | None:
    """As whom Faust logs in; None where the broker asks for no login. Raises CredentialError."""
    if not broker.authenticated:
        return None
    return faust.SASLCredentials(
        username=broker.user, password=broker.password(), ssl_context=broker.context(), mechanism=MECHANISM
    )


def origin_of(event: EventT[Any]) -> Origin:
    """A record as the chassis sees it."""
    message = event.message
    headers: Any = message.headers or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    return Origin(
        message.topic,
        message.partition,
        message.offset,
        message.key,
        message.value,
        tuple((str(name), value or b"") for name, value in pairs),
        int(message.timestamp * 1000),
    )


def in_bytes(origins: Iterable[Origin], limit: int) -> Iterator[list[Origin]]:
    """The records in their order, in parts of at most `limit` bytes; one that is larger is a part of its own."""
    part: list[Origin] = []
    size = 0
    for origin in origins:
        added = len(origin.value or b"")
        if part and size + added > limit:
            yield part
            part, size = [], 0
        part.append(origin)
        size += added
    if part:
        yield part


class _ConsumerThread(AIOKafkaConsumerThread):
    """Faust's consumer, which ends quietly when Kafka has gone."""

    async def on_thread_stop(self) -> None:
        """Stop the consumer. Where it waits to repeat a fetch, aiokafka hands on the cancellation of that wait."""
        try:
            await super().on_thread_stop()
        except asyncio.CancelledError:
            if self._consumer is not None:
                await self._consumer._client.close()  # noqa: SLF001 - its own stop was cut short before this step


class _Consumer(Consumer):
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)


class _Transport(Transport):
    Consumer = _Consumer


async def _end(app: faust.App) -> None:
    """Faust's own stop waits for what may never come from a broker that is gone."""
    with suppress(TimeoutError, Exception):
        async with asyncio.timeout(_STOP_SECONDS):
            await app.stop()
