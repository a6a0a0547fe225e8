"""A lane for each project with work for its triggers: events in the queue first, then firings that wait for limits.

An eternal task looks for such projects; each gets a task that ends when nothing is left. Holds: a project whose rules
are slow, or whose events fail, delays no other project; a database that is away for a while ends nothing; while the
disk is below its reserve nothing is fired, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from muster_chassis import logs
from muster_chassis.attempts import passes
from muster_chassis.health import Health
from muster_submission.errors import DiskReserveSpent
from muster_submission.handlers.firing import Firing
from muster_submission.ports import Reserve
from muster_submission.trigger_ports import Firings, TriggerQueue

_log = logs.get(__name__)
_LOOK_SECONDS: Final = 1.0
_CONDITION: Final = "triggers"


class Lanes:
    """The lanes of one process."""

    def __init__(self, firing: Firing, firings: Firings, queue: TriggerQueue, health: Health, reserve: Reserve) -> None:
        self._firing = firing
        self._firings = firings
        self._queue = queue
        self._health = health
        self._reserve = reserve
        self._wake = asyncio.Event()
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        firing.queued = self._wake.set

    async def run(self) -> None:
        """Keep a lane for each project with work. An eternal task."""
        try:
            while True:
                self._wake.clear()
                try:
                    await self._look()
                except Exception as error:
                    if not passes(error):
                        raise
                    _log.warning("the lanes of triggers are tried again in a second", error=repr(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._wake.wait()
        finally:
            for lane in self._lanes.values():
                lane.cancel()
            await asyncio.gather(*self._lanes.values(), return_exceptions=True)

    async def _look(self) -> None:
        try:
            self._reserve.check()
        except DiskReserveSpent as spent:
            self._health.degraded(_CONDITION, f"events wait and are fired later: {spent.message}")
            return
        waiting = dict[str, list[tuple[str, str]]]()
        for project in await self._queue.due():
            waiting[project] = []
        for project, trigger in await self._firings.with_waiting():
            waiting.setdefault(project, []).append((project, trigger))
        for project, keys in waiting.items():
            if project in self._lanes:
                self._again.add(project)
            else:
                self._lanes[project] = asyncio.create_task(self._lane(project, keys), name=f"triggers of {project}")
        aside = await self._queue.aside()
        if aside:
            self._health.degraded(_CONDITION, aside)
        else:
            self._health.good(_CONDITION)

    async def _lane(self, project: str, keys: list[tuple[str, str]]) -> None:
        """Work on a project until nothing is left of what was seen."""
        try:
            while await self._firing.fire(project):
                pass
            for key in keys:
                await self._firing.go_on(key)
        except DiskReserveSpent:
            pass  # spent while the lane worked: the next look says so
        except Exception as error:  # noqa: BLE001 - one project must not end the lanes of the others
            if not passes(error):
                _log.exception("the triggers of a project failed, tried again in a second", project=project)
            else:
                _log.warning("the triggers of a project are tried again", project=project, error=repr(error))
        else:
            if project in self._again:
                self._wake.set()  # something came while it worked
        finally:
            self._again.discard(project)
            del self._lanes[project]
