"""A3: Kafka used by those who should not: no login, a wrong password, another cluster's agent, a program outside."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from muster.fleet.v1 import fleet_pb2
from muster_chassis.topics import assignments, named, reports
from muster_kernel.ids import uuid7
from muster_stack.bus.identities import ADMIN, Identities, Identity, client_options
from muster_stack.errors import StackError
from muster_stack.keeper.control import Stack
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

Options = Mapping[str, str]
_SECONDS: Final = 4.0
_OUTSIDER: Final = "attacker"


def _login(stage: Stage, name: str) -> Options:
    return client_options(stage.bootstrap, Identities(stage.layout.bus_identities).of(name))


def _clusters(stage: Stage) -> list[str]:
    names = Identities(stage.layout.bus_identities).all()
    return [name.removeprefix("agent-") for name in names if name.startswith("agent-")]


def _command() -> tuple[str, bytes]:
    """The key and value of an Assignment that no scheduler wrote."""
    workload = uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))
    return workload, fleet_pb2.Assignment(workload_id=workload, epoch=1, project="attack").SerializeToString()


async def _write(options: Options, topic: str, value: bytes, key: str = "attack") -> str:
    """Tries to write one record; why it was not written, or an empty text."""
    producer = AIOKafkaProducer(**options, request_timeout_ms=int(_SECONDS * 1000))
    try:
        async with asyncio.timeout(_SECONDS):
            await producer.start()
            await producer.send_and_wait(topic, value, key=key.encode(), partition=0)
    except (KafkaError, TimeoutError) as error:
        return type(error).__name__
    finally:
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(producer.stop(), _SECONDS)
    return ""


async def _read(options: Options, topic: str) -> tuple[list[bytes], str]:
    """What can be read from the beginning of a topic's partitions, and why nothing could be."""
    consumer = AIOKafkaConsumer(**options, request_timeout_ms=int(_SECONDS * 1000), enable_auto_commit=False)
    found: list[bytes] = []
    try:
        async with asyncio.timeout(_SECONDS):
            await consumer.start()
            partitions = [TopicPartition(topic, number) for number in range(named(topic).partitions)]
            consumer.assign(partitions)
            for tp in partitions:
                consumer.seek(tp, 0)
            for _ in range(3):
                for records in (await consumer.getmany(timeout_ms=700)).values():
                    found += [record.value or b"" for record in records]
    except (KafkaError, TimeoutError) as error:
        return found, type(error).__name__
    finally:
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(consumer.stop(), _SECONDS)
    return found, "no records came"


@contextmanager
def _quietly() -> Iterator[None]:
    """Aiokafka logs every refused login of an attacker as an error."""
    log = logging.getLogger("aiokafka")
    before, log.level = log.level, logging.CRITICAL
    try:
        yield
    finally:
        log.level = before


async def _may_not_write(stage: Stage, who: str, options: Options, topic: str, value: bytes, key: str = "a") -> Verdict:
    """Judged by what is on the topic afterwards, read by the stack's own identity."""
    with _quietly():
        why = await _write(options, topic, value, key)
        there, _ = await _read(_login(stage, ADMIN) if _guarded(stage) else options, topic)
    if value in there:
        return broken(f"{who} wrote {topic}")
    return held(f"{who} could not write {topic}: {why or 'the record is not there'}")


async def _may_not_read(stage: Stage, who: str, options: Options, topic: str) -> Verdict:
    with _quietly():
        found, why = await _read(options, topic)
        there, _ = await _read(_login(stage, ADMIN) if _guarded(stage) else options, topic)
    if found:
        return broken(f"{who} read {len(found)} records of {topic}")
    return held(f"{who} read none of the {len(there)} records of {topic}: {why}")


def _guarded(stage: Stage) -> bool:
    return Identities(stage.layout.bus_identities).file(ADMIN).exists()


async def _stranger_commands(stage: Stage) -> Verdict:
    cluster = _clusters(stage)[0] if _guarded(stage) else "north"
    key, value = _command()
    options = {"bootstrap_servers": stage.bootstrap}
    return await _may_not_write(stage, "a process without a login", options, assignments(cluster).name, value, key)


async def _stranger_reads(stage: Stage) -> Verdict:
    options = {"bootstrap_servers": stage.bootstrap}
    return await _may_not_read(stage, "a process without a login", options, "muster.submissions")


async def _guesses(stage: Stage) -> Verdict:
    options = client_options(stage.bootstrap, Identity("scheduler", "scheduler"))
    return await _may_not_read(stage, "a guessed password", options, "muster.submissions")


async def _agent_reads_others(stage: Stage) -> Verdict:
    mine, theirs = _clusters(stage)[:2]
    return await _may_not_read(stage, f"the agent of {mine}", _login(stage, f"agent-{mine}"), assignments(theirs).name)


async def _agent_reads_specs(stage: Stage) -> Verdict:
    mine = _clusters(stage)[0]
    return await _may_not_read(stage, f"the agent of {mine}", _login(stage, f"agent-{mine}"), "muster.submissions")


async def _agent_reports_for_others(stage: Stage) -> Verdict:
    mine, theirs = _clusters(stage)[:2]
    value = b"attack " + secrets.token_bytes(8)
    who = f"the agent of {mine}"
    return await _may_not_write(stage, who, _login(stage, f"agent-{mine}"), reports(theirs).name, value)


async def _agent_commands_itself(stage: Stage) -> Verdict:
    mine = _clusters(stage)[0]
    key, value = _command()
    topic = assignments(mine).name
    return await _may_not_write(stage, f"the agent of {mine}", _login(stage, f"agent-{mine}"), topic, value, key)


async def _outsider_decides(stage: Stage) -> Verdict:
    name = f"producer-{_OUTSIDER}"
    if not Identities(stage.layout.bus_identities).file(name).exists():
        try:
            await asyncio.to_thread(Stack(stage.layout).grant_producer, "muster.triggers", _OUTSIDER)
        except StackError as error:
            return broken(f"no identity for a program outside: {error}")
    value = b"attack " + secrets.token_bytes(8)
    return await _may_not_write(stage, "a program outside", _login(stage, name), "muster.decisions", value)


OPEN: Final = "tests/rules/test_attacks_bus.py::test_a_kafka_without_logins_is_everyones"
GUESSED: Final = "tests/rules/test_attacks_bus.py::test_a_password_that_can_be_guessed_is_guessed"
UNRULED: Final = "tests/rules/test_attacks_bus.py::test_without_access_rules_every_login_reaches_everything"
ATTACKS: Final = (
    Attack("A3", "bus-stranger-commands-a-cluster", Actor.LOOPBACK, _stranger_commands, OPEN),
    Attack("A3", "bus-stranger-reads-submissions", Actor.LOOPBACK, _stranger_reads, OPEN),
    Attack("A3", "bus-guessed-password", Actor.LOOPBACK, _guesses, GUESSED),
    Attack("A3", "bus-agent-reads-another-cluster", Actor.LOOPBACK, _agent_reads_others, UNRULED),
    Attack("A3", "bus-agent-reads-submissions", Actor.LOOPBACK, _agent_reads_specs, UNRULED),
    Attack("A3", "bus-agent-reports-for-another-cluster", Actor.LOOPBACK, _agent_reports_for_others, UNRULED),
    Attack("A3", "bus-agent-writes-its-own-assignments", Actor.LOOPBACK, _agent_commands_itself, UNRULED),
    Attack("A3", "bus-outsider-writes-decisions", Actor.LOOPBACK, _outsider_decides, UNRULED),
)
