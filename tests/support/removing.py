"""Removes the records of a topic, as Kafka's retention does once they are old enough."""

from __future__ import annotations

from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from muster_chassis.topics import Topic


async def remove_records(topic: Topic, **options: Any) -> None:
    """Remove all records of a topic. options: how clients of Kafka connect."""
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        partitions = range(topic.partitions)
        await admin.delete_records({TopicPartition(topic.name, number): RecordsToDelete(-1) for number in partitions})
    finally:
        await admin.close()
