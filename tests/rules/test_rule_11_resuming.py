"""Rule 11: one resumption takes a stopped consumer through any amount of poison, and says how much passed.

Taken out here: the resumption (the breaker trips again a hundred records later, so that thirty thousand take as many
calls as an operator has patience).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.api.v1 import dead_letters_pb2 as pb
from muster_chassis import breakers
from muster_chassis.breakers import Tripped
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.errors import InvalidArgument
from muster_chassis.intake import Intake
from tests.support.calls import Call
from tests.support.records import intake, poison, record, with_ledger
from tests.support.stations import opened

_POISON = 300
_STEP = 50


@pytest.fixture(autouse=True)
def _each_batch_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakers, "_SAVED", 0.0)


async def _stopped(here: Database) -> Intake:
    """An intake whose topic has stopped."""
    consumer = intake(here, await with_ledger(here))
    with pytest.raises(Tripped):
        await consumer.process([poison(f"first{n}") for n in range(200)], {})
    await consumer.breakers.remember("muster.submissions")
    return consumer


async def _resume(here: Database, consumer: Intake, **how: Any) -> asyncio.Task[pb.ResumeConsumerResponse]:
    """A call that waits, once the consumer has seen that it may go on."""
    request = pb.ResumeConsumerRequest(idempotency_key=str(how), **how)
    call = asyncio.ensure_future(DeadLetters(here).ResumeConsumer(request, Call()))
    while consumer.breakers.stopped:
        await consumer.breakers.look()
        await asyncio.sleep(0)
    return call


async def _passes(consumer: Intake, number: int, *, good: bool = False) -> int:
    """How many of so many records are taken in before the consumer stops."""
    kind = record if good else poison
    for start in range(0, number, _STEP):
        try:
            await consumer.process([kind(f"{good}{start + n}") for n in range(_STEP)], {})
        except Tripped:
            return start + _STEP
    return number


async def test_a_count_passes_without_another_stop_and_is_told(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        consumer = await _stopped(here)
        call = await _resume(here, consumer, count=_POISON)
        assert await _passes(consumer, _POISON) == _POISON
        answer = await asyncio.wait_for(call, 10)
        assert (answer.passed, answer.rejected, answer.finished) == (_POISON, _POISON, True)
        assert await _passes(consumer, _POISON) < _POISON, "beyond the count it stops again"


async def test_until_quiet_passes_all_poison_and_ends_with_good_records(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        consumer = await _stopped(here)
        call = await _resume(here, consumer, until_quiet=True)
        assert await _passes(consumer, _POISON) == _POISON
        assert not call.done()
        await _passes(consumer, _POISON + 2 * _STEP, good=True)
        answer = await asyncio.wait_for(call, 10)
        assert (answer.rejected, answer.finished) == (_POISON, True)
        assert consumer.breakers.resumptions == {}


async def test_without_the_resumption_it_stops_again_at_once(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(_: Any) -> None:
        """No resumption is ever seen."""

    monkeypatch.setattr(breakers.Breakers, "_find_resumptions", found)
    async with opened(database.url("policy")) as here:
        consumer = await _stopped(here)
        call = await _resume(here, consumer, count=_POISON)
        assert await _passes(consumer, _POISON) < _POISON
        call.cancel()
        await asyncio.wait({call})


async def test_a_second_call_waits_for_the_same_resumption(database: Any) -> None:
    async with opened(database.url("policy")) as here:
        consumer = await _stopped(here)
        first = await _resume(here, consumer, count=_POISON)
        second = asyncio.ensure_future(
            DeadLetters(here).ResumeConsumer(pb.ResumeConsumerRequest(idempotency_key="2", count=7), Call())
        )
        await _passes(consumer, _POISON)
        assert [(await asyncio.wait_for(call, 10)).passed for call in (first, second)] == [_POISON, _POISON]


@pytest.mark.parametrize("how", [{"count": 1, "until_quiet": True}, {"count": 10**12}])
async def test_what_cannot_be_meant_is_refused(database: Any, how: dict[str, Any]) -> None:
    async with opened(database.url("policy")) as here:
        with pytest.raises(InvalidArgument, match="count is"):
            await DeadLetters(here).ResumeConsumer(pb.ResumeConsumerRequest(idempotency_key="k", **how), Call())
