"""CEL in its own process: it answers, it is ended where it runs away, and the loop never waits for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from muster_submission.adapters import expressions
from muster_submission.adapters.expressions import CelProcess
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import Broken, Question, Values


def question(data: Any, **expressions: str) -> Question:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    return Question(expressions, CloudEvent("1", "/s", "t", "", attributes, json.dumps(data).encode()))


@asynccontextmanager
async def process() -> AsyncIterator[CelProcess]:
    made = CelProcess()
    try:
        yield made
    finally:
        await made.close()


HEAVY = {"l": list(range(9000)), "s": "a" * 200_000}
RUNAWAYS = (
    "data.l.all(x, data.s.contains('aaaaaaaaaaaaaab') || true)",
    "data.l.map(x, data.s + data.s).size() > 0",
    "data.l.all(x, data.s.matches('(a|aa)+b') || true)",
)


async def test_it_answers_and_checks() -> None:
    async with process() as here:
        found = await here.evaluate(question({"n": 4}, condition="data.n > 3", A="data.n"))
        assert found == Values(matched=True, texts={"A": "4"})
        said = await here.check({"condition": "1 + 1", "A": "data.x"}, None)
        assert list(said) == ["condition"]
        assert "gives INT" in said["condition"]


@pytest.mark.parametrize("expression", RUNAWAYS)
async def test_a_runaway_is_ended_and_the_loop_goes_on(expression: str) -> None:
    async with process() as here:
        await here.evaluate(question({}, A="1"))
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.005)

        turning = asyncio.create_task(turn())
        found = await here.evaluate(question(HEAVY, condition=expression))
        turning.cancel()
        assert isinstance(found, Broken)
        assert found.runaway
        assert turns > 10, "the loop stood still"
        assert await here.evaluate(question({}, A="'after'")) == Values(matched=True, texts={"A": "after"})


async def test_a_child_that_somebody_ends_costs_one_more_try() -> None:
    async with process() as here:
        await here.evaluate(question({}, A="1"))
        assert here.pid is not None
        os.kill(here.pid, signal.SIGKILL)
        assert await here.evaluate(question({}, A="2")) == Values(matched=True, texts={"A": "2"})


async def test_a_child_that_gets_no_processor_time_costs_one_more_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "_ANSWER_SECONDS", 2.0)
    async with process() as here:
        await here.evaluate(question({}, A="1"))
        assert here.pid is not None
        os.kill(here.pid, signal.SIGSTOP)
        assert await here.evaluate(question({}, A="2")) == Values(matched=True, texts={"A": "2"})


async def test_a_machine_without_processor_time_is_not_held_against_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []
    async with process() as here:
        await here.evaluate(question({}, A="1"))
        assert here.pid is not None
        os.kill(here.pid, signal.SIGSTOP)
        with monkeypatch.context() as hurried:
            hurried.setattr(expressions, "_ANSWER_SECONDS", 0.01)  # the next child is not ready by then
            found = await here.evaluate(question({}, A="2"), spent.append)
        assert isinstance(found, Broken)
        assert not found.runaway
        assert spent == [0.0]
        assert "no answer within 0.01 s: the machine gave their process too little processor time" in found.why
        assert await here.evaluate(question({}, A="3")) == Values(matched=True, texts={"A": "3"})


def test_a_child_whose_input_is_closed_costs_one_more_try_on_the_loop_of_the_services() -> None:
    async def story() -> None:
        async with process() as here:
            await here.evaluate(question({}, A="1"))
            child = here._child
            assert child is not None
            assert child.stdin is not None
            os.kill(child.pid, signal.SIGSTOP)  # so that its end is not known when the next question comes
            child.stdin.close()
            await asyncio.sleep(0.01)
            assert child.returncode is None
            assert await here.evaluate(question({}, A="2")) == Values(matched=True, texts={"A": "2"})

    uvloop.run(story())


async def test_the_answer_to_a_question_that_was_given_up_is_not_that_to_the_next_one() -> None:
    async with process() as here:
        await here.evaluate(question({}, A="'mine'"))
        for pause in (0.0, 0.0001, 0.001):
            given_up = asyncio.create_task(here.evaluate(question({}, A="'mine'")))
            await asyncio.sleep(pause)
            given_up.cancel()
            assert await here.evaluate(question({}, A="'yours'")) == Values(matched=True, texts={"A": "yours"})


async def test_the_child_ends_with_its_parent() -> None:
    async with process() as here:
        await here.evaluate(question({}, A="1"))
        child = here.pid
        assert child is not None
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
