"""Calls that come at once share a transaction, and each is still done once for its key and fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from muster.api.v1.dead_letters_pb2 import ResumeConsumerRequest, ResumeConsumerResponse
from muster_chassis.database import Database
from muster_chassis.errors import AlreadyExists, InvalidArgument, ServiceError, Unavailable
from muster_chassis.rpc import Together
from muster_chassis.unit import Unit
from tests.support.stations import opened
from tests.support.waiting import until

Answer = ResumeConsumerResponse


class Work:
    """Answers with the item. `bad` is refused, `odd` breaks the whole group it is in."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []

    async def __call__(self, unit: Unit, items: Sequence[str]) -> Sequence[Answer | ServiceError]:
        self.groups.append(list(items))
        await unit.connection.execute("SELECT pg_sleep(0.05)")
        if "odd" in items:
            raise ValueError("odd")
        return [InvalidArgument("no") if item == "bad" else Answer(topics=[item]) for item in items]


async def call(together: Together[str, Answer], item: str, key: str) -> str:
    return (await together.once(ResumeConsumerRequest(topic=item), item, key=key)).topics[0]


@asynccontextmanager
async def running(database: Any) -> AsyncIterator[tuple[Together[str, Answer], Work, Database]]:
    """A group of its own, with its task."""
    async with opened(database.url("policy")) as here:
        work = Work()
        together = Together(here, "ResumeConsumer", Answer, work)
        task = asyncio.create_task(together.run())
        yield together, work, here
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_calls_that_come_at_once_share_a_transaction(database: Any) -> None:
    async with running(database) as (together, work, here):
        answers = await asyncio.gather(*(call(together, f"i{n}", f"k{n}") for n in range(50)))
        assert answers == [f"i{n}" for n in range(50)]
        assert len(work.groups) <= 3
        assert await here.pool.fetchval("SELECT count(*) FROM commits") <= 3
        assert await call(together, "i7", "k7") == "i7"
        assert sum(len(group) for group in work.groups) == 50


async def test_a_twin_gets_the_first_ones_answer_and_another_body_is_refused(database: Any) -> None:
    async with running(database) as (together, work, _):
        twins = await asyncio.gather(*(call(together, "i", "k") for _ in range(5)))
        assert twins == ["i"] * 5
        assert work.groups == [["i"]]
        with pytest.raises(AlreadyExists, match="another request"):
            await call(together, "j", "k")
        with pytest.raises(InvalidArgument, match="idempotency_key is missing"):
            await call(together, "j", "")


async def test_one_that_fails_leaves_no_trace_and_takes_no_other_with_it(database: Any) -> None:
    async with running(database) as (together, work, here):
        items = ["a", "bad", "odd", "b"]
        outcomes = await asyncio.gather(*(call(together, one, one) for one in items), return_exceptions=True)
        assert [outcomes[0], outcomes[3]] == ["a", "b"]
        assert isinstance(outcomes[1], InvalidArgument)
        assert isinstance(outcomes[2], ValueError)
        kept = await here.pool.fetch("SELECT key FROM idempotency ORDER BY key")
        assert [row["key"] for row in kept] == ["a", "b"]
        assert work.groups[1:] == [[one] for one in items]


async def test_who_has_gone_is_not_waited_for_and_a_stop_answers_the_rest(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = Work()
        together = Together(here, "ResumeConsumer", Answer, work)
        gone = asyncio.create_task(call(together, "gone", "gone"))
        stays = asyncio.create_task(call(together, "stays", "stays"))
        await asyncio.sleep(0)
        gone.cancel()
        task = asyncio.create_task(together.run())
        assert await stays == "stays"
        assert work.groups == [["stays"]]
        late = asyncio.create_task(call(together, "late", "late"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(Unavailable, match="stops"):
            await late


async def test_a_stop_while_they_are_done_one_by_one_answers_those_whose_turn_has_not_come(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        work = Work()
        together = Together(here, "ResumeConsumer", Answer, work)
        calls = [asyncio.create_task(call(together, one, one)) for one in ("odd", "a", "b")]
        await asyncio.sleep(0)
        task = asyncio.create_task(together.run())
        await until(lambda: work.groups[1:] == [["odd"]])
        task.cancel()
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes[1:])


async def test_a_call_after_the_stop_is_answered(database: Any) -> None:
    async with running(database) as (together, _, _):
        assert await call(together, "i", "k") == "i"
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="stops"):
            await call(together, "j", "l")
