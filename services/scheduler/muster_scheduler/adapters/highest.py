"""The highest epoch on the assignment topics: what a takeover has to exceed.

Read before every takeover, to the end of every topic, committed records only. A database that was restored from an
older copy would otherwise lead under an epoch that agents have already seen.
Holds: no record keeps a scheduler from leading. What is not ours, or names an epoch that no takeover leads to, counts
for nothing here; the cluster's agent, which reads the same topic, writes its dead letter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import TopicPartition
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
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        highest = 0
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    epoch = _epoch(record, last)
                    # Only what would raise the answer is verified: a term's first record, and forgeries.
                    if epoch > highest and _genuine(record, verifier):
                        highest = epoch
        return highest
    finally:
        await kafka.stop(consumer)


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
