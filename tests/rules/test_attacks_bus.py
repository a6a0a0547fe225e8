"""The attacks on Kafka: each is held, and works once logins, passwords or access rules are taken out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from muster_chassis.acls import Acl, Operation, Pattern, Resource
from muster_chassis.broker import Broker, Security
from muster_chassis.topic_admin import create_topics
from muster_chassis.topics import DECISIONS, SUBMISSIONS, assignments, reports
from muster_scheduler import app
from muster_stack.bus.access import Access
from muster_stack.bus.identities import Identity, write_private
from muster_stack.embedded import EmbeddedKafka
from muster_stack.fixtures import TestDatabase
from tests.attacks.rows import a3_bus, a6_epochs
from tests.attacks.stage import Stage
from tests.integration.scheduler.test_leading import register
from tests.support.scheduling import neighbours, scheduler
from tests.support.waiting import until

_CLUSTERS = ("north", "south")
_TOPICS = (SUBMISSIONS, DECISIONS, *(make(cluster) for cluster in _CLUSTERS for make in (assignments, reports)))


class _Unruled(Access):
    """Every user that logs in may do everything."""

    def rules(self) -> set[Acl]:
        everything = (Operation.READ, Operation.WRITE)
        return {
            Acl(name, Resource.TOPIC, "*", Pattern.LITERAL, operation)
            for name in self.identities.all()
            for operation in everything
        }


class _Guessable(Access):
    """Passwords that are as long as a person's patience."""

    def ensure(self) -> None:
        super().ensure()
        self.identities.put("scheduler", Identity("scheduler", "scheduler"))


@contextmanager
def _kafka(kind: type[Access] | None) -> Iterator[EmbeddedKafka]:
    guarded = kind is not None
    with EmbeddedKafka(guarded=guarded, clusters=_CLUSTERS, kind=kind or Access) as server:
        if server.access is not None:
            server.access.grant_producer("muster.triggers", "attacker")
            server.settle()
        yield server


async def _fill(server: EmbeddedKafka) -> None:
    """The topics, with one record each: what is empty cannot be read by anybody."""
    options = server.client("admin")
    if server.access is None:
        broker = Broker(server.bootstrap)
    else:
        write_private(server.folder / "admin-password", options["sasl_plain_password"])
        user, file = options["sasl_plain_username"], server.folder / "admin-password"
        broker = Broker(server.bootstrap, Security.SASL_PLAINTEXT, user, file)
    await create_topics(broker, _TOPICS, client="tests")
    async with AIOKafkaProducer(**options) as producer:
        for topic in _TOPICS:
            await producer.send_and_wait(topic.name, b"secret", key=secrets.token_bytes(4), partition=0)


def _stage(server: EmbeddedKafka) -> Stage:
    return Stage(
        folder=str(server.folder),
        grpc="",
        rest="",
        bootstrap=server.bootstrap,
        services={},
        tokens={},
        project="ours",
        other_project="theirs",
    )


async def _held(kind: type[Access] | None, proof: str = "") -> dict[str, bool]:
    """Whether the stack held, by the name of each attack, or of those with that proof."""
    with _kafka(kind) as server:
        await _fill(server)
        stage = _stage(server)
        tried = [attack for attack in a3_bus.ATTACKS if proof in ("", attack.proof)]
        verdicts = await asyncio.gather(*(attack.run(stage) for attack in tried))
        return {attack.name: verdict.held for attack, verdict in zip(tried, verdicts, strict=True)}


async def test_kafka_is_for_its_identities_and_each_reaches_what_the_catalogue_says() -> None:
    outcome = await _held(Access)
    assert outcome == dict.fromkeys(outcome, True)
    assert len(outcome) == len(a3_bus.ATTACKS)


async def test_a_kafka_without_logins_is_everyones() -> None:
    outcome = await _held(None, a3_bus.OPEN)
    assert outcome == dict.fromkeys(outcome, False)
    assert outcome


async def test_without_access_rules_every_login_reaches_everything() -> None:
    outcome = await _held(_Unruled, a3_bus.UNRULED)
    assert outcome == dict.fromkeys(outcome, False)
    assert outcome


async def test_a_password_that_can_be_guessed_is_guessed() -> None:
    assert await _held(_Guessable, a3_bus.GUESSED) == {"bus-guessed-password": False}


# ----------------------------------------------------------------------------------------------------- higher epochs


async def _epochs(kafka: str, database: TestDatabase, tmp_path: Path, proof: str = "") -> dict[str, bool]:
    """Whether the leader stayed, by attack, on a cluster with one running workload."""
    stage = Stage(
        folder=str(tmp_path),
        grpc="",
        rest="",
        bootstrap=kafka,
        services={},
        tokens={},
        project="ours",
        other_project="theirs",
    )
    outcome = {}
    async with neighbours(kafka, "north") as others, scheduler(database.url("scheduler"), kafka) as only:
        await register(only, others)
        workload = await others.admit("victim")
        await until(lambda: others.last_record(workload) is not None)
        for attack in a6_epochs.ATTACKS:
            if proof in ("", attack.proof):
                outcome[attack.name] = (await attack.run(stage)).held
    return outcome


async def test_only_the_bound_agent_makes_a_leader_step_down_and_not_for_any_number(
    kafka: str, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a6_epochs, "PATIENCE", 3.0)
    outcome = await _epochs(kafka, database, tmp_path)
    assert outcome == dict.fromkeys((attack.name for attack in a6_epochs.ATTACKS), True)


async def test_any_instance_deposes_the_leader_where_none_is_bound(
    kafka: str, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "speaks_for", lambda *_: True)
    outcome = await _epochs(kafka, database, tmp_path, a6_epochs.STRANGER)
    assert outcome == {"epoch-from-an-unbound-instance": False}


async def test_any_epoch_deposes_the_leader_where_no_bound_is_set(
    kafka: str, database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LEAP", 2**53)
    outcome = await _epochs(kafka, database, tmp_path, a6_epochs.BEYOND)
    assert outcome == {"epoch-far-beyond-from-the-bound-instance": False}
