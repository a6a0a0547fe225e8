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


async def test_each_workload_that_becomes_due_has_a_worker(agenda: Agenda) -> None:
    workers = [asyncio.create_task(agenda.take()) for _ in range(5)]
    await asyncio.sleep(0)
    workers.pop(0).cancel()  # it waited first
    agenda.mark("one")
    agenda.mark("two")
    agenda.mark_left_over("old")
    agenda.mark_left_over("older")
    await until(lambda: all(each.done() for each in workers))
    assert sorted(each.result() for each in workers) == [("old", True), ("older", True), ("one", False), ("two", False)]


async def test_what_became_due_while_nothing_was_handed_out_is_worked_on_by_all() -> None:
    agenda = Agenda()
    workers = [asyncio.create_task(agenda.take()) for _ in range(3)]
    await asyncio.sleep(0)
    for name in ("one", "two", "three"):
        agenda.case(name).idle = True  # its record came meanwhile: only that wakes it
        agenda.mark(name)
    await asyncio.sleep(0)
    assert not any(each.done() for each in workers)
    agenda.resume()
    await until(lambda: all(each.done() for each in workers))
    assert {each.result()[0] for each in workers} == {"one", "two", "three"}


async def test_what_is_overdue_takes_no_worker_from_what_is_due(
    agenda: Agenda, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        agenda.mark(f"busy-{number}")
        await agenda.take()
    agenda.mark_left_over("old")
    workers = [asyncio.create_task(agenda.take()) for _ in range(2)]
    await asyncio.sleep(0)
    monkeypatch.setattr(agenda_module, "_LEFT_OVER_SECONDS", 0.0)
    agenda.mark("new")
    await until(lambda: all(each.done() for each in workers), within=5)
    assert {each.result() for each in workers} == {("old", True), ("new", False)}
