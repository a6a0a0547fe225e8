"""Rule 6, the agent's half: assignments are desired state, not messages.

Taken out here: that absence releases nothing (what is not named is stopped), the highest epoch (an old leader's
tombstone is obeyed), reading to the end before acting (what was released long ago is started), and the name that
collides (a restarted agent starts everything a second time).
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from muster_cluster_agent.domain import plan
from muster_cluster_agent.domain.actions import Action
from muster_cluster_agent.domain.model import Assignment, Release
from muster_cluster_agent.domain.reconcile import Scene, reconcile
from muster_cluster_agent.handlers import agent as handlers
from muster_cluster_agent.handlers.agent import Agent, Taken
from muster_kernel import ids
from tests.support.agent_loops import Told, assignment, release, running
from tests.support.backends import FakeBackend
from tests.support.waiting import until

# -------------------------------------------------------------------------------------------- absence releases nothing


def _absence_releases(scene: Scene, now: float) -> tuple[Action, ...]:
    """Takes the mechanism out: what no assignment names is stopped."""
    if scene.desired is None and scene.observed:
        key = max(replica.key for replica in scene.observed)
        invented = Release(scene.observed[0].workload_id, 0, *key, grace=0.0, reason="not assigned")
        scene = replace(scene, desired=invented)
    return reconcile(scene, now)


async def _runs_after_a_lost_bus(fake: FakeBackend) -> bool:
    """The agent is started anew on a bus that knows nothing: does what ran still run?"""
    async with running(fake, Told()) as agent:
        agent.take(assignment(1, "sleep"))
        await until(lambda: bool(fake.starts))
    told = Told()
    async with running(fake, told) as agent:
        agent.take(assignment(2))
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
        agent.agenda.mark_everything()
        await until(lambda: bool(told.states(1)))
        await until(lambda: agent.agenda.quiet)
    return any(not replica.gone for replica in fake.replicas.values())


async def test_absence_releases_nothing() -> None:
    assert await _runs_after_a_lost_bus(FakeBackend())


async def test_without_that_a_lost_bus_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "reconcile", _absence_releases)
    assert not await _runs_after_a_lost_bus(FakeBackend())


# ------------------------------------------------------------------------------------------------------- highest epoch


class _Credulous(Agent):
    """Takes the mechanism out: every record is obeyed, whoever wrote it."""

    def take(self, record: Assignment | Release, traceparent: str | None = None) -> Taken:
        self.epoch = 0
        return super().take(record, traceparent)


async def _survives_an_old_leader(kind: type[Agent]) -> bool:
    fake, told = FakeBackend(), Told()
    async with running(fake, told, kind=kind) as agent:
        agent.take(assignment(1, "sleep", epoch=2))
        await until(lambda: told.states(1) == ["READY"])
        agent.take(release(1, epoch=1))
        agent.take(assignment(2, epoch=2))
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
        await until(lambda: agent.agenda.quiet)
    return any(not replica.gone for replica in fake.replicas.values())


async def test_an_old_leaders_tombstone_is_not_obeyed() -> None:
    assert await _survives_an_old_leader(Agent)


async def test_without_the_epoch_it_is() -> None:
    assert not await _survives_an_old_leader(_Credulous)


# ------------------------------------------------------------------------------------------- read to the end, then act


async def _starts_what_was_released(*, caught_up: bool) -> int:
    """The topic holds an assignment and, later, its tombstone. How many processes does the agent start?"""
    fake, told = FakeBackend(), Told()
    async with running(fake, told, caught_up=caught_up) as agent:
        agent.take(assignment(1))
        if caught_up:
            await until(lambda: bool(fake.starts))
        agent.take(release(1))
        agent.caught_up()
        await until(lambda: "GONE" in told.states(1))
    return len(fake.starts)


async def test_what_a_later_record_releases_is_never_started() -> None:
    assert await _starts_what_was_released(caught_up=False) == 0


async def test_without_reading_to_the_end_it_is() -> None:
    assert await _starts_what_was_released(caught_up=True) == 1


# -------------------------------------------------------------------------------------------------- names that collide


async def _starts_over_a_restart() -> int:
    fake = FakeBackend()
    for _ in range(2):
        told = Told()
        async with running(fake, told) as agent:
            agent.take(assignment(1, "sleep"))
            await until(lambda told=told: "READY" in told.states(1))  # type: ignore[misc]
            await until(lambda agent=agent: agent.agenda.quiet)  # type: ignore[misc]
    return sum(fake.starts.values())


async def test_a_restarted_agent_starts_nothing_twice() -> None:
    assert await _starts_over_a_restart() == 1


async def test_without_names_that_collide_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    class _Anonymous:
        @staticmethod
        def replica_name(*_: object) -> str:
            return f"replica-{next(count)}"

        base_name = staticmethod(ids.base_name)

    monkeypatch.setattr(plan, "ids", _Anonymous)
    assert await _starts_over_a_restart() > 1
