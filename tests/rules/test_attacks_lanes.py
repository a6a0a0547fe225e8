"""One project's trigger rules slow only that project: the attacks of rows B2 and B3 work where a part is substituted.

Taken out here: the lane of each project (one lane does the work of all), and the evaluation before the transaction.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.api.v1 import triggers_pb2
from muster_submission import app_parts
from muster_submission.domain.expressions import Answer, Question
from muster_submission.handlers.firing import Firing
from muster_submission.handlers.lanes import Lanes
from tests.integration.submission.test_triggers import Stage
from tests.support.doors import Door, door
from tests.support.waiting import eventually

HEAVY, LIGHT = "heavy", "light"


class _Stuck:
    """Expressions of which those of one project do not come to an end, but for the first `answered` questions."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.answered = 0
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def evaluate(self, question: Question, project: str, rule: str) -> Answer:
        """Answers all but the heavy project."""
        if project == HEAVY and self.answered:
            self.answered -= 1
        elif project == HEAVY:
            self.asked.set()
            await self.go_on.wait()
        answer: Answer = await self._real.evaluate(question, project, rule)
        return answer


class _OneLane(Lanes):
    """Works on one project after the other."""

    async def _look(self) -> None:
        for project in sorted(await self._queue.due()):
            await self._firing.fire(project)


async def _stages(here: Door) -> tuple[Stage, Stage, _Stuck]:
    stuck = _Stuck(here.app.expressions)
    here.app.runs._expressions = stuck  # type: ignore[assignment]  # it only evaluates
    heavy, light = Stage(here, HEAVY), Stage(here, LIGHT)
    for one in (heavy, light):
        await one.ready()
        await one.rule(environment={}, event_sources=[heavy.source])
    return heavy, light, stuck


async def _light_fires_while_heavy_is_stuck(database: Any, kafka: str) -> bool:
    async with door(database, kafka) as here:
        heavy, light, stuck = await _stages(here)
        await here.events(heavy.binary("one", {}))
        await stuck.asked.wait()
        try:
            fired = bool(await eventually(light.firings, bool, within=3))
        except TimeoutError:
            fired = False
        assert await heavy.firings() == []
        stuck.go_on.set()
        await eventually(heavy.firings, bool)  # nothing was lost
        await eventually(light.firings, bool)
        return fired


async def test_a_stuck_rule_delays_its_own_project_only(database: Any, kafka: str) -> None:
    assert await _light_fires_while_heavy_is_stuck(database, kafka)


async def test_with_one_lane_for_all_it_delays_everybody(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_parts, "Lanes", _OneLane)
    assert not await _light_fires_while_heavy_is_stuck(database, kafka)


class _InsideFiring(Firing):
    """Evaluates inside the transaction that fires, under the rule's lock."""

    async def _fire_all(self, evaluated: Any) -> None:
        async with self._units() as unit:
            await self._triggers.lock(unit, [(HEAVY, "on-model")])
            for queued, _ in evaluated:
                await self._evaluate(queued.project, [queued])
            await self._queue.remove(unit, [queued.id for queued, _ in evaluated])


async def _rule_can_be_changed_while_it_is_stuck(database: Any, kafka: str) -> bool:
    async with door(database, kafka) as here:
        heavy, _, stuck = await _stages(here)
        stuck.answered = isinstance(here.app.firing, _InsideFiring)  # its first question is asked outside
        await here.events(heavy.binary("one", {}))
        await stuck.asked.wait()
        try:
            async with asyncio.timeout(2):
                await heavy.rule(environment={}, condition="true")
        except TimeoutError:
            return False
        finally:
            stuck.go_on.set()
        return True


async def test_a_rule_is_not_locked_while_it_is_evaluated(database: Any, kafka: str) -> None:
    assert await _rule_can_be_changed_while_it_is_stuck(database, kafka)


async def test_evaluated_inside_the_transaction_it_is_locked(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_parts, "Firing", _InsideFiring)
    assert not await _rule_can_be_changed_while_it_is_stuck(database, kafka)


async def test_an_event_that_fails_for_time_is_set_aside_and_the_others_are_fired(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database, kafka) as here:
        light = Stage(here, LIGHT)
        await light.ready()
        await light.rule(environment={})
        add = here.app.firings.add

        async def slow_for_one(unit: Any, firing: Any) -> None:
            if firing.event.id == "slow":
                raise TimeoutError("the statement was cancelled")
            await add(unit, firing)

        monkeypatch.setattr(here.app.firings, "add", slow_for_one)
        await here.events(light.binary("slow", {}), light.binary("good", {}))
        told = await eventually(light.firings, bool)
        assert [each.event_id for each in told] == ["good"]
        waiting = await eventually(lambda: _waiting(here), bool)
        assert "1 events are set aside, as of project light: TimeoutError" in waiting["triggers"]
        monkeypatch.setattr(here.app.firings, "add", add)
        await here.app.database.pool.execute("UPDATE trigger_queue SET not_before = now()")
        told = await eventually(light.firings, lambda seen: len(seen) == 2)
        assert told[1].outcome == triggers_pb2.FIRING_OUTCOME_STARTED


async def _waiting(here: Door) -> dict[str, str]:
    return here.app.runtime.health.waiting


async def test_what_is_beyond_the_queue_is_dropped_with_its_reason(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster_submission.handlers.firing.MOST_QUEUED", 1)
    async with door(database, kafka) as here:
        heavy, _, stuck = await _stages(here)
        await here.events(*(heavy.binary(f"e{number}", {}) for number in range(3)))
        await stuck.asked.wait()
        await here.events(heavy.binary("more", {}))
        told = await eventually(heavy.firings, lambda seen: any(each.event_id == "more" for each in seen))
        assert all(each.outcome == triggers_pb2.FIRING_OUTCOME_DROPPED for each in told)
        assert "1 events wait for the rules of project heavy" in told[-1].why
        stuck.go_on.set()
