"""Kafka as an attacker uses it: logins, one record in, all records out.

Used by the attacks on the bus. On a Kafka without logins (a test of what logins prevent) every login is no login.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from muster_chassis.topics import named
from muster_stack.bus.identities import ADMIN, Identities, client_options
from tests.attacks.stage import Stage

Options = Mapping[str, str]
_SECONDS: Final = 4.0


def login(stage: Stage, name: str) -> Options:
    """How one of the stack's identities connects: its password file was read, say."""
    identities = Identities(stage.layout.bus_identities)
    if not identities.file(ADMIN).exists():
        return {"bootstrap_servers": stage.bootstrap}
    return client_options(stage.bootstrap, identities.of(name))


def agent_login(stage: Stage, cluster: str) -> Options:
    """How the agent of a cluster connects."""
    return login(stage, f"agent-{cluster}")


def judge(stage: Stage) -> Options:
    """How the stack itself connects, to see what an attack did."""
    return login(stage, ADMIN)


def clusters(stage: Stage) -> list[str]:
    """The clusters of the stack."""
    folder = stage.layout.bus_identities
    found = sorted(path.name.removeprefix("agent-") for path in folder.glob("agent-*"))
    return found or ["north"]


async def write(
    options: Options, topic: str, value: bytes, key: str = "attack", headers: Sequence[tuple[str, bytes]] = ()
) -> str:
    """Tries to write one record; why it was not written, or an empty text."""
    producer = AIOKafkaProducer(**options, request_timeout_ms=int(_SECONDS * 1000))
    try:
        async with asyncio.timeout(_SECONDS):
            await producer.start()
            await producer.send_and_wait(topic, value, key=key.encode(), partition=0, headers=list(headers))
    except (KafkaError, TimeoutError) as error:
        return type(error).__name__
    finally:
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(producer.stop(), _SECONDS)
    return ""


async def read(options: Options, topic: str) -> tuple[list[bytes], str]:
    """What can be read of a topic, from its beginning to its present end, and why nothing could be."""
    consumer = AIOKafkaConsumer(**options, request_timeout_ms=int(_SECONDS * 1000), enable_auto_commit=False)
    found: list[bytes] = []
    try:
        async with asyncio.timeout(_SECONDS):
            await consumer.start()
            partitions = [TopicPartition(topic, number) for number in range(named(topic).partitions)]
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            while [tp for tp in partitions if await consumer.position(tp) < ends[tp]]:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.value or b"" for record in records]
    except (KafkaError, TimeoutError) as error:
        return found, type(error).__name__
    finally:
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(consumer.stop(), _SECONDS)
    return found, "no records came"


@contextmanager
def quietly() -> Iterator[None]:
    """Aiokafka logs every refused login of an attacker as an error."""
    log = logging.getLogger("aiokafka")
    before, log.level = log.level, logging.CRITICAL
    try:
        yield
    finally:
        log.level = before
