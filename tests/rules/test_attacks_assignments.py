"""Rule 6: an agent obeys records that the scheduler signed and no others, even if others can write to its topic.

Taken out here: the verification of signatures. Then each forgery of the attacks reaches the agent as an assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from muster_chassis.health import Health
from muster_chassis.signatures import RecordVerifier
from muster_chassis.topics import assignments
from muster_cluster_agent.adapters.local.support import LOCAL
from muster_cluster_agent.domain.model import Assignment, Release
from muster_cluster_agent.handlers.agent import Agent, Taken
from muster_cluster_agent.ports import DeadLetter
from muster_cluster_agent.stream import Assignments
from muster_stack.layout import Layout
from tests.attacks.rows.a05_assignments import FORGERIES, Forged
from tests.support import identities
from tests.support.agent_loops import Told
from tests.support.backends import FakeBackend

TOPIC = assignments("alpha").name
Forge = Callable[[Layout, Path], Forged]


class Obeying(Agent):
    """An agent that records its orders."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.orders: list[Assignment | Release] = []

    def take(self, record: Assignment | Release, traceparent: str | None = None) -> Taken:
        self.orders.append(record)
        return super().take(record, traceparent)


class Topic:
    """A consumer of one partition."""

    def __init__(self, records: Sequence[Any]) -> None:
        self.records = records
        self.at = 0

    async def position(self, _partition: Any) -> int:
        return self.at

    async def seek_to_beginning(self, *_partitions: Any) -> None:
        self.at = 0

    def seek(self, _partition: Any, offset: int) -> None:
        self.at = offset

    async def getmany(self, partition: Any, **_options: Any) -> dict[Any, Sequence[Any]]:
        found, self.at = self.records[self.at :], len(self.records)
        return {partition: found}


def _record(offset: int, forged: Forged) -> Any:
    return SimpleNamespace(
        key=forged.key.encode(),
        value=forged.value,
        headers=forged.headers,
        topic=TOPIC,
        partition=0,
        offset=offset,
        timestamp=0,
    )


def _loop() -> tuple[Assignments, Obeying, Told]:
    backend, told = FakeBackend(), Told()
    agent = Obeying(backend, told, "me", epoch=3)

    async def keep(_epoch: int) -> None:
        return

    bus = cast("Any", SimpleNamespace(health=Health(grace=0.0)))
    return Assignments(bus, "alpha", agent, backend, told, keep, identities.verifier(), LOCAL), agent, told


async def _obeyed(forge: Forge, folder: Path) -> tuple[Obeying, Told]:
    loop, agent, told = _loop()
    agent.caught_up()
    await loop._take(_record(0, forge(identities.layout(), folder / "mark")), {})
    return agent, told


@pytest.mark.parametrize("forge", FORGERIES)
async def test_a_forged_assignment_is_a_dead_letter(forge: Forge, tmp_path: Path) -> None:
    agent, told = await _obeyed(forge, tmp_path)
    assert agent.orders == []
    assert agent.epoch == 3
    assert len(told.of(DeadLetter)) == 1


@pytest.mark.parametrize("forge", FORGERIES)
async def test_without_the_signature_a_forged_assignment_runs(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordVerifier, "verify", lambda *_given: None)
    agent, _ = await _obeyed(forge, tmp_path)
    assert [type(one) for one in agent.orders] == [Assignment]


def _genuine(number: int, forged: Forged) -> Forged:
    headers = identities.signed(TOPIC, forged.key, forged.value, [("ce_source", b"scheduler")])
    return Forged(forged.key, forged.value, headers)


async def test_of_a_long_topic_only_the_newest_record_of_each_key_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[bytes] = []
    verify = RecordVerifier.verify

    def counted(self: RecordVerifier, topic: str, key: bytes, value: bytes | None, headers: Any) -> None:
        verified.append(key)
        verify(self, topic, key, value, headers)

    monkeypatch.setattr(RecordVerifier, "verify", counted)
    kept = _genuine(0, FORGERIES[0](identities.layout(), tmp_path / "a"))
    loop, agent, _ = _loop()
    topic = Topic([_record(offset, kept) for offset in range(50)])
    await loop._catch_up(cast("Any", topic), 50)
    assert len(verified) == 1
    assert len(agent.orders) == 1


async def test_a_forgery_does_not_hide_the_genuine_record_before_it(tmp_path: Path) -> None:
    genuine = _genuine(0, FORGERIES[0](identities.layout(), tmp_path / "a"))
    forged = Forged(genuine.key, genuine.value, [("ce_source", b"scheduler")])
    loop, agent, told = _loop()
    topic = Topic([_record(0, genuine), _record(1, forged)])
    await loop._catch_up(cast("Any", topic), 2)
    assert [type(one) for one in agent.orders] == [Assignment]
    assert len(told.of(DeadLetter)) == 1


async def test_what_is_written_while_a_forgery_is_looked_through_is_read(tmp_path: Path) -> None:
    genuine = _genuine(0, FORGERIES[0](identities.layout(), tmp_path / "a"))
    forged = Forged(genuine.key, genuine.value, [("ce_source", b"scheduler")])
    loop, *_ = _loop()
    topic = Topic([_record(0, genuine), _record(1, forged)])
    again = topic.seek_to_beginning

    async def written_meanwhile(*partitions: Any) -> None:
        topic.records = [*topic.records, _record(2, genuine)]
        await again(*partitions)

    topic.seek_to_beginning = written_meanwhile  # type: ignore[method-assign]
    await loop._catch_up(cast("Any", topic), 2)
    assert topic.at == 2, "the next poll would pass the third record by"
