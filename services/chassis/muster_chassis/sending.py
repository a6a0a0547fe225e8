"""Sending outbox rows to Kafka and waiting for its answers, each topic for itself. Used by the relay (outbox.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaProducer

from muster_chassis import kafka, tracing
from muster_chassis.codec import encode_headers
from muster_chassis.signatures import RecordSigner
from muster_chassis.waiting_topics import TOPIC_TROUBLE, TopicsFailed

_TOPIC_SECONDS: Final = 5.0  # within which Kafka acknowledges a pass of one topic, else that topic waits
COLUMNS: Final = "id, event_id::text, topic, aggregate, version, key, type, headers, value, trace, created"
"""Of the outbox: what a Sender needs of a row."""
Offset = tuple[str, int, int]
"""(topic, partition, offset) of a record that Kafka has acknowledged."""


class Sender:
    """Sends the rows of one lane.

    source: the ce_source of its records. signer: signs each; None: readers ask for no signature. whole: what is sent is
    one transaction of Kafka, so that where one topic fails nothing of the others counts.
    """

    def __init__(self, source: str, signer: RecordSigner | None, *, whole: bool) -> None:
        self._source = source
        self._signer = signer
        self._whole = whole

    async def send(self, producer: AIOKafkaProducer, rows: Sequence[Any]) -> list[Offset]:
        """Sends rows and waits for Kafka: where they are now. Raises TopicsFailed for the topics that fail."""
        by_topic: dict[str, list[Any]] = {}
        for row in rows:
            by_topic.setdefault(row["topic"], []).append(row)
        offsets: list[Offset] = []
        answers = await asyncio.gather(*(self._send_topic(producer, its, offsets) for its in by_topic.values()))
        failed = {topic: answer for topic, answer in zip(by_topic, answers, strict=True) if answer is not None}
        if failed and self._whole:
            failed = {topic: (by_topic[topic][0]["id"], error) for topic, (_, error) in failed.items()}
        if failed:
            raise TopicsFailed(failed)
        return offsets

    async def _send_topic(
        self, producer: AIOKafkaProducer, rows: Sequence[Any], offsets: list[Offset]
    ) -> tuple[int, Exception] | None:
        """Sends the rows of one topic. Returns None, or the first that Kafka did not acknowledge and why."""
        answers: list[asyncio.Future[Any]] = []
        acknowledged = 0
        try:
            async with asyncio.timeout(_TOPIC_SECONDS):
                for row in rows:
                    answers.append(await self._send_one(producer, row))  # noqa: PERF401 - those before a failure count
                for answer in answers:
                    # Shielded: an answer that comes too late must not be cancelled inside the client.
                    told = await (answer if answer.done() else asyncio.shield(answer))
                    acknowledged += 1
                    offsets.append((told.topic, told.partition, told.offset))
        except TOPIC_TROUBLE as error:
            return rows[acknowledged]["id"], error
        return None

    async def _send_one(self, producer: AIOKafkaProducer, row: Any) -> asyncio.Future[Any]:
        headers = encode_headers(
            event_id=row["event_id"],
            event_type=row["type"],
            source=self._source,
            aggregate=row["aggregate"],
            version=row["version"],
            time=row["created"],
            traceparent=row["trace"],
            extra=msgspec.json.decode(row["headers"]) if row["headers"] else (),
        )
        if self._signer is not None:
            headers += self._signer.headers(row["topic"], row["key"], row["value"], headers)
        with tracing.span(f"publish {row['topic']}", row["trace"]) if tracing.recording() else nullcontext():
            answer: asyncio.Future[Any] = await producer.send(row["topic"], row["value"], row["key"], headers=headers)
        answer.add_done_callback(kafka.seen)
        return answer
