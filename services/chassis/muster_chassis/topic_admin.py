"""Create the topics of the catalogue, and correct the configuration of those that exist.

The bus calls it at start and after every change of Kafka's identity. Without `segment.ms` Kafka does not compact a
compacted topic before its segment is 1 GiB or 7 days old, so that each reader reads its whole history.
Holds: settings that an operator has added, and that the catalogue does not name, are kept. A Kafka that refuses
configuration is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError, for_code

from muster_chassis import kafka, logs
from muster_chassis.broker import Broker
from muster_chassis.topics import Topic

_log = logs.get(__name__)
_TOPIC_EXISTS: Final = 36
_REQUEST_MS: Final = 10_000
_OF_THE_TOPIC: Final = 1  # the source of a value that was set for this topic, in answers of DescribeConfigs


async def create_topics(broker: Broker, topics: Iterable[Topic], *, client: str) -> None:
    """Create what is missing of `topics`, and correct the others. Raises one of KAFKA_TROUBLE."""
    wanted = {topic.name: topic for topic in topics}
    if not wanted:
        return
    admin = AIOKafkaAdminClient(**broker.options(), client_id=client, request_timeout_ms=_REQUEST_MS)
    try:
        await admin.start()
        brokers = len(admin._client.cluster.brokers()) or 1  # noqa: SLF001 - there is no public API
        replicas = min(broker.replication, brokers)
        there = await _create(admin, wanted, replicas, broker.retention)
        if there:
            await _correct(admin, there, replicas, broker.retention)
    finally:
        await kafka.stop(admin)


async def _create(
    admin: AIOKafkaAdminClient, wanted: Mapping[str, Topic], replicas: int, retention: timedelta
) -> list[Topic]:
    """Create what is missing; return the topics that existed already."""
    new = [
        NewTopic(each.name, each.partitions, replicas, topic_configs=each.config(replicas, retention))
        for each in wanted.values()
    ]
    answer: Any = await admin.create_topics(new)
    there = []
    for name, code, *message in answer.topic_errors:
        if code == _TOPIC_EXISTS:
            there.append(wanted[name])
        elif code:
            raise for_code(code)(f"topic {name}: {message}")
    return there


async def _correct(admin: AIOKafkaAdminClient, topics: Sequence[Topic], replicas: int, retention: timedelta) -> None:
    """Give topics the configuration of the catalogue, for the number of replicas that each topic has."""
    present = await _replicas(admin, topics)
    warn_of_few(present, replicas)
    wanted = {topic.name: topic.config(present[topic.name], retention) for topic in topics if topic.name in present}
    changed = []
    for name, found in (await _configured(admin, list(wanted))).items():
        of_topic = {key: value for key, (value, source) in found.items() if source == _OF_THE_TOPIC}
        different = {key: value for key, value in wanted[name].items() if found.get(key, ("", 0))[0] != value}
        if different:
            _log.info("a topic is configured as the catalogue has it", topic=name, **different)
            # The request replaces all settings of the topic, so it includes those of the operator.
            changed.append(ConfigResource(ConfigResourceType.TOPIC, name, configs={**of_topic, **wanted[name]}))
    if not changed:
        return
    answers: list[Any] = await admin.alter_configs(changed)
    for answer in answers:
        for code, message, _, name, *_ in answer.resources:
            _judge(code, f"topic {name} cannot be configured: {message}")


async def _replicas(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> dict[str, int]:
    """Return how many replicas each topic has: with fewer than `min.insync.replicas` it would accept no record."""
    described = await admin.describe_topics([topic.name for topic in topics])
    return {
        found["topic"]: min(len(partition["replicas"]) for partition in found["partitions"])
        for found in described
        if found["error_code"] == 0 and found["partitions"]
    }


def warn_of_few(present: Mapping[str, int], replicas: int) -> None:
    """Name the topics that have fewer replicas than new ones would get: Kafka adds none by itself.

    This happens where a service started before all brokers did.
    """
    few = {topic: found for topic, found in sorted(present.items()) if found < replicas}
    if few:
        _log.warning(
            "topics have fewer replicas than MUSTER_KAFKA_REPLICATION: add some with kafka-reassign-partitions.sh",
            wanted=replicas,
            topics=few,
        )


async def _configured(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, tuple[str, int]]]:
    """Return the value and the source of each setting of each topic, without topics that may not be described."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, tuple[str, int]]] = {}
    answers: list[Any] = await admin.describe_configs(resources)
    for answer in answers:
        for code, message, _, name, entries in answer.resources:
            if _judge(code, f"the configuration of topic {name} cannot be read: {message}"):
                found[name] = {key: (value, source) for key, value, _, source, *_ in entries}
    return found


def _judge(code: int, said: str) -> bool:
    """Return whether the request succeeded. If Kafka refuses it, the operator configures topics; nothing waits."""
    if code:
        hint = " (`muster bus acls` lists the access rules)" if code == TopicAuthorizationFailedError.errno else ""
        _log.warning(f"a topic is not configured as the catalogue has it{hint}", why=said, code=code)
    return not code
