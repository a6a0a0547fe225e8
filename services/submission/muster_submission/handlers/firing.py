"""Firing: what events, waiting firings and replays make of rules.

The stream only writes down for which projects an event waits; the lane of each project (`lanes`) calls `fire` and
`go_on`, so that one project's heavy rules delay only that project. Holds: expressions are evaluated before a
transaction, never inside one; within the rule's window an event fires a rule once, because the firing, the run's row
and its WorkloadSubmitted are one commit; what one rule cannot do with an event is that rule's firing, and the other
rules never feel it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from muster_chassis import identity, logs, metrics
from muster_chassis.attempts import passes, patiently
from muster_chassis.unit import Unit
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.firings import Drop, Outcome, Start, Wait, decide, exceeded, number
from muster_submission.errors import DiskReserveSpent
from muster_submission.handlers.drafts import Refusal
from muster_submission.handlers.runs import Failed, Outlook, Passed, Run, Runs
from muster_submission.handlers.submit import Submit
from muster_submission.trigger_ports import Firings, QueuedEvent, StoredFiring, StoredRule, TriggerQueue, Triggers

RUNAWAYS: Final = 3
"""How many times in a row a rule's expressions may take too much before it is switched off."""
MOST_QUEUED: Final = 10_000
"""Events that wait for one project's lane; those beyond are dropped for its rules, and firings say so."""
_AT_ONCE: Final = 50  # events that one transaction fires
_EVALUATING: Final = 0.5  # seconds after which what is evaluated is fired before the rest is
_TRANSACTIONS: Final = 4  # of all lanes at the same time
_SLOW_TRIES: Final = 3
_TRIES: Final = 3
_WHY: Final = 2000
_Key = tuple[str, str]
_log = logs.get(__name__)

EVENTS = metrics.counter(
    "muster_trigger_events_total",
    unit="events",
    meaning="What CloudEvents made of rules: started, waiting, dropped, expired, error, remembered (fired before); "
    "unmatched where no rule takes the event.",
    action="unmatched grows and should not: `muster triggers list` shows what is taken. Others: `triggers firings`.",
    labels=("outcome",),
)
QUEUED_SECONDS = metrics.histogram(
    "muster_trigger_queued_seconds",
    unit="seconds",
    meaning="From the intake of an event to its firing in the lane of a project.",
    action="Slow for all projects: look at PostgreSQL. /healthz (triggers) names a project whose events are set aside.",
)


class RuleChanged(Exception):
    """A rule was changed after its expressions had been evaluated."""


@dataclass(frozen=True, slots=True)
class _Shot:
    """One event for one rule."""

    stored: StoredRule
    event: CloudEvent
    outlook: Run | Failed

    @property
    def key(self) -> _Key:
        return (self.stored.rule.project, self.stored.rule.name)


_Evaluated = tuple[QueuedEvent, list[_Shot]]


