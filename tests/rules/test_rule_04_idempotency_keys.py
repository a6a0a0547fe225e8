"""Rule 4: a mutating call is done once for (caller, method, key), however often and however concurrently it is sent.

Taken out here: the key's row (a repeated call and a concurrent twin are done again), and the comparison of bodies (a
different request gets the first one's answer).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.api.v1.dead_letters_pb2 import ResumeConsumerRequest, ResumeConsumerResponse
from muster_chassis.database import Database
from muster_chassis.errors import AlreadyExists, InvalidArgument
from muster_chassis.rpc import Caller, idempotency, once, set_caller
from muster_chassis.unit import Unit
from tests.support.stations import opened

_ALWAYS_NEW = "SELECT true WHERE ($1::text, $2::text, $3::text, $4::bytea, $5::timestamptz, $6::interval) IS NOT NULL"


class _Work:
    """Counts how often it was done."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.done = 0
        self.fail = False
        self._seconds = seconds

    async def __call__(self, unit: Unit) -> ResumeConsumerResponse:
        await unit.connection.execute("SELECT pg_sleep($1)", self._seconds)
        if self.fail:
            raise InvalidArgument("no")
        self.done += 1
        return ResumeConsumerResponse(topics=[f"answer {self.done}"])


async def _call(here: Database, work: _Work, topic: str = "t", key: str = "k") -> str:
    request = ResumeConsumerRequest(topic=topic, idempotency_key=key)
    return (await once(here, "ResumeConsumer", request, ResumeConsumerResponse, work)).topics[0]


async def _twins(database: Any) -> tuple[int, set[str]]:
    async with opened(database.url("policy")) as here:
        work = _Work(seconds=0.2)
        answers = await asyncio.gather(*(_call(here, work) for _ in range(3)))
        answers.append(await _call(here, work))
        return work.done, set(answers)


async def test_a_twin_waits_and_gets_the_first_answer(database: Any) -> None:
    assert await _twins(database) == (1, {"answer 1"})


async def test_without_the_row_every_twin_is_done(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_TAKE", _ALWAYS_NEW)
    done, answers = await _twins(database)
    assert done == 4
    assert len(answers) > 1


async def test_another_body_under_the_same_key_is_refused(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = _Work()
        await _call(here, work, "one")
        with pytest.raises(AlreadyExists, match="another request"):
            await _call(here, work, "two")
        assert work.done == 1


async def test_without_the_comparison_it_gets_an_answer_to_another_question(
    database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "bytes_of", lambda _request: b"same")
    async with opened(database.url("policy")) as here:
        work = _Work()
        assert await _call(here, work, "one") == await _call(here, work, "two")


async def test_a_failure_is_not_kept(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = _Work()
        work.fail = True
        with pytest.raises(InvalidArgument):
            await _call(here, work)
        work.fail = False
        assert await _call(here, work) == "answer 1"


async def test_callers_and_methods_have_keys_of_their_own(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = _Work()
        first = await _call(here, work)

        async def as_someone_else() -> str:
            set_caller(Caller("berta"))
            return await _call(here, work)

        assert first != await asyncio.create_task(as_someone_else())


async def test_after_24_hours_the_key_is_free_again(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = _Work()
        await _call(here, work, "one")
        await here.pool.execute("UPDATE idempotency SET at = $1", datetime.now(UTC) - timedelta(hours=25))
        assert await _call(here, work, "two") == "answer 2"


async def test_a_key_is_asked_for(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        with pytest.raises(InvalidArgument, match="missing"):
            await _call(here, _Work(), key="")
