"""In which order workloads are taken."""

from __future__ import annotations

import asyncio

import pytest

from muster_cluster_agent.handlers import agenda as agenda_module
from muster_cluster_agent.handlers.agenda import Agenda
from tests.support.waiting import until


@pytest.fixture
def agenda() -> Agenda:
    made = Agenda()
    made.held_up = False
    return made


async def test_what_is_left_over_comes_after_what_is_due(agenda: Agenda) -> None:
    agenda.mark_left_over("old")
    agenda.mark("new")
    assert await agenda.take() == ("new", False)
    assert await agenda.take() == ("old", True)
    assert agenda.quiet


async def test_what_is_left_over_waits_while_many_are_busy(agenda: Agenda) -> None:
    for number in range(4):
        agenda.mark(f"new-{number}")
    agenda.mark_left_over("old")
    busy = [await agenda.take() for _ in range(4)]
    waiting = asyncio.create_task(agenda.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not agenda.quiet
    agenda.done(busy[0][0])
    assert await waiting == ("old", True)


async def test_what_is_left_over_does_not_wait_for_ever(agenda: Agenda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_LEFT_OVER_SECONDS", 0.0)
    for number in range(5):
        agenda.mark(f"new-{number}")
        await agenda.take()
    agenda.mark("newest")
    agenda.mark_left_over("old")
    assert await agenda.take() == ("old", True), "it comes before what is due"
    assert await agenda.take() == ("newest", False)


async def test_many_that_are_left_over_hold_up_nothing_that_is_due(
    agenda: Agenda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda_module, "_LEFT_OVER_SECONDS", 0.0)
    for number in range(9):
        agenda.mark_left_over(f"old-{number}")
        agenda.mark(f"new-{number}")
    taken = [await agenda.take() for _ in range(8)]
    assert [left_over for _, left_over in taken] == [True] * 4 + [False] * 4
    agenda.done("old-0")
    assert await agenda.take() == ("old-4", True)


async def test_a_workload_that_is_worked_on_is_not_taken_twice(agenda: Agenda) -> None:
    agenda.mark("one")
    await agenda.take()
    agenda.mark("one")
    agenda.mark_left_over("one")
    waiting = asyncio.create_task(agenda.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    agenda.done("one")
    await until(waiting.done)
    assert waiting.result() == ("one", False)
