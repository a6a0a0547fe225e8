"""Waiting for a verdict: what it brings, and that nothing which happens meanwhile is told as a failure to make it."""

from __future__ import annotations

import asyncio
from typing import cast

import asyncpg
import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_submission.adapters.reading import Reading
from muster_submission.adapters.verdicts import Verdicts
from muster_submission.domain.progress import ADMITTED, NOT_JUDGED
from muster_submission.rpc.judging import judged

MADE = wl.Workload(id="w", name="first")


class Rows:
    """A read model of one workload."""

    def __init__(self, verdict: int = NOT_JUDGED, error: Exception | None = None) -> None:
        self.verdict = verdict
        self.error = error

    async def with_verdict(self, workload_id: str, _generation: int) -> tuple[wl.Workload | None, int]:
        if self.error is not None:
            raise self.error
        return wl.Workload(id=workload_id, phase=wl.PHASE_PENDING), self.verdict


async def ask(rows: Rows, verdicts: Verdicts | None = None, seconds: float = 0.01) -> tuple[wl.Workload, int]:
    return await judged(cast("Reading", rows), verdicts or Verdicts(), MADE, seconds)


async def test_a_verdict_that_is_there_is_not_waited_for() -> None:
    shown, verdict = await asyncio.wait_for(ask(Rows(ADMITTED), seconds=60), 5)
    assert (shown.phase, verdict) == (wl.PHASE_PENDING, ADMITTED)


async def test_a_verdict_that_comes_ends_the_wait() -> None:
    rows, verdicts = Rows(), Verdicts()
    asking = asyncio.create_task(ask(rows, verdicts, seconds=60))
    await asyncio.sleep(0)
    rows.verdict = ADMITTED
    verdicts.tell(["w"])
    assert (await asyncio.wait_for(asking, 5))[1] == ADMITTED


async def test_without_one_the_workload_is_shown_as_it_is() -> None:
    assert (await ask(Rows()))[1] == NOT_JUDGED


@pytest.mark.parametrize("error", [ConnectionResetError(), asyncpg.QueryCanceledError(), TimeoutError()])
async def test_what_is_made_is_not_told_as_an_error(error: Exception) -> None:
    assert await ask(Rows(error=error)) == (MADE, NOT_JUDGED)
