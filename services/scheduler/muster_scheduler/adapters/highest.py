"""The highest epoch on the assignment topics: what a takeover has to exceed.

Read before every takeover from the end of every topic, committed records only. A database that was restored from an
older copy would otherwise lead under an epoch that agents have already seen.
Epochs grow along a topic: a leader writes in the order of its outbox, and a takeover waits for the transactions of the
leader before it. So the last genuine records say it, and what a takeover reads does not depend on a topic's history.
Holds: no record keeps a scheduler from leading. What is not ours, or names an epoch that no takeover leads to, counts
for nothing here; the cluster's agent, which reads the same topic, writes its dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from google.protobuf.message import DecodeError

from muster.fleet.v1 import fleet_pb2
from muster_chassis import kafka, logs
from muster_chassis.broker import Broker
from muster_chassis.kafka import KAFKA_TROUBLE
from muster_chassis.numbers import LARGEST_EPOCH, LEAP, epoch_after, number
from muster_chassis.signatures import BadSignature, RecordVerifier

SOURCE: Final = b"scheduler"
"""The ce_source of every record on an assignments topic."""
_log = logs.get(__name__)
_SECONDS: Final = 8.0
_POLL_MS: Final = 200
_TAIL: Final = 100  # offsets that are read first: a few records and the markers of their transactions
_GROWTH: Final = 20


async def highest_epoch(
    broker: Broker, topics: Sequence[str], verifier: RecordVerifier, *, client: str, last: int = 0
) -> int:
    """The highest epoch on `topics`; 0 where there is none. Raises TimeoutError where Kafka does not answer in time.

    verifier: a record that it refuses counts for nothing. last: the database's own epoch; what lies further beyond it
    than any takeover leads is ignored.
    """
    if not topics:
        return 0
    try:
        async with asyncio.timeout(_SECONDS):
            return await _read(broker, topics, verifier, client, last)
    except KAFKA_TROUBLE as error:
        raise TimeoutError(f"the assignment topics could not be read: {error!r}") from error


async def _read(broker: Broker, topics: Sequence[str], verifier: RecordVerifier, client: str, last: int) -> int:
    consumer = kafka.consumer(broker, client=f"{client}-epochs", committed_only=True)
    await consumer.start()
    try:
        there = await kafka.partitions_of(broker, topics, client=f"{client}-epochs")
        partitions = [TopicPartition(name, number) for name, count in there.items() for number in range(count)]
        if not partitions:
            return 0
        consumer.assign(partitions)
        firsts, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        unknown = {tp: _Stretch(firsts[tp], end, end) for tp, end in ends.items() if end > firsts[tp]}
        highest = 0
        while unknown:
            # Offsets may be missing where records were compacted, and the last ones may be forged: then more is read.
            unknown = {tp: stretch.before() for tp, stretch in unknown.items()}
            found = await _read_stretches(consumer, unknown, verifier, last)
            highest = max([highest, *found.values()])
            unknown = {tp: stretch for tp, stretch in unknown.items() if not found[tp] and not stretch.is_first}
        return highest
    finally:
        await kafka.stop(consumer)


class _Stretch(NamedTuple):
    """Offsets of one partition, from `begin` to below `end`. first: the partition's first offset."""

    first: int
    begin: int
    end: int

    @property
    def is_first(self) -> bool:
        """Whether nothing is before it."""
        return self.begin <= self.first

    def before(self) -> _Stretch:
        """The offsets before it, more than it has."""
        length = max(_TAIL, _GROWTH * (self.end - self.begin))
        return _Stretch(self.first, max(self.first, self.begin - length), self.begin)


async def _read_stretches(
    consumer: AIOKafkaConsumer, stretches: Mapping[TopicPartition, _Stretch], verifier: RecordVerifier, last: int
) -> dict[TopicPartition, int]:
    """The highest epoch in each stretch; 0 where it has no record of ours."""
    others = consumer.assignment() - stretches.keys()
    if others:
        consumer.pause(*others)
    for partition, stretch in stretches.items():
        consumer.seek(partition, stretch.begin)
    highest = dict.fromkeys(stretches, 0)
    while any([await consumer.position(tp) < stretch.end for tp, stretch in stretches.items()]):
        for partition, records in (await consumer.getmany(timeout_ms=_POLL_MS)).items():
            for record in records:
                if partition not in stretches or record.offset >= stretches[partition].end:
                    break  # read already, from behind
                epoch = _epoch(record, last)
                # Only what would raise the answer is verified: a term's first record, and forgeries.
                if epoch > highest[partition] and _genuine(record, verifier):
                    highest[partition] = epoch
    return highest


def _genuine(record: Any, verifier: RecordVerifier) -> bool:
    """Whether the scheduler signed the record; a word in the log where it did not."""
    try:
        verifier.verify(record.topic, record.key or b"", record.value, dict(record.headers))
    except BadSignature as error:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        _log.warning("a record on an assignments topic is not ours; its epoch is ignored", where=where, why=str(error))
        return False
    return True


def _epoch(record: Any, last: int) -> int:
    """The epoch of one record; 0, with a word in the log, for what no scheduler of ours wrote."""
    headers = dict(record.headers)
    try:
        if headers.get("ce_source") != SOURCE:
            raise ValueError(f"its source is {headers.get('ce_source', b'')[:80]!r}: expected {SOURCE!r}")
        if record.value is None:
            epoch = number(headers.get("epoch"), LARGEST_EPOCH, "epoch")
        else:
            epoch = fleet_pb2.Assignment.FromString(record.value).epoch
        return epoch_after(epoch, last, LEAP)
    except (DecodeError, ValueError) as error:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        _log.warning("a record on an assignments topic is not ours; its epoch is ignored", where=where, why=str(error))
        return 0
