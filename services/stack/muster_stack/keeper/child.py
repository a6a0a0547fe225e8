"""One part of a stack, kept alive.

Called by house.py, one task a part. Holds: a part that is wanted and not running is started again, after 0.2 s, twice
as long after each quick death, 5 s at most, for ever; what it left in its process group is killed before the next
start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from muster_stack.errors import StackError
from muster_stack.keeper import logs
from muster_stack.keeper.probes import Probe
from muster_stack.processes import Command, Identity, identify, kill_group

FIRST_PAUSE: Final = 0.2  # seconds before the first restart
LONGEST_PAUSE: Final = 5.0
_DOUBLINGS: Final = 5
_LONG_LIFE: Final = 10.0  # whoever lived this long starts again after the first pause
HOPELESS: Final = 5  # deaths in a row before it was ever ready: whoever waits for it may give up
_EAGER: Final = 0.1  # seconds between two probes of what starts
_CALM: Final = 2.0  # seconds between two probes of what is ready


class Phase(StrEnum):
    """What a part does now, as `muster status` shows it."""

    STOPPED = "stopped"  # nobody wants it to run
    STARTING = "starting"  # it runs and does not serve yet
    READY = "ready"
    UNREADY = "unready"  # it was ready and does not answer now
    RESTARTING = "restarting"  # it died; the pause before the next start


def nothing() -> None:
    """What most parts do before a start and after becoming ready."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the keeper has to know about a part. `prepare` and `settle` may block: they run in a thread."""

    name: str
    command: Callable[[], Command]
    ready: Probe
    prepare: Callable[[], None] = nothing
    settle: Callable[[], None] = nothing  # after it answers, before it counts as ready
    stop_signal: int = signal.SIGTERM
    stop_grace: float = 10.0  # seconds until SIGKILL
    owns_group: bool = True  # an agent does not: what it leaves behind is a user's replica
    addresses: tuple[tuple[str, str], ...] = ()  # ("grpc", "127.0.0.1:4711"): for people and clients
    calm: float = _CALM
    awaited: bool = True  # whether the next row waits for it; no part needs telemetry to start
    patient: bool = False  # whether it starts together with the row before and waits for that by itself


