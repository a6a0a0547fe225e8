"""Streams end with the right to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster_chassis.errors import PermissionDenied
from muster_submission.rpc.guarding import guarded
from tests.support.waiting import until


async def _numbers(*, ended: list[bool], for_ever: bool = False) -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
        if for_ever:
            await asyncio.get_running_loop().create_future()
    finally:
        ended.append(True)


async def _allowed() -> None:
    return


async def test_all_items_come_in_order() -> None:
    ended = list[bool]()
    assert [item async for item in guarded(_numbers(ended=ended), _allowed)] == [1, 2]
    assert ended


async def test_a_stream_in_which_nothing_comes_ends_with_its_right() -> None:
    ended, came, asked = list[bool](), list[int](), 0

    async def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 3:
            raise PermissionDenied("no more")

    async with asyncio.timeout(5):
        with pytest.raises(PermissionDenied):
            await _all(guarded(_numbers(ended=ended, for_ever=True), check), came)
    assert came == [1, 2]
    assert ended


async def test_a_reader_that_goes_away_ends_the_source() -> None:
    ended, came = list[bool](), list[int]()
    reading = asyncio.create_task(_all(guarded(_numbers(ended=ended, for_ever=True), _allowed), came))
    await until(lambda: came == [1, 2])
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert ended


async def _all(stream: AsyncIterator[int], came: list[int]) -> None:
    async for item in stream:
        came.append(item)  # noqa: PERF401 - one by one, so that what has come can be looked at
