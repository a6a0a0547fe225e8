"""The highest epoch on the assignment topics, which a takeover has to exceed.

It is read before every takeover from the end of every topic, committed records only. Otherwise a scheduler with a
database that was restored from an older copy would lead under an epoch that agents have already seen.
Epochs grow along a topic: a leader writes in the order of its outbox, and a takeover waits for the transactions of the
previous leader. So the last genuine records have the highest epoch, and the number of records that a takeover reads
does not depend on the length of a topic.
A topic whose partition is offline is left out: an agent that has seen a higher epoch says so (AssignmentsHeld), and the
leader then begins a term above it.
Holds: no record and no offline partition keeps a scheduler from leading. A record that the scheduler did not write, or
that names an epoch that no takeover leads to, is ignored here; the cluster's agent reads the same topic and writes the
dead letter.
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
from muster_chassis.partitions import extents
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
    """Return the highest epoch on `topics`; 0 if there is none. Raises TimeoutError if Kafka does not answer in time.

    verifier: a record that it refuses is ignored. last: the epoch of the database; an epoch further above it than a
    takeover can lead is ignored.
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
    try:
        await consumer.start()
        there = await kafka.partitions_of(broker, topics, client=f"{client}-epochs")
        partitions = [TopicPartition(name, number) for name, count in there.items() for number in range(count)]
        if not partitions:
            return 0
        known = await extents(consumer, partitions)
        if not known:
            raise TimeoutError("no assignments topic answers")
        if offline := [tp.topic for tp in partitions if tp not in known]:
            _log.warning("assignment topics are offline; their epochs are not compared", topics=offline)
        consumer.assign(list(known))
        unknown = {tp: _Stretch(it.first, it.end, it.end) for tp, it in known.items() if it.end > it.first}
        highest = 0
        while unknown:
            # Compaction removes offsets, and the last records may be forged: then more is read.
            unknown = {tp: stretch.before() for tp, stretch in unknown.items()}
            found = await _read_stretches(consumer, unknown, verifier, last)
            highest = max([highest, *found.values()])
            unknown = {tp: stretch for tp, stretch in unknown.items() if not found[tp] and not stretch.is_first}
        return highest
    finally:
        await kafka.stop(consumer)


class _Stretch(NamedTuple):
    """A range of offsets of one partition, from `begin` to below `end`. first: the partition's first offset."""

    first: int
    begin: int
    end: int

    @property
    def is_first(self) -> bool:
        """True if no offset is before the range."""
        return self.begin <= self.first

    def before(self) -> _Stretch:
        """Return the offsets directly before the range: a longer range."""
        length = max(_TAIL, _GROWTH * (self.end - self.begin))
        return _Stretch(self.first, max(self.first, self.begin - length), self.begin)


async def _read_stretches(
    consumer: AIOKafkaConsumer, stretches: Mapping[TopicPartition, _Stretch], verifier: RecordVerifier, last: int
) -> dict[TopicPartition, int]:
    """Return the highest epoch in each range; 0 if it has no genuine record."""
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
                    break  # already read: reading goes from the end to the beginning
                epoch = _epoch(record, last)
                # Verify only records that would raise the answer: a term's first record, and forgeries.
                if epoch > highest[partition] and _genuine(record, verifier):
                    highest[partition] = epoch
    return highest


def _genuine(record: Any, verifier: RecordVerifier) -> bool:
    """Return whether the scheduler signed the record; log a warning if it did not."""
    try:
        verifier.verify(record.topic, record.key or b"", record.value, dict(record.headers))
    except BadSignature as error:
        where = f"{record.topic}/{record.partition}/{record.offset}"
        _log.warning("a record on an assignments topic is not ours; its epoch is ignored", where=where, why=str(error))
        return False
    return True


def _epoch(record: Any, last: int) -> int:
    """Return the epoch of one record; 0, with a warning in the log, if the scheduler did not write it."""
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
