"""Rule 11, the assignments' part: what nobody of ours wrote keeps no scheduler from leading and makes no agent deaf.

Taken out here: that a record must be ours to count before a takeover (the scheduler cannot lead), and that an epoch
must follow the last one (an agent obeys nobody any more).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from aiokafka import AIOKafkaProducer
from google.protobuf.message import DecodeError

from muster.api.v1 import fleet_pb2 as api
from muster.api.v1 import fleet_pb2_grpc
from muster.events.v1 import agent_pb2, dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from muster_chassis import kafka as client
from muster_chassis.broker import Broker
from muster_chassis.health import Health
from muster_chassis.numbers import LEAP
from muster_chassis.rpc import ServiceName
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import assignments
from muster_cluster_agent import stream
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.app import kept_epoch
from muster_cluster_agent.handlers.agent import Agent
from muster_cluster_agent.ports import DeadLetter
from muster_cluster_agent.stream import Assignments
from muster_scheduler.adapters import highest
from muster_stack.fixtures import TestDatabase
from tests.support.agent_loops import Told
from tests.support.agents import AgentProcess, training, workload_id
from tests.support.agents import scheduler as beside
from tests.support.backends import FakeBackend
from tests.support.identities import channel_to, signed, verifier
from tests.support.scheduling import Candidate, Neighbours, neighbours, scheduler
from tests.support.waiting import eventually, until

OURS = ("ce_source", b"scheduler")
Header = tuple[str, bytes]


def _headers(epoch: str, *more: Header) -> list[Header]:
    return [("epoch", epoch.encode()), ("generation", b"1"), ("attempt", b"1"), *more]


def _value(number: int, epoch: int) -> bytes:
    return fleet_pb2.Assignment(workload_id=workload_id(number), epoch=epoch).SerializeToString()


POISON: tuple[tuple[str, bytes | None, list[Header]], ...] = (
    ("k", b"\xffgarbage", []),
    (workload_id(90), b"\xffgarbage", [OURS]),
    (workload_id(91), _value(91, 2**63 + 5), [OURS]),
    (workload_id(92), _value(92, 2**53 - 1), [OURS]),
    (workload_id(93), None, _headers("9" * 30)),
    (workload_id(94), None, _headers("9" * 30, OURS)),
    (workload_id(95), None, _headers(str(2**53), OURS)),
    (workload_id(96), None, _headers("50")),
)
"""What may stand on an assignments topic though no scheduler wrote it: key, value, headers."""


async def _poison(producer: AIOKafkaProducer, topic: str) -> None:
    for key, value, headers in POISON:
        await producer.send_and_wait(topic, value, key.encode(), headers=signed(topic, key, value, headers))


# ------------------------------------------------------------------------------------------------- before a takeover


async def _floor(kafka: str) -> int:
    """The highest epoch of a topic on which a leader has written 3, and others poison."""
    topic = assignments("west")
    await create_topics(Broker(kafka), [topic], client="test")
    producer = client.producer(Broker(kafka), client="test")
    await producer.start()
    headers = signed(topic.name, workload_id(1), None, _headers("3", OURS))
    try:
        await producer.send_and_wait(topic.name, None, workload_id(1).encode(), headers=headers)
        await _poison(producer, topic.name)
    finally:
        await client.stop(producer)
    return await highest.highest_epoch(Broker(kafka), [topic.name], verifier(), client="test", last=2)


async def test_what_is_not_ours_does_not_count_before_a_takeover(kafka: str) -> None:
    assert await _floor(kafka) == 3


async def test_without_that_one_record_keeps_every_scheduler_from_leading(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(record: Any, _last: int) -> int:
        return int(dict(record.headers)["epoch"]) if record.value is None else _parsed(record.value)

    monkeypatch.setattr(highest, "_epoch", believe)
    with pytest.raises(DecodeError):
        await _floor(kafka)


def _parsed(value: bytes) -> int:
    return fleet_pb2.Assignment.FromString(value).epoch


async def test_a_scheduler_takes_over_on_a_poisoned_topic(kafka: str, database: TestDatabase) -> None:
    url = database.url("scheduler")
    async with neighbours(kafka, "north") as others:
        async with scheduler(url, kafka) as first:
            await _register(first, others)
            early = await others.admit("early")
            await until(lambda: others.last_record(early) is not None)
        await _poison(others._producer, assignments("north").name)
        async with scheduler(url, kafka):
            late = await others.admit("late")
            await until(lambda: others.last_record(late) is not None)
    record = others.last_record(late)
    assert record is not None
    assert 2 <= record.epoch < 100  # a slow machine may lose a lease or two, and no poison is believed


async def test_a_leader_whom_an_agent_has_outrun_begins_a_term_beyond(kafka: str, database: TestDatabase) -> None:
    """An epoch that could be ours and is not: the agent obeys it, and says so."""
    async with neighbours(kafka, "north") as others, scheduler(database.url("scheduler"), kafka) as only:
        await _register(only, others)
        workload = await others.admit("w")

        async def is_beyond() -> bool:
            # An agent tells it again as long as it refuses assignments: the first time it may not be bound yet.
            held = agent_pb2.AssignmentsHeld(order=others.order("north"), highest_epoch=12345)
            await others.report("north", "north", held)
            record = others.last_record(workload)
            return record is not None and record.epoch == 12346

        await eventually(is_beyond, within=30.0, every=0.5)


async def _register(candidate: Candidate, others: Neighbours) -> None:
    await until(lambda: candidate.runtime.health.serving)
    await _registered(cast("Any", candidate.runtime.settings).grpc_listen)
    await others.inventory("north")
    await others.project()


async def _registered(address: str) -> None:
    async with channel_to(ServiceName.SCHEDULER, address) as channel:
        stub = fleet_pb2_grpc.FleetServiceStub(channel)
        while True:
            try:
                await stub.RegisterCluster(api.RegisterClusterRequest(cluster="north", idempotency_key="r"))
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            else:
                return


# ------------------------------------------------------------------------------------------------------ in an agent


async def test_an_agent_goes_on_obeying_on_a_poisoned_topic(kafka: str, tmp_path: Any) -> None:
    agent = AgentProcess(tmp_path, kafka)
    async with beside(kafka) as bus:
        try:
            agent.start()
            await _poison(bus.producer, assignments("local-t").name)
            await bus.assign(training(1, "true"))
            await bus.state(workload_id(1), fleet_pb2.REPLICA_STATE_SUCCEEDED)
            await bus.wait_for(lambda _: _letters(bus.seen) >= len(POISON), within=20)
        finally:
            agent.stop()


def _letters(seen: list[Any]) -> int:
    return sum(isinstance(one, dead_letter_pb2.DeadLettered) for one in seen)


async def _read(*records: tuple[str, bytes | None, list[Header]]) -> tuple[Agent, Told, Health]:
    """An agent that has caught up takes these records."""
    backend, told, health = FakeBackend(), Told(), Health(grace=0.0)

    async def keep(_: int) -> None:
        return None

    agent = Agent(backend, told, "me", epoch=3)
    loop = Assignments(
        cast("Any", SimpleNamespace(health=health)), "west", agent, backend, told, keep, verifier(), LOCAL
    )
    agent.caught_up()
    for offset, (key, value, headers) in enumerate(records):
        record = SimpleNamespace(
            key=key.encode(),
            value=value,
            headers=signed("t", key, value, headers),
            topic="t",
            partition=0,
            offset=offset,
            timestamp=0,
        )
        await loop._take(record, {})
    return agent, told, health


async def test_poison_does_not_raise_an_agents_epoch_and_becomes_dead_letters() -> None:
    agent, told, health = await _read(*POISON)
    assert agent.epoch == 3
    assert len(told.of(DeadLetter)) == len(POISON)
    assert health.serving


async def test_without_the_bound_one_tombstone_makes_it_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "epoch_after", lambda epoch, _last, _leap: epoch)
    agent, _, _ = await _read(*POISON)
    assert agent.epoch == 2**53


async def test_an_agent_that_refuses_one_assignment_after_the_other_says_so() -> None:
    leap = (workload_id(1), None, _headers(str(3 + LEAP), OURS))
    older = (workload_id(2), None, _headers("4", OURS))
    _, told, health = await _read(leap, older, older, older)
    assert "assignments" in health.troubles
    assert any(getattr(one, "highest_epoch", 0) == 3 + LEAP for one in told.reports)
    _, _, health = await _read(leap, older, older, older, leap)
    assert health.serving


@pytest.mark.parametrize(("kept", "begins"), [(7, 7), (2**53, 2**53), (10**30, 0), (-1, 0)])
def test_a_kept_epoch_that_cannot_be_ours_is_forgotten(tmp_path: Path, kept: int, begins: int) -> None:
    with closing(StateFolder(tmp_path)) as state:
        state.keep_number("epoch", kept)
        assert kept_epoch(state) == begins
