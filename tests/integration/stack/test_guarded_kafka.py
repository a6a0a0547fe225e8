"""Users and rules of the stack's Kafka survive what may happen to it: a wipe, a rotation, an old copy, an upgrade."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Iterator

import pytest

from muster_chassis import kafka
from muster_chassis.acls import of_agent
from muster_chassis.broker import Broker, Security
from muster_chassis.bus import Bus, BusLost, MemoryIdentity
from muster_chassis.topics import owned_by
from muster_stack.bus import admin
from muster_stack.bus.access import Access
from muster_stack.bus.identities import ADMIN, OWN, Identities, Identity
from muster_stack.bus.wire import Connection, LoginRefused
from muster_stack.embedded import EmbeddedKafka
from muster_stack.kafka_probe import probe
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(guarded=True, clusters=["north"]) as server:
        yield server


def _port(server: EmbeddedKafka) -> int:
    return int(server.bootstrap.rpartition(":")[2])


def _identity(server: EmbeddedKafka, name: str) -> Identity:
    assert server.access is not None
    return server.access.identities.of(name)


def _connect(server: EmbeddedKafka, identity: Identity) -> Connection:
    return Connection(_port(server), identity, seconds=5)


def _known(server: EmbeddedKafka) -> tuple[set[str], set[str]]:
    """Users, and users with rules."""
    with _connect(server, _identity(server, ADMIN)) as connection:
        return set(admin.users(connection)), {rule.user for rule in admin.acls(connection)}


def _wanted(server: EmbeddedKafka) -> set[str]:
    assert server.access is not None
    return {identity.user for identity in server.access.identities.all().values()}


def test_a_wiped_kafka_knows_every_user_and_rule_before_anything_connects(guarded: EmbeddedKafka) -> None:
    before = guarded.client("policy")
    guarded.wipe()
    users, ruled = _known(guarded)
    assert users == _wanted(guarded)
    assert ruled == {"submission", "policy", "scheduler", "telemetry", "agent-north"}
    assert guarded.client("policy") == before
    assert probe(_port(guarded)) is None, "a client without a login learns who the broker is"


def test_a_cluster_that_comes_later_gets_its_agent_and_loses_it_again(guarded: EmbeddedKafka) -> None:
    assert guarded.access is not None
    name = guarded.access.grant_agent("east")
    guarded.settle()
    with _connect(guarded, _identity(guarded, name)), _connect(guarded, _identity(guarded, ADMIN)) as connection:
        assert admin.acls(connection) >= set(of_agent("east"))
    gone = _identity(guarded, name)
    guarded.access.revoke(name)
    guarded.settle()
    with pytest.raises(LoginRefused):
        _connect(guarded, gone)
    assert name not in _known(guarded)[1]


def test_after_a_rotation_old_passwords_and_old_connections_are_worth_nothing(guarded: EmbeddedKafka) -> None:
    old = {name: _identity(guarded, name) for name in ("policy", "agent-north", ADMIN, "broker")}
    with _connect(guarded, old["policy"]) as still_open:
        names = guarded.rotate()
        with pytest.raises(OSError, match=r"closed|reset|Broken"):
            admin.users(still_open)
    assert set(names) == {"broker", ADMIN, "submission", "policy", "scheduler", "telemetry", "agent-north"}
    for identity in old.values():
        with pytest.raises(LoginRefused):
            _connect(guarded, identity)
    for name in old:
        assert probe(_port(guarded), _identity(guarded, name)) is not None
    assert _wanted(guarded) <= _known(guarded)[0]


def test_no_user_is_ever_removed_since_kafka_may_forget_all_others_at_its_next_start(guarded: EmbeddedKafka) -> None:
    before = _known(guarded)[0]
    for _ in range(2):
        guarded.rotate()
        guarded.settle()
        assert before <= _known(guarded)[0], "a removal is read again at each start"
    assert len(_known(guarded)[0]) <= len(before) + len(OWN), "they take turns"


async def _rotated_within_a_session(server: EmbeddedKafka, bus: Bus) -> None:
    async with bus.session():
        await asyncio.to_thread(server.rotate)
        while True:
            await bus.check()
            await asyncio.sleep(0.05)


async def test_a_process_connects_again_once_its_password_was_replaced(guarded: EmbeddedKafka) -> None:
    assert guarded.access is not None
    file = guarded.access.identities.file("policy")
    broker = Broker(guarded.bootstrap, Security.SASL_PLAINTEXT, "policy", file)
    bus = Bus(broker, client="t", identity=MemoryIdentity(), owned=owned_by("policy"))
    before = await bus.open()
    with pytest.raises(BusLost):
        await _rotated_within_a_session(guarded, bus)
    await eventually(bus.check)
    async with bus.session() as session:
        assert session.cluster_id == before
        producer = kafka.producer(broker, client="t")
        await producer.start()
        await producer.send_and_wait("muster.admissions", b"x")
        await kafka.stop(producer)
    await bus.close()


def test_a_kafka_from_before_a_rotation_begins_again_and_takes_the_new_passwords(guarded: EmbeddedKafka) -> None:
    broker = probe(_port(guarded), _identity(guarded, ADMIN))
    guarded.stop()
    log, copy = guarded.folder / "kafka" / "log", guarded.folder / f"copy-{uuid.uuid4().hex}"
    shutil.copytree(log, copy)
    guarded.start()
    guarded.rotate()
    guarded.stop()
    shutil.rmtree(log)
    copy.rename(log)
    after = guarded.start()
    assert broker is not None
    assert after.cluster_id != broker.cluster_id
    assert _wanted(guarded) <= _known(guarded)[0]


def test_a_folder_without_logins_is_taken_over() -> None:
    with EmbeddedKafka() as server:
        before = probe(_port(server))
        server.stop()
        server.guard(Access(Identities(server.layout.bus_identities), ["north"]))
        after = server.start()
        assert before is not None
        assert after.cluster_id != before.cluster_id
        assert _wanted(server) <= _known(server)[0]
