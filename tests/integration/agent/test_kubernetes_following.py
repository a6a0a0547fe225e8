"""Following a cluster: lists in pages, watches that break, and what was missed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from muster_cluster_agent.adapters.kubernetes import list_watch
from muster_cluster_agent.adapters.kubernetes.list_watch import Follower, Kind
from tests.support.fake_api_server import FakeApiServer, Fault, api_server
from tests.support.kubernetes_backends import client_of
from tests.support.waiting import until


@dataclass
class Followed:
    """A follower of ConfigMaps that keeps their data, and what it has told."""

    server: FakeApiServer
    follower: Follower[str] = field(init=False)
    changes: list[tuple[str, str | None, str | None]] = field(default_factory=list)

    def put(self, name: str, value: Any) -> None:
        self.server.put("configmaps", {"metadata": {"name": name, "namespace": "x"}, "data": {"value": value}})

    def values(self) -> dict[str, str]:
        return {key.removeprefix("x/"): value for key, value in self.follower.items.items()}


def read(raw: Mapping[str, Any]) -> str:
    value = raw["data"]["value"]
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


@asynccontextmanager
async def followed(count: int = 0) -> AsyncIterator[Followed]:
    async with api_server() as server, client_of(server) as client:
        made = Followed(server)
        for number in range(count):
            made.put(f"c-{number}", str(number))
        made.follower = Follower(
            client, Kind("configmaps", "/api/v1/configmaps"), read, lambda *change: made.changes.append(change)
        )
        task = asyncio.create_task(made.follower.run())
        try:
            await made.follower.listed.wait()
            yield made
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_a_list_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "PAGE", 3)
    async with followed(10) as made:
        assert made.values() == {f"c-{number}": str(number) for number in range(10)}
        assert made.server.calls["GET"] == 4
        assert len(made.changes) == 10


async def test_changes_are_followed() -> None:
    async with followed(1) as made:
        made.put("c-1", "new")
        made.put("c-0", "other")
        made.server.remove("configmaps", "x/c-1")
        await until(lambda: made.values() == {"c-0": "other"} and len(made.changes) == 4)
        assert made.changes[1:] == [("x/c-1", None, "new"), ("x/c-0", "0", "other"), ("x/c-1", "new", None)]
        assert made.server.calls["GET"] == 1


def holds(made: Followed, values: dict[str, str]) -> bool:
    return made.values() == values


async def test_a_watch_that_ends_goes_on_where_it_was() -> None:
    async with followed(1) as made:
        for number in range(3):
            await made.server.cut_watches()
            made.put("c-0", f"again {number}")
            await until(partial(holds, made, {"c-0": f"again {number}"}))
        assert made.server.calls["GET"] == 1


async def test_what_was_deleted_while_nobody_watched_is_seen_as_deleted() -> None:
    async with followed(3) as made:
        made.server.fault = lambda verb, _: Fault() if verb == "WATCH" else None
        await made.server.cut_watches()
        await until(lambda: not made.follower.sound)
        made.server.remove("configmaps", "x/c-1")
        made.put("c-2", "changed")
        made.server.forget_history()
        made.server.fault = lambda *_: None
        await until(lambda: made.values() == {"c-0": "0", "c-2": "changed"})
        assert ("x/c-1", "1", None) in made.changes
        assert made.server.calls["GET"] == 2
        assert made.follower.sound


async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    async with followed(1) as made:
        made.put("odd", 7)
        made.put("c-1", "good")
        await until(lambda: made.values() == {"c-0": "0", "c-1": "good"})
        assert made.follower.sound


async def test_an_object_that_can_be_read_no_more_is_not_taken_for_deleted() -> None:
    async with followed(2) as made:
        made.put("c-0", 7)
        made.server.forget_history()
        await made.server.cut_watches()
        made.put("c-1", "listed again")
        await until(lambda: made.values() == {"c-0": "0", "c-1": "listed again"})
        assert made.server.calls["GET"] == 2
        made.server.remove("configmaps", "x/c-0")
        await until(lambda: made.values() == {"c-1": "listed again"})
        assert made.changes[-1] == ("x/c-0", "0", None)


async def test_watches_that_end_at_once_are_not_repeated_at_once() -> None:
    async with followed(1) as made:
        made.server.fault = lambda verb, _: Fault(410, "Expired", "too old") if verb == "WATCH" else None
        await made.server.cut_watches()
        before = sum(made.server.calls.values())
        await asyncio.sleep(1.5)  # the pace itself is what is tested
        assert sum(made.server.calls.values()) - before <= 8
        made.server.fault = lambda *_: None
        made.put("c-0", "after")
        await until(lambda: made.values() == {"c-0": "after"})