class Firing:
    """Fires rules. `units` opens a transaction; `queued` is called after one that left work for a lane."""

    def __init__(
        self,
        triggers: Triggers,
        firings: Firings,
        queue: TriggerQueue,
        runs: Runs,
        submit: Submit,
        units: Callable[[], AbstractAsyncContextManager[Unit]],
    ) -> None:
        self.queued: Callable[[], None] = lambda: None
        self._triggers = triggers
        self._firings = firings
        self._queue = queue
        self._runs = runs
        self._submit = submit
        self._units = units
        self._turns = asyncio.Semaphore(_TRANSACTIONS)

    async def take(self, unit: Unit, events: Sequence[CloudEvent]) -> None:
        """Write down for which projects events wait: those with a rule of their type, source and subject."""
        stored = await self._triggers.for_types({event.type for event in events}, unit=unit)
        wanted = [(event, [one for one in stored if one.rule.takes(event)]) for event in events]
        depths = await self._queue.depths(unit, {one.rule.project for _, rules in wanted for one in rules})
        queued, beyond = list[tuple[str, CloudEvent]](), list[tuple[CloudEvent, StoredRule]]()
        for event, rules in wanted:
            if not rules:
                unit.after_commit(EVENTS.labels("unmatched").inc)
            for project in sorted({one.rule.project for one in rules}):
                depths[project] += 1
                if depths[project] <= MOST_QUEUED:
                    queued.append((project, event))
                else:
                    beyond.extend((event, one) for one in rules if one.rule.project == project)
        if queued:
            await self._queue.add(unit, queued)
            unit.after_commit(self.queued)
        if beyond:
            await self._drop(unit, beyond)

    async def _drop(self, unit: Unit, beyond: Sequence[tuple[CloudEvent, StoredRule]]) -> None:
        locked = await self._triggers.lock(unit, {(one.rule.project, one.rule.name) for _, one in beyond})
        for event, one in beyond:
            count = number(await self._firings.before(unit, one.rule, event), unit.now)
            if count is None or (one.rule.project, one.rule.name) not in locked:
                continue
            why = f"{MOST_QUEUED} events wait for the rules of project {one.rule.project}; this one was not evaluated"
            await self._firings.add(unit, replace(_new(unit, one, event, count), outcome=Outcome.DROPPED, why=why))
            unit.after_commit(EVENTS.labels("dropped").inc)

    async def fire(self, project: str) -> bool:
        """Evaluate the oldest events of a project, then fire them in a transaction. Whether there were any.

        Raises DiskReserveSpent, and then the events stay in the queue.
        """
        waiting = await self._queue.claim(project, _AT_ONCE)
        if not waiting:
            return False
        evaluated = await self._evaluate(project, waiting)
        try:
            await self._patiently(lambda: self._fire_all(evaluated))
        except RuleChanged:
            return True  # they are evaluated again, by the rule as it is now
        except DiskReserveSpent:
            raise  # no fault of an event: all of them wait
        except Exception as error:  # noqa: BLE001 - judged event by event
            _log.warning("events failed together, they are fired one by one", project=project, error=repr(error))
            for one in evaluated:
                await self._fire_alone(one)
        return True

    async def _evaluate(self, project: str, waiting: Sequence[QueuedEvent]) -> list[_Evaluated]:
        """What the rules of a project would start for each event; later ones are left where this takes long."""
        stored = await self._triggers.for_types({queued.event.type for queued in waiting}, project=project)
        runaways = dict[_Key, int]()
        evaluated, began = list[_Evaluated](), time.monotonic()
        for queued in waiting:
            evaluated.append((queued, await self._shots(stored, queued.event, runaways)))
            if time.monotonic() - began > _EVALUATING:
                break
        return evaluated

    async def _patiently(self, attempt: Callable[[], Awaitable[None]]) -> None:
        async def in_turn() -> None:
            async with self._turns:
                await attempt()

        await patiently(in_turn, slow_tries=_SLOW_TRIES)

    async def _fire_all(self, evaluated: Sequence[_Evaluated]) -> None:
        async with self._units() as unit:
            removed = await self._queue.remove(unit, [queued.id for queued, _ in evaluated])
            locked = await self._triggers.lock(unit, {shot.key for _, shots in evaluated for shot in shots})
            for queued, shots in evaluated:
                if queued.id not in removed:
                    continue  # another instance fired it
                if not shots:
                    unit.after_commit(EVENTS.labels("unmatched").inc)
                for shot in shots:
                    await self._shoot(unit, locked, shot)
                QUEUED_SECONDS.observe(max(0.0, (unit.now - queued.at).total_seconds()))

    async def _fire_alone(self, one: _Evaluated) -> None:
        """One event in a transaction of its own; set aside where that fails for time, else an error of its rules."""
        queued, shots = one
        try:
            await self._patiently(lambda: self._fire_all([one]))
        except RuleChanged:
            return
        except DiskReserveSpent:
            raise
        except Exception as error:  # noqa: BLE001 - it becomes the reason
            why = f"{type(error).__name__}: {error}"
            if passes(error) or queued.tries < _TRIES - 1:
                _log.warning("an event is set aside", project=queued.project, caused_by=queued.event.name, reason=why)
                await self._queue.set_aside(queued.id, why)
                return
            _log.exception("an event cannot be fired", project=queued.project, caused_by=queued.event.name)
            failed = [replace(shot, outlook=Failed(f"it failed {_TRIES} times: {why}")) for shot in shots]
            await self._patiently(lambda: self._fire_all([(queued, failed)]))

    async def replay(
        self, unit: Unit, stored: StoredRule, event: CloudEvent, outlook: Run | Failed
    ) -> StoredFiring | str:
        """Fires again by an event that fired before; or why the rule does not.

        outlook: what the rule would start, asked before the unit: a call must not hold one connection and wait for
        another.
        """
        locked = await self._triggers.lock(unit, [(stored.rule.project, stored.rule.name)])
        now = locked.get((stored.rule.project, stored.rule.name))
        if now is None or now.version != stored.version:
            return "the trigger was changed just now: look at it and repeat the call"
        return await self._fire(unit, locked, _Shot(now, event, outlook), replayed=True) or "it was fired just now"

    async def go_on(self, key: _Key) -> None:
        """Start what waits for a rule as far as its limits allow, end what waited too long. Raises DiskReserveSpent."""
        while (found := await self._next_waiting(key)) is not None:
            stored, firing = found
            outlook = await self._runs.of(stored, firing.event)
            async with self._turns, self._units() as unit:
                locked = await self._triggers.lock(unit, [key])
                now = locked.get(key)
                if now is not None and now.version == stored.version and await self._may_go_on(unit, now, firing):
                    await self._end_wait(unit, locked, firing, outlook)

    async def _next_waiting(self, key: _Key) -> tuple[StoredRule, StoredFiring] | None:
        """The firing of a rule that may go on next; None where nothing waits or the limits allow no more."""
        async with self._turns, self._units() as unit:
            stored = (await self._triggers.lock(unit, [key])).get(key)
            if stored is None:
                await self._firings.drop(unit, *key, "the trigger is gone")
                return None
            expired = await self._firings.expire(unit, *key)
            unit.after_commit(lambda: EVENTS.labels("expired").inc(expired))
            waiting = await self._firings.waiting(unit, *key, 1)
            if waiting and await self._may_go_on(unit, stored, waiting[0]):
                return stored, waiting[0]
            return None

    async def _may_go_on(self, unit: Unit, stored: StoredRule, firing: StoredFiring) -> bool:
        """Whether that firing is still the first that waits, and the rule's limits allow one more run."""
        first = await self._firings.waiting(unit, firing.project, firing.trigger, 1)
        if not stored.rule.enabled or not first or first[0].id != firing.id:
            return False
        return not exceeded(stored.rule.limits, await self._firings.load(unit, stored.rule))

    async def _shots(self, stored: Sequence[StoredRule], event: CloudEvent, runaways: dict[_Key, int]) -> list[_Shot]:
        shots = list[_Shot]()
        for one in stored:
            if not one.rule.takes(event):
                continue
            outlook = await self._outlook(one, event, runaways)
            if not isinstance(outlook, Passed):
                shots.append(_Shot(one, event, outlook))
        return shots

    async def _outlook(self, stored: StoredRule, event: CloudEvent, runaways: dict[_Key, int]) -> Outlook:
        """What the rule would start. One that has run away in this batch is not tried for ever."""
        key = (stored.rule.project, stored.rule.name)
        if runaways.get(key, 0) >= RUNAWAYS:
            return Failed("not tried: the expressions ran away for the events before it", runaway=True)
        outlook = await self._runs.of(stored, event)
        if isinstance(outlook, Failed) and outlook.runaway:
            runaways[key] = runaways.get(key, 0) + 1
        return outlook

    async def _shoot(self, unit: Unit, locked: dict[_Key, StoredRule], shot: _Shot) -> None:
        now = locked.get(shot.key)
        if now is None or not now.rule.enabled:
            return
        if now.version != shot.stored.version:
            raise RuleChanged(now.rule.full_name)
        if await self._fire(unit, locked, shot) is None:
            unit.after_commit(EVENTS.labels("remembered").inc)

    async def _fire(
        self, unit: Unit, locked: dict[_Key, StoredRule], shot: _Shot, *, replayed: bool = False
    ) -> StoredFiring | None:
        """The firing, written; None where the event is remembered."""
        rule = shot.stored.rule
        count = number(await self._firings.before(unit, rule, shot.event), unit.now, replayed=replayed)
        if count is None:
            return None
        new = _new(unit, shot.stored, shot.event, count)
        if isinstance(shot.outlook, Failed):
            firing = replace(new, why=shot.outlook.why[:_WHY])
        else:
            firing = await self._decided(unit, shot.stored, shot.outlook, new)
        await self._firings.add(unit, firing)
        await self._note(unit, locked, shot, firing)
        return firing

    async def _decided(self, unit: Unit, stored: StoredRule, run: Run, new: StoredFiring) -> StoredFiring:
        match decide(stored.rule.limits, await self._firings.load(unit, stored.rule), unit.now):
            case Start():
                return await self._start(unit, stored, run, new)
            case Wait(until=until, why=why):
                return replace(new, outcome=Outcome.WAITING, why=why, deadline=until)
            case Drop(why=why):
                return replace(new, outcome=Outcome.DROPPED, why=why)

    async def _start(self, unit: Unit, stored: StoredRule, run: Run, firing: StoredFiring) -> StoredFiring:
        draft = run.named(stored.rule, firing.event, firing.number)
        (answer,) = await self._submit.make(unit, [draft], run.owner, caused_by=firing.event.name)
        if isinstance(answer, Refusal):
            return replace(firing, outcome=Outcome.ERROR, why=answer.message[:_WHY], deadline=None)
        return replace(
            firing,
            outcome=Outcome.STARTED,
            why="",
            name=answer.name,
            workload_id=answer.id,
            started_at=unit.now,
            deadline=None,
        )

    async def _end_wait(
        self, unit: Unit, locked: dict[_Key, StoredRule], firing: StoredFiring, outlook: Outlook
    ) -> None:
        """Settle a waiting firing by what it would start now, since rule, template and rights may be others."""
        stored = locked[firing.project, firing.trigger]
        if isinstance(outlook, Run):
            settled = await self._start(unit, stored, outlook, firing)
        else:
            dropped = isinstance(outlook, Passed)
            outcome = Outcome.DROPPED if dropped else Outcome.ERROR
            settled = replace(firing, outcome=outcome, why=outlook.why[:_WHY], deadline=None)
        await self._firings.settle(unit, settled)
        if not isinstance(outlook, Passed):
            await self._note(unit, locked, _Shot(stored, firing.event, outlook), settled)

    async def _note(self, unit: Unit, locked: dict[_Key, StoredRule], shot: _Shot, firing: StoredFiring) -> None:
        """Counts it, and switches a rule off whose expressions keep running away."""
        unit.after_commit(EVENTS.labels(firing.outcome.name.lower()).inc)
        stored = locked[shot.key]
        ran_away = isinstance(shot.outlook, Failed) and shot.outlook.runaway
        if not ran_away and not stored.runaways:
            return
        times = stored.runaways + 1 if ran_away else 0
        stopped = f"its expressions ran away {times} times in a row: {firing.why}"[:_WHY] if times >= RUNAWAYS else ""
        await self._triggers.ran_away(unit, stored.rule, times, stopped)
        rule = replace(stored.rule, enabled=not stopped)
        locked[shot.key] = replace(stored, rule=rule, runaways=times, stopped=stopped)


def _new(unit: Unit, stored: StoredRule, event: CloudEvent, count: int) -> StoredFiring:
    """A firing before its outcome is known."""
    rule = stored.rule
    return StoredFiring(
        id=identity.event_id(),
        project=rule.project,
        trigger=rule.name,
        event=event,
        number=count,
        outcome=Outcome.ERROR,
        at=unit.now,
        until=unit.now + rule.window,
    )
