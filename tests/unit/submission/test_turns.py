"""Whose watch goes on: one in an iteration of the event loop, callers in turn."""

from __future__ import annotations

import asyncio
import gc

from muster_submission.handlers.turns import Turns


async def test_one_watcher_goes_on_in_an_iteration_and_callers_alternate() -> None:
    turns, order = Turns(), list[str]()
    iteration = 0

    async def watch(caller: str) -> None:
        await turns.wait(turns.of(caller))
        order.append(f"{caller} {iteration}")

    watches = [asyncio.create_task(watch(caller)) for caller in ["noisy"] * 20 + ["quiet"] * 2]
    while not all(each.done() for each in watches):
        await asyncio.sleep(0)
        iteration += 1
    callers, iterations = zip(*(each.split() for each in order), strict=True)
    assert callers[:4] == ("noisy", "quiet", "noisy", "quiet")
    assert len(set(iterations)) == len(watches)


async def test_a_watch_that_ends_while_it_waits_holds_up_no_other() -> None:
    turns = Turns()
    mine = turns.of("a")
    first, second, third = (asyncio.create_task(turns.wait(mine)) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait_for(asyncio.gather(first, third), 5)
    assert second.cancelled()


async def test_a_caller_without_a_watch_is_forgotten() -> None:
    turns = Turns()
    await turns.wait(turns.of("a"))
    gc.collect()
    assert len(turns._callers) == 0
