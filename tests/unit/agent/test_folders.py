"""Which folders an agent removes: those of workloads that will not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from muster_cluster_agent.errors import SecretsError
from muster_cluster_agent.handlers import folders as keeping
from muster_cluster_agent.handlers.folders import FolderKeeper
from muster_cluster_agent.ports import Deleted, Kept

DAY = 86_400.0
NOW = 10 * DAY


@dataclass
class Here:
    """Folders, and what submission knows of their workloads."""

    folders: list[Kept]
    deleted: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    answers: bool = True
    asked: list[int] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    async def kept(self, most: int) -> Sequence[Kept]:
        return self.folders[:most]

    async def forget(self, workload_ids: Iterable[str]) -> None:
        self.forgotten.extend(workload_ids)

    async def find_deleted(self, workload_ids: Sequence[str]) -> Deleted:
        if not self.answers:
            raise SecretsError("submission does not answer")
        self.asked.append(len(workload_ids))
        return Deleted(self.deleted & set(workload_ids), self.unknown & set(workload_ids))


async def test_the_folders_of_deleted_workloads_go_and_no_others() -> None:
    folders = [Kept("deleted", NOW), Kept("suspended", NOW - DAY), Kept("new", NOW), Kept("old", NOW - 2 * DAY)]
    here = Here(folders, deleted=frozenset({"deleted"}), unknown=frozenset({"new", "old"}))
    await FolderKeeper(here, here, clock=lambda: NOW).look()
    assert here.forgotten == ["deleted", "old"]


async def test_without_an_answer_nothing_goes() -> None:
    here = Here([Kept("old", 0.0)], unknown=frozenset({"old"}), answers=False)
    with pytest.raises(SecretsError):
        await FolderKeeper(here, here, clock=lambda: NOW).look()
    assert here.forgotten == []


async def test_many_are_asked_for_in_parts() -> None:
    here = Here([Kept(f"w-{number}", 0.0) for number in range(2_100)])
    await FolderKeeper(here, here, clock=lambda: NOW).look()
    assert here.asked == [1_000, 1_000, 100]


async def test_folders_without_an_answer_come_first_in_the_next_look() -> None:
    here = Here([Kept("first", 0.0)], deleted=frozenset({"first", "second"}), answers=False)
    keeper = FolderKeeper(here, here, clock=lambda: NOW)
    with pytest.raises(SecretsError):
        await keeper.look()
    here.folders, here.answers = [Kept("second", 0.0)], True
    await keeper.look()
    assert here.forgotten == ["first"]
    await keeper.look()
    assert here.forgotten == ["first", "second"]


async def test_a_look_is_bounded() -> None:
    here = Here([Kept(f"w-{number}", 0.0) for number in range(5_001)])
    await FolderKeeper(here, here, clock=lambda: NOW).look()
    assert sum(here.asked) == 5_000


async def test_what_a_replica_has_left_does_not_end_the_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    twice = asyncio.Event()

    class Broken(Here):
        async def kept(self, most: int) -> Sequence[Kept]:
            nonlocal looks
            looks += 1
            if looks == 2:
                twice.set()
            raise RecursionError("maximum recursion depth exceeded")

    here = Broken([])
    monkeypatch.setattr(keeping, "_PERIOD", 0.001)
    task = asyncio.create_task(FolderKeeper(here, here, clock=lambda: NOW).run())
    async with asyncio.timeout(10):
        await twice.wait()
    assert not task.done()
    task.cancel()
