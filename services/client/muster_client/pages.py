"""Lists as one stream of items: the next page is fetched when the last item of this one has been taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

PAGE: Final = 200
"""Items asked for at once."""
T = TypeVar("T")


async def pages(page: Callable[[str], Awaitable[tuple[Sequence[T], str]]]) -> AsyncIterator[T]:
    """Every item of every page.

    `page` takes a token (first: empty) and answers with items and the next token (last: empty).
    """
    token = ""
    while True:
        items, token = await page(token)
        for item in items:
            yield item
        if not token:
            return
