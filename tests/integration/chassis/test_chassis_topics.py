"""Topics on a real Kafka: made as the catalogue has them, and corrected where they differ."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from muster_chassis import topic_admin
from muster_chassis.broker import Broker, Security
from muster_chassis.settings import Settings
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import COMPACTED_SEGMENT_MS, SUBMISSIONS, assignments
from tests.support.waiting import eventually

EAST = assignments("east")
WEEK = timedelta(days=7)


async def _configured(bootstrap: str, name: str) -> dict[str, str]:
    """The configuration of a topic, once the broker knows it: for a moment a new one is unknown."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()

    async def asked() -> dict[str, str]:
        answers: list[Any] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        return {entry[0]: entry[1] for entry in answers[0].resources[0][4]}

    try:
        return await eventually(asked)
    finally:
        await admin.close()


async def _made_otherwise(bootstrap: str, name: str, config: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 1, 1, topic_configs=config)])
    finally:
        await admin.close()


async def test_a_compacted_topic_is_compacted_while_it_is_small(kafka: str) -> None:
    await create_topics(Broker(kafka), [EAST], client="test")
    found = await _configured(kafka, EAST.name)
    assert found["cleanup.policy"] == "compact"
    assert found["segment.ms"] == str(COMPACTED_SEGMENT_MS)
    assert found["min.cleanable.dirty.ratio"] == "0.3"


async def test_what_differs_is_corrected_and_what_an_operator_added_stays(kafka: str) -> None:
    await _made_otherwise(kafka, SUBMISSIONS.name, {"retention.ms": "1000", "flush.messages": "7"})
    await create_topics(Broker(kafka), [SUBMISSIONS, EAST], client="test")
    found = await _configured(kafka, SUBMISSIONS.name)
    wanted = SUBMISSIONS.config(1, WEEK)
    assert {name: found[name] for name in wanted} == wanted
    assert found["flush.messages"] == "7"


async def test_a_topic_of_one_replica_takes_records_where_more_are_wanted(kafka: str) -> None:
    await create_topics(Broker(kafka, replication=3), [EAST], client="test")
    assert (await _configured(kafka, EAST.name))["min.insync.replicas"] == "1"


class _Admin:
    """The admin of a Kafka with a number of brokers. It notes the topics that it makes."""

    def __init__(self, brokers: int) -> None:
        self._client = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: set(range(brokers))))
        self.made: list[NewTopic] = []

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def create_topics(self, topics: list[NewTopic]) -> Any:
        self.made += topics
        return SimpleNamespace(topic_errors=[(topic.name, 0, None) for topic in topics])


@pytest.mark.parametrize(
    ("wanted", "brokers", "replicas", "in_sync"),
    [(3, 5, 3, "2"), (3, 3, 3, "2"), (3, 2, 2, "1"), (3, 1, 1, "1"), (3, 0, 1, "1"), (2, 3, 2, "1"), (5, 5, 5, "4")],
)
async def test_a_topic_gets_the_replicas_of_the_setting_as_far_as_there_are_brokers(
    monkeypatch: pytest.MonkeyPatch, wanted: int, brokers: int, replicas: int, in_sync: str
) -> None:
    admin = _Admin(brokers)
    monkeypatch.setattr(topic_admin, "AIOKafkaAdminClient", lambda **_: admin)
    monkeypatch.setenv("MUSTER_KAFKA_REPLICATION", str(wanted))
    given = Settings(
        instance="t", kafka_bootstrap="k:1", kafka_security=Security.PLAINTEXT, metrics_listen="127.0.0.1:0"
    )
    await create_topics(given.broker, [SUBMISSIONS, EAST], client="test")
    assert [(made.name, made.replication_factor) for made in admin.made] == [
        (SUBMISSIONS.name, replicas),
        (EAST.name, replicas),
    ]
    assert {made.topic_configs["min.insync.replicas"] for made in admin.made} == {in_sync}


def test_all_but_one_replica_have_to_have_a_record() -> None:
    assert [EAST.config(replicas, WEEK)["min.insync.replicas"] for replicas in (1, 2, 3, 5)] == ["1", "1", "2", "4"]


def test_records_stay_for_the_retention_and_tombstones_for_a_day_at_most() -> None:
    plain, compacted = SUBMISSIONS.config(1, WEEK), EAST.config(1, WEEK)
    assert (plain["retention.ms"], plain["segment.ms"]) == ("604800000", "86400000")
    assert (compacted["delete.retention.ms"], compacted["segment.ms"]) == ("86400000", "600000")
    short = EAST.config(1, timedelta(minutes=5))
    assert (short["delete.retention.ms"], short["segment.ms"]) == ("300000", "300000")
