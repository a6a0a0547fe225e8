"""A connection that is let go of frees what it holds, also where its last statement was cut short."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from muster_chassis.connection import affected, release


class Cut:
    """A connection that is in the middle of a statement. closed: whether it counts as closed."""

    def __init__(self, error: Exception | None, *, closed: bool = False) -> None:
        self.calls: list[str] = []
        self._error, self._closed = error, closed

    def is_closed(self) -> bool:
        """Whether it counts as closed."""
        return self._closed

    async def close(self, *, timeout: float) -> None:
        """Fail as asyncpg does."""
        self.calls.append(f"close {timeout:g}")
        if self._error is not None:
            raise self._error

    def terminate(self) -> None:
        """Drop it."""
        self.calls.append("terminate")


@pytest.mark.parametrize(
    "error",
    [
        None,
        asyncpg.InternalClientError("another operation is in progress"),
        asyncpg.InterfaceError("x"),
        TimeoutError(),
    ],
)
async def test_a_connection_is_dropped_whatever_its_close_says(error: Exception | None) -> None:
    connection: Any = Cut(error)
    await release(connection)
    assert connection.calls == ["close 2", "terminate"]


async def test_one_that_is_closed_is_not_closed_again() -> None:
    connection: Any = Cut(None, closed=True)
    await release(connection)
    assert connection.calls == ["terminate"]


def test_the_rows_of_a_status() -> None:
    assert [affected(status) for status in ("DELETE 0", "UPDATE 12", "INSERT 0 3")] == [0, 12, 3]
