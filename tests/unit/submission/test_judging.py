"""Waiting for a verdict: what it brings, and that nothing which happens meanwhile is told as a failure to make it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import asyncpg
import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters import verdicts as waits
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.domain.progress import ADMITTED, NOT_JUDGED
from muster_submission.rpc.judging import judged
from tests.support.waiting import until

MADE = wl.Workload(id="w", name="first", generation=2)


class Rows:
    """A read model of one workload."""

    def __init__(self, verdict: int = NOT_JUDGED, error: Exception | None = None) -> None:
        self.verdict = verdict
        self.error = error

    async def judged(self, ids: Sequence[str]) -> dict[str, int]:
        if self.error is not None:
            raise self.error
        return dict.fromkeys(ids, MADE.generation if self.verdict else 0)

    async def with_verdict(self, workload_id: str, _generation: int) -> tuple[wl.Workload | None, int]:
        if self.error is not None:
            raise self.error
        return wl.Workload(id=workload_id, phase=wl.PHASE_PENDING), self.verdict


async def ask(rows: Rows, verdicts: Verdicts | None = None, seconds: float = 0.01) -> tuple[wl.Workload, int]:
    return await judged(cast("Reading", rows), verdicts or Verdicts(rows.judged), MADE, seconds)


async def test_a_verdict_that_is_there_is_not_waited_for() -> None:
    shown, verdict = await asyncio.wait_for(ask(Rows(ADMITTED), seconds=60), 5)
    assert (shown.phase, verdict) == (wl.PHASE_PENDING, ADMITTED)


async def test_a_verdict_that_comes_ends_the_wait() -> None:
    rows = Rows()
    verdicts = Verdicts(rows.judged)
    asking = asyncio.create_task(ask(rows, verdicts, seconds=60))
    await asyncio.sleep(0)
    rows.verdict = ADMITTED
    verdicts.tell(["w"])
    assert (await asyncio.wait_for(asking, 5))[1] == ADMITTED


@asynccontextmanager
async def looking(verdicts: Verdicts) -> AsyncIterator[None]:
    task = asyncio.create_task(verdicts.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("poll", [0.01, 60.0])
async def test_one_that_another_instance_takes_in_ends_the_wait(monkeypatch: pytest.MonkeyPatch, poll: float) -> None:
    """By the poll alone, and by the notification where the poll is far away."""
    monkeypatch.setattr(waits, "_POLL", poll)
    rows = Rows()
    verdicts = Verdicts(rows.judged)
    async with looking(verdicts):
        asking = asyncio.create_task(ask(rows, verdicts, seconds=60))
        await asyncio.sleep(0)
        rows.verdict = ADMITTED
        if poll > 1:
            verdicts.look()
        assert (await asyncio.wait_for(asking, 5))[1] == ADMITTED


async def test_a_verdict_on_the_generation_before_ends_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_POLL", 0.001)
    asked: list[Sequence[str]] = []

    async def one_behind(ids: Sequence[str]) -> dict[str, int]:
        asked.append(ids)
        return {"w": MADE.generation - 1}

    verdicts = Verdicts(one_behind)
    async with looking(verdicts):
        with verdicts.expect("w", MADE.generation) as expectation:
            await until(lambda: len(asked) > 2)
            assert not expectation.judged.is_set()


async def test_a_database_that_is_away_ends_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_POLL", 0.001)
    rows = Rows()
    verdicts = Verdicts(rows.judged)
    async with looking(verdicts):
        asking = asyncio.create_task(ask(rows, verdicts, seconds=60))
        await asyncio.sleep(0)
        rows.error = ConnectionResetError()
        verdicts.look()
        await asyncio.sleep(0)
        rows.error, rows.verdict = None, ADMITTED
        assert (await asyncio.wait_for(asking, 5))[1] == ADMITTED


async def test_nothing_is_asked_while_no_call_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "_POLL", 0.0)
    asked: list[Sequence[str]] = []

    async def judged_now(ids: Sequence[str]) -> dict[str, int]:
        asked.append(ids)
        return {}

    verdicts = Verdicts(judged_now)
    async with looking(verdicts):
        for _ in range(20):
            verdicts.look()
            await asyncio.sleep(0)
        assert not asked
        with verdicts.expect("w", 1):
            await until(lambda: asked)
        assert asked[0] == ["w"]


async def test_without_one_the_workload_is_shown_as_it_is() -> None:
    assert (await ask(Rows()))[1] == NOT_JUDGED


@pytest.mark.parametrize("error", [ConnectionResetError(), asyncpg.QueryCanceledError(), TimeoutError()])
async def test_what_is_made_is_not_told_as_an_error(error: Exception) -> None:
    assert await ask(Rows(error=error)) == (MADE, NOT_JUDGED)
