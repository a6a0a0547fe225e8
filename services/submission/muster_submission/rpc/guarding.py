"""Long streams whose caller keeps being judged: what is taken from somebody ends in their open streams too.

Called by logs and by the agents' gateway. Holds: a stream ends within a second of its right, also where nothing comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

_SECONDS: Final = 0.4  # with the half second for which a state of access counts, less than one
_END: Final = object()
T = TypeVar("T")


async def guarded(items: AsyncIterator[T], check: Callable[[], Awaitable[None]]) -> AsyncGenerator[T]:
    """The items, as long as `check` does not raise."""
    coming: asyncio.Task[T | object] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(items), name="the next item of a stream")
            await asyncio.wait({coming}, timeout=_SECONDS)
            await check()
            if not coming.done():
                continue
            item, coming = coming.result(), None
            if item is _END:
                return
            yield item  # type: ignore[misc]  # what is not the end is an item
    finally:
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await coming


async def _next(items: AsyncIterator[T]) -> T | object:
    return await anext(items, _END)
