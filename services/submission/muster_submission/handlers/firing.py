"""Firing: what events, waiting firings and replays make of rules, one after the other under the lock of each rule.

Called by the stream with events that are CloudEvents, by an eternal task for those that wait, and for replays. Holds:
within the rule's window an event fires a rule once, because the firing, the run's row and its WorkloadSubmitted are one
commit; what one rule cannot do with an event is that rule's firing, and the other rules never feel it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster_chassis import identity, metrics
from muster_chassis.unit import Unit
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.firings import Drop, Outcome, Start, Wait, decide, exceeded, number
from muster_submission.handlers.drafts import Refusal
from muster_submission.handlers.runs import Failed, Outlook, Passed, Run, Runs
from muster_submission.handlers.submit import Submit
from muster_submission.trigger_ports import Firings, StoredFiring, StoredRule, Triggers

RUNAWAYS: Final = 3
"""How many times in a row a rule's expressions may take too much before it is switched off."""
_AT_ONCE: Final = 50  # waiting firings of one rule that a transaction looks at
_WHY: Final = 2000
_Key = tuple[str, str]

EVENTS = metrics.counter(
    "muster_trigger_events_total",
    unit="events",
    meaning="What CloudEvents made of rules: started, waiting, dropped, expired, error, remembered (fired before); "
    "unmatched where no rule takes the event.",
    action="unmatched grows and should not: `muster triggers list` shows what is taken. Others: `triggers firings`.",
    labels=("outcome",),
)


@dataclass(frozen=True, slots=True)
class _Shot:
    """One event for one rule."""

    stored: StoredRule
    event: CloudEvent
    outlook: Run | Failed

    @property
    def key(self) -> _Key:
        return (self.stored.rule.project, self.stored.rule.name)


class Firing:
    """Fires rules."""

    def __init__(self, triggers: Triggers, firings: Firings, runs: Runs, submit: Submit) -> None:
        self._triggers = triggers
        self._firings = firings
        self._runs = runs
        self._submit = submit

    async def take(self, unit: Unit, events: Sequence[CloudEvent]) -> None:
        """Fires every rule that takes one of the events."""
        stored = await self._triggers.for_types({event.type for event in events})
        runaways = dict[_Key, int]()
        shots = [shot for event in events for shot in await self._shots(unit, stored, event, runaways)]
        if not shots:
            return
        locked = await self._triggers.lock(unit, {shot.key for shot in shots})
        for shot in shots:
            if shot.key in locked:
                await self._shoot(unit, locked, shot)

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

    async def go_on(self, unit: Unit, key: _Key) -> int:
        """Starts what waits for a rule as far as its limits allow, ends what waited too long; how many were settled."""
        locked = await self._triggers.lock(unit, [key])
        stored = locked.get(key)
        if stored is None:
            return await self._firings.drop(unit, *key, "the trigger is gone")
        settled = await self._firings.expire(unit, *key)
        unit.after_commit(lambda: EVENTS.labels("expired").inc(settled))
        if not stored.rule.enabled:
            return settled
        for firing in await self._firings.waiting(unit, *key, _AT_ONCE):
            if exceeded(stored.rule.limits, await self._firings.load(unit, stored.rule)):
                break
            await self._end_wait(unit, locked, firing)
            settled += 1
        return settled

    async def _shots(
        self, unit: Unit, stored: Sequence[StoredRule], event: CloudEvent, runaways: dict[_Key, int]
    ) -> list[_Shot]:
        shots = list[_Shot]()
        for one in stored:
            if not one.rule.takes(event):
                continue
            outlook = await self._outlook(one, event, runaways)
            if not isinstance(outlook, Passed):
                shots.append(_Shot(one, event, outlook))
        if not shots:
            unit.after_commit(EVENTS.labels("unmatched").inc)
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
        now = locked[shot.key]
        if not now.rule.enabled:
            return
        if now.version != shot.stored.version:
            # Somebody changed the rule since it was read: what it says now counts.
            outlook = await self._runs.of(now, shot.event)
            if isinstance(outlook, Passed):
                return
            shot = _Shot(now, shot.event, outlook)
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
        new = StoredFiring(
            id=identity.event_id(),
            project=rule.project,
            trigger=rule.name,
            event=shot.event,
            number=count,
            outcome=Outcome.ERROR,
            at=unit.now,
            until=unit.now + rule.window,
        )
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

    async def _end_wait(self, unit: Unit, locked: dict[_Key, StoredRule], firing: StoredFiring) -> None:
        """Asks again what a waiting firing would start, since rule, template and rights may be others by now."""
        stored = locked[firing.project, firing.trigger]
        outlook = await self._runs.of(stored, firing.event)
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
