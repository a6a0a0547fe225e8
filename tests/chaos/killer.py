"""Kills or freezes what the plan says, when it says so, and lets the stack's keeper start it again.

Called by `play.py`. Everything is killed with SIGKILL: no handler, no farewell. Only processes of the run's own stack
and of its cluster are touched.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from muster_stack.errors import StackError
from muster_stack.processes import REPLICA_MARK, STACK_MARK
from tests.chaos.plan import SERVICES, SUPERVISOR, WIPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_stack.keeper.control import Stack
    from tests.chaos.plan import Kill
    from tests.support.kubernetes import Program

_WAIT_FOR_REPLICA = 20.0
_POLL = 0.1
_DOWN = (0.5, 5.0)  # seconds for which a program of the cluster stays down


class Killer:
    """The kills of one run, counted by what was really hit. programs: of a Kubernetes cluster, by name."""

    def __init__(self, stack: Stack, programs: Mapping[str, Program] | None = None) -> None:
        self._stack = stack
        self._programs = programs or {}
        self.hits: Counter[str] = Counter()
        self.moments: list[float] = []  # of the kills, on the monotonic clock

    async def run(self, kills: Iterable[Kill], since: float) -> None:
        """All kills at their times; `since` is the loop's time at the run's start. A late one follows at once."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as thaws:
            for kill in kills:
                await asyncio.sleep(max(0.0, since + kill.at - loop.time()))
                if kill.frozen:
                    await self._freeze(kill.target)
                    thaws.create_task(self._thaw(kill.target, kill.frozen), name=f"thaw-{kill.target}")
                else:
                    await self._kill(kill)

    async def _freeze(self, target: str) -> None:
        self.moments.append(time.monotonic())
        if target in self._programs:
            self._programs[target].send(signal.SIGSTOP)
        elif not await self._kill_part(target, signal.SIGSTOP):
            return
        self.hits[f"{target}-frozen"] += 1

    async def _thaw(self, target: str, after: float) -> None:
        """What was killed meanwhile runs again, and does not mind."""
        await asyncio.sleep(after)
        if target in self._programs:
            self._programs[target].send(signal.SIGCONT)
        else:
            await self._kill_part(target, signal.SIGCONT)

    async def _kill(self, kill: Kill) -> None:
        target = kill.target
        self.moments.append(time.monotonic())
        if target == SUPERVISOR and not await self._kill_supervisor(kill.pick):
            # The last replicas have ended before their killer came: the run owes as many kills as it was asked for.
            target = SERVICES[int(kill.pick * len(SERVICES)) % len(SERVICES)]
        if target == WIPE:
            await asyncio.to_thread(self._stack.wipe_kafka)
        elif target in self._programs:
            program, (least, most) = self._programs[target], _DOWN
            program.kill()
            await asyncio.sleep(least + kill.pick * (most - least))
            program.start()
        elif target != SUPERVISOR and not await self._kill_part(target):
            return
        self.hits[target] += 1
        self.moments.append(time.monotonic())  # a wipe takes seconds, and one that was late came now

    async def _kill_part(self, name: str, number: int = signal.SIGKILL) -> bool:
        """A part that is just being started again is killed as soon as it is there: a kill in a start counts too."""
        for _ in range(int(_WAIT_FOR_REPLICA / _POLL)):
            with suppress(StackError):
                if await asyncio.to_thread(self._stack.kill, name, number):
                    return True
            await asyncio.sleep(_POLL)
        return False

    async def _kill_supervisor(self, pick: float) -> bool:
        for _ in range(int(_WAIT_FOR_REPLICA / _POLL)):
            pids = supervisors(self._stack.layout.key)
            if pids:
                with suppress(ProcessLookupError):
                    os.kill(pids[int(pick * len(pids)) % len(pids)], signal.SIGKILL)
                    return True
            await asyncio.sleep(_POLL)
        return False


def marked(stack: str) -> list[tuple[int, str]]:
    """(pid, replica name) of every process of this stack that carries a replica's mark."""
    found = []
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        environment = _environment(pid)
        if environment.get(STACK_MARK) == stack:
            replica = environment.get(REPLICA_MARK)
            if replica:
                found.append((pid, replica))
    return found


def supervisors(stack: str) -> list[int]:
    """The pids of replicas' supervisors, in order: of each replica's processes the one that is the others' ancestor."""
    eldest: dict[str, int] = {}
    for pid, replica in sorted(marked(stack)):
        eldest.setdefault(replica, pid)
    return sorted(eldest.values())


def _environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.partition(b"=") for part in raw.split(b"\0") if part)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
