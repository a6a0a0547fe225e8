"""What comes in over Kafka: the assignments of this cluster, from the beginning, committed records only.

Run by `app.py` as an eternal task. Holds: the agent acts only after the topic was read to its end; records are taken in
their order; one that cannot be understood becomes a dead letter and is told about, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from muster_chassis import kafka, logs, metrics, topics, tracing
from muster_chassis.backoff import Backoff
from muster_chassis.bus import Bus, BusLost
from muster_chassis.numbers import LARGEST_LEAP, epoch_after
from muster_chassis.signatures import BadSignature, RecordVerifier
from muster_cluster_agent.adapters import decode
from muster_cluster_agent.adapters.support import Support
from muster_cluster_agent.domain.actions import Refuse
from muster_cluster_agent.domain.layouts import NodeWish, WishEnd
from muster_cluster_agent.domain.model import Assignment, Release
from muster_cluster_agent.errors import BadRecord
from muster_cluster_agent.handlers.agent import Agent, Taken
from muster_cluster_agent.ports import Backend, DeadLetter, Reporter
from muster_kernel.ids import is_uuid
from muster_kernel.reasons import RefusalCode

_POLL_MS: Final = 1000
_NODE: Final = "node/"
_BATCH: Final = 500
_DEAF: Final = 3  # so many refused in a row are no leader's last words

RECORDS = metrics.counter(
    "muster_agent_records_total",
    unit="records",
    meaning="Records of the assignments topic, by what became of them.",
    action="`bad` grows: read the dead letters. `refused` grows: the log says which epoch or instance they name. "
    "`stale` grows: old records are sent again; look for who else may write this topic.",
    labels=("outcome",),
)

_log = logs.get(__name__)


class Assignments:
    """The consumer of one cluster's assignments.

    keep_epoch: awaited when the highest epoch has grown. support: what the back end does with each field.
    """

    def __init__(
        self,
        bus: Bus,
        cluster: str,
        agent: Agent,
        backend: Backend,
        reporter: Reporter,
        keep_epoch: Callable[[int], Awaitable[None]],
        verifier: RecordVerifier,
        support: Support,
    ) -> None:
        self._support = support
        self._verifier = verifier
        self._bus = bus
        self._cluster = cluster
        self._agent = agent
        self._backend = backend
        self._reporter = reporter
        self._keep_epoch = keep_epoch
        self._kept_epoch = agent.epoch
        self._refused = 0  # assignments in a row that were not obeyed
        self._names: tuple[object, Mapping[bytes, str]] = (None, {})
        self._partition = TopicPartition(topics.assignments(cluster).name, 0)

    async def run(self) -> None:
        """Reads for ever, from the beginning after every loss of the bus."""
        backoff = Backoff()
        while True:
            try:
                async with self._bus.session():
                    await self._bus.wait_for([self._partition.topic])
                    await self._follow(backoff)
            except BusLost:
                self._agent.reread()
            except kafka.KAFKA_TROUBLE as error:
                _log.warning("assignments cannot be read", error=repr(error))
                await backoff.pause()

    async def _follow(self, backoff: Backoff) -> None:
        consumer = kafka.consumer(self._bus.broker, client=f"agent-{self._cluster}", committed_only=True)
        try:
            await consumer.start()
            consumer.assign([self._partition])
            await consumer.seek_to_beginning(self._partition)
            end = (await consumer.end_offsets([self._partition]))[self._partition]
            await self._catch_up(consumer, end)
            self._agent.caught_up()
            await self._agent.tell_state()
            backoff.reset()
            while True:
                await self._poll(consumer)
        finally:
            await kafka.stop(consumer)

    async def _catch_up(self, consumer: AIOKafkaConsumer, end: int) -> None:
        """Takes the newest record of each key. Verifying every record of a long topic would take minutes.

        Where the newest one is no assignment, the topic is read once more for its key: a forged record must not hide
        the genuine one before it.
        """
        newest = await self._fold(consumer, end, lambda _: True)
        devices = await self._devices()
        doubtful = {record.key: record.offset for record in newest if not await self._take(record, devices)}
        if doubtful:
            read = await consumer.position(self._partition)
            await consumer.seek_to_beginning(self._partition)

            def is_earlier(record: Any) -> bool:
                """Each refused record is a dead letter once, whichever key signed it."""
                return record.offset < doubtful.get(record.key, 0) and self._genuine(record)

            earlier = await self._fold(consumer, end, is_earlier)
            consumer.seek(self._partition, read)  # what was written meanwhile may have been read, and passed by
            for record in earlier:
                await self._take(record, devices)
        await self._keep()

    async def _fold(self, consumer: AIOKafkaConsumer, end: int, wanted: Callable[[Any], bool]) -> list[Any]:
        """The newest wanted record of each key up to that offset, in their order."""
        newest = dict[bytes | None, Any]()
        while await consumer.position(self._partition) < end:
            batches = await consumer.getmany(self._partition, timeout_ms=_POLL_MS, max_records=_BATCH)
            for record in batches.get(self._partition, ()):
                if wanted(record):
                    newest.pop(record.key, None)
                    newest[record.key] = record
            await asyncio.sleep(0)
        return list(newest.values())

    def _genuine(self, record: Any) -> bool:
        try:
            self._verify(record, dict(record.headers))
        except BadRecord:
            return False
        return True

    def _verify(self, record: Any, headers: Mapping[str, bytes]) -> None:
        """Raises BadRecord for a record that the scheduler did not sign."""
        decode.from_scheduler(headers)
        try:
            self._verifier.verify(record.topic, record.key or b"", record.value, headers)
        except BadSignature as error:
            raise BadRecord(str(error)) from error

    async def _poll(self, consumer: AIOKafkaConsumer) -> None:
        batches = await consumer.getmany(self._partition, timeout_ms=_POLL_MS, max_records=_BATCH)
        devices = await self._devices()
        for record in batches.get(self._partition, ()):
            await self._take(record, devices)
        await self._keep()

    async def _keep(self) -> None:
        """Writes the highest epoch down where it has grown."""
        if self._agent.epoch != self._kept_epoch:
            self._kept_epoch = self._agent.epoch
            await self._keep_epoch(self._kept_epoch)

    async def _devices(self) -> Mapping[bytes, str]:
        """The devices' names by their bytes, made anew only where the nodes have changed."""
        nodes = await self._backend.nodes()
        if self._names[0] is not nodes:
            self._names = nodes, {decode.uuid_bytes(name): name for node in nodes.values() for name in node.devices}
        return self._names[1]

    async def _take(self, record: Any, devices: Mapping[bytes, str]) -> bool:
        """Hands one record to the agent; False for what is no assignment."""
        key = (record.key or b"").decode("utf-8", "replace")
        if key.startswith(_NODE):
            return await self._take_wish(record, key.removeprefix(_NODE))
        if "/" in key:
            RECORDS.labels("other").inc()
            return True  # keys of later kinds: project/ID, capacity/POOL
        headers = dict(record.headers)
        try:
            if not is_uuid(key):
                raise BadRecord(f"the key {key[:80]!r} is no workload id")
            self._verify(record, headers)
            value = (
                decode.release(key, headers)
                if record.value is None
                else decode.assignment(key, record.value, devices, self._support)
            )
            self._check_epoch(value)
        except BadRecord as bad:
            RECORDS.labels("bad").inc()
            self._reject(record, bad)
            return False
        taken = self._agent.take(value, tracing.valid(_text(headers.get("traceparent"))))
        RECORDS.labels(taken).inc()
        await self._judge(value, taken)
        await asyncio.sleep(0)
        return True

    async def _take_wish(self, record: Any, node: str) -> bool:
        """Hands the record of a node to the agent; False for what is none."""
        headers = dict(record.headers)
        try:
            self._verify(record, headers)
            value = decode.wish_end(node, headers) if record.value is None else decode.node_wish(node, record.value)
            self._check_epoch(value)
        except BadRecord as bad:
            RECORDS.labels("bad").inc()
            self._reject(record, bad)
            return False
        taken = self._agent.take_wish(value)
        RECORDS.labels(taken).inc()
        await self._judge(value, taken)
        return True

    def _check_epoch(self, value: Assignment | Release | NodeWish | WishEnd) -> None:
        """One record with a wrong number must not make this agent deaf to its scheduler for ever."""
        try:
            epoch_after(value.epoch, self._agent.epoch, LARGEST_LEAP)
        except ValueError as error:
            raise BadRecord(str(error)) from error

    async def _judge(self, value: Assignment | Release | NodeWish | WishEnd, taken: Taken) -> None:
        """Health says when assignments are refused one after the other: the agent lives, and obeys no scheduler.

        The scheduler is told too, with the highest epoch that was seen, so that its next term begins beyond it.
        """
        if taken is Taken.STALE:
            return
        if taken is Taken.TAKEN:
            self._refused = 0
            self._bus.health.good("assignments")
            return
        if self._agent.reading:
            return  # what an earlier leader wrote still stands on the topic, and is no trouble
        self._refused += 1
        if self._refused >= _DEAF:
            self._bus.health.bad(
                "assignments",
                f"the last {self._refused} were not obeyed: the newest has epoch {value.epoch}, this agent obeys from "
                f"{self._agent.first_epoch} on; or they name another agent (`muster clusters adopt`)",
            )
        if self._refused == _DEAF:
            await self._agent.tell_state()

    def _reject(self, record: Any, bad: BadRecord) -> None:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        _log.warning("a record is no assignment; a dead letter says why", where=where, why=str(bad))
        self._reporter.tell(
            DeadLetter(
                reason=str(bad),
                topic=record.topic,
                partition=record.partition,
                offset=record.offset,
                key=record.key or b"",
                value=record.value or b"",
                headers=tuple(record.headers),
            )
        )
        if bad.workload_id:
            refusal = Refuse(bad.workload_id, bad.generation, bad.attempt, RefusalCode.BAD_RECORD, str(bad))
            self._agent.refuse(refusal)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("ascii", "replace")