class Child:
    """A part and the process that it is now."""

    def __init__(self, part: Part, changed: Callable[[], None], say: Callable[[str], None]) -> None:
        """`changed` is called after every change of what is public here, `say` with what a person should read."""
        self.part = part
        self.phase = Phase.STOPPED
        self.identity: Identity | None = None
        self.since = time.time()  # of the phase's process
        self.restarts = 0
        self.failed_starts = 0  # since it was last ready or lived long
        self.last_exit: int | None = None
        self.why: str | None = None  # it is not ready, in its own words
        self.log: str = ""
        self._changed = changed
        self._say = say
        self._wanted = asyncio.Event()
        self._dropped = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ready = asyncio.Event()

    def want(self) -> None:
        """From now on it is to run."""
        self._dropped.clear()
        self._wanted.set()

    async def drop(self, *, grace: float | None = None) -> None:
        """From now on it is not to run: its stop signal, then SIGKILL after its grace. Returns when it is gone."""
        self._wanted.clear()
        self._dropped.set()
        self._signal(self.part.stop_signal)
        try:
            async with asyncio.timeout(self.part.stop_grace if grace is None else grace):
                await self._idle.wait()
        except TimeoutError:
            if grace != 0:
                self._say(f"{self.part.name} did not stop in time: killed")
            self._signal(signal.SIGKILL)
            await self._idle.wait()
        self._turn(Phase.STOPPED)

    @property
    def hopeless(self) -> bool:
        """Whether it dies whenever it is started. It is tried for ever all the same: the cause may go away."""
        return self.failed_starts >= HOPELESS

    async def until_ready(self) -> None:
        """Returns when it is ready, however often it has to start again."""
        await self._ready.wait()

    def send(self, number: int) -> bool:
        """Sends a signal as an outsider would: what it dies of is restarted. False where it does not run."""
        return self._signal(number)

    async def keep(self) -> None:
        """The eternal task: runs it whenever it is wanted."""
        quick_deaths = 0
        while True:
            await self._wanted.wait()
            began = time.monotonic()
            await self._live_once()
            if not self._wanted.is_set():
                continue
            self.restarts += 1
            self.failed_starts += 1
            if time.monotonic() - began > _LONG_LIFE:
                quick_deaths = self.failed_starts = 0
            self._turn(Phase.RESTARTING)
            if self.failed_starts == HOPELESS:
                self._say(told_dead(self.part.name, self.log))
            await self._rest(min(FIRST_PAUSE * 2**quick_deaths, LONGEST_PAUSE))
            quick_deaths = min(quick_deaths + 1, _DOUBLINGS)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._dropped.wait()
        except TimeoutError:
            return

    async def _live_once(self) -> None:
        self._idle.clear()
        try:
            await asyncio.to_thread(self.part.prepare)
            if self._wanted.is_set():
                await self._run(self.part.command())
        except (StackError, OSError) as error:
            self._say(f"{self.part.name} could not be started: {error}")
        finally:
            self.identity = None
            self.why = None
            self._idle.set()

    async def _run(self, command: Command) -> None:
        process = command.spawn()
        self.log = str(command.log)
        self.identity = identify(process.pid)
        self.since = time.time()
        self._turn(Phase.STARTING)
        if not self._wanted.is_set():
            process.terminate()
        async with _side_task(self._watch(), f"watch {self.part.name}"):
            self.last_exit = await _exit_of(process)
        if self.part.owns_group:
            kill_group(process.pid)
        if self._wanted.is_set():
            self._say(f"{self.part.name} {_how(self.last_exit)}{self._stalled()}; it is started again")

    def _stalled(self) -> str:
        return f": its event loop stood still, {self.log} says where" if logs.stood_still(Path(self.log)) else ""

    async def _watch(self) -> None:
        while True:
            self.why = await self._probe()
            if self.why is None and self.phase is Phase.STARTING:
                self.why = await self._settle()
            ready = self.why is None
            if ready:
                self._turn(Phase.READY)
            elif self.phase is Phase.READY:
                self._turn(Phase.UNREADY)
            await asyncio.sleep(self.part.calm if ready else _EAGER)

    async def _probe(self) -> str | None:
        try:
            return await self.part.ready()
        except OSError as error:  # no memory for a probe, say: the part itself may be well
            return f"it could not be asked: {error}"

    async def _settle(self) -> str | None:
        try:
            await asyncio.to_thread(self.part.settle)
        except StackError as error:
            self._say(f"{self.part.name}: {error}")
            return str(error)
        return None

    def _signal(self, number: int) -> bool:
        # Its exit is collected by our own loop only, so the pid cannot be another's here.
        if self.identity is None:
            return False
        os.kill(self.identity.pid, number)
        return True

    def _turn(self, phase: Phase) -> None:
        if phase is not self.phase:
            self.phase = phase
            if phase is Phase.READY:
                self.failed_starts = -1  # the death that ends this life is not a failed start
                self._ready.set()
            else:
                self._ready.clear()
            self._changed()


def told_dead(name: str, log: str) -> str:
    """What a person reads of a part that dies at every start: how its log ends, on which the cause usually stands."""
    end = logs.last_lines(Path(log)) if log else ""
    quoted = "".join(f"\n  {line}" for line in end.splitlines())
    return f"{name} died {HOPELESS} times within its first seconds; its log {log} ends:{quoted}"


def _how(status: int) -> str:
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _exit_of(process: subprocess.Popen[bytes]) -> int:
    """Waits for a child without a thread; returns its exit status, -n for a signal n."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    handle = os.pidfd_open(process.pid)
    try:
        loop.add_reader(handle, _resolve, ended)
        await ended
        return process.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


@asynccontextmanager
async def _side_task(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Runs an endless coroutine beside the body; an error in it is raised here."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()):
        raise error
