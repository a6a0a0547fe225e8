"""How a service lives: it opens its parts, runs its eternal tasks, and on SIGTERM stops in order.

`__main__.py` calls `run(name, settings, compose)`. Compose is the service's composition root: it opens resources with
`runtime.enter`, names eternal tasks with `runtime.eternal`, and returns. Holds: an eternal task that ends is an error
and ends the process (its keeper starts it again); so does a blocked loop (watchdog.py); a stop is bounded,
and in the order intake, drain, close.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import uvloop
from aiokafka.errors import KafkaError

from muster_chassis import heap, logs, tracing
from muster_chassis.health import Health
from muster_chassis.metrics import Exposition
from muster_chassis.settings import Settings
from muster_chassis.threads import filled_pool
from muster_chassis.watchdog import WATCHDOG

_log = logs.get(__name__)
_LAST_SECONDS: Final = 2.0
_THREADS: Final = 8  # of one process, for what blocks
_Resource = TypeVar("_Resource")
_Configured = TypeVar("_Configured", bound=Settings)
Stop = Callable[[], Awaitable[object]]


class EternalTaskEnded(Exception):
    """A task that never ends has ended."""


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    run: Callable[[], Awaitable[None]]
    stop: Stop | None


class Runtime:
    """The life of one process."""

    def __init__(self, settings: Settings, health: Health | None = None) -> None:
        self.settings = settings
        self.health = health or Health()
        self.stopping = asyncio.Event()
        self._tasks: list[_Task] = []
        self._drains: list[Stop] = []
        self._stack = AsyncExitStack()

    async def enter(self, resource: AbstractAsyncContextManager[_Resource]) -> _Resource:
        """Opens a resource that is closed at the end, the last opened first."""
        return await self._stack.enter_async_context(resource)

    def close_last(self, close: Stop) -> None:
        """Awaits `close` at the end, the last named first."""
        self._stack.push_async_callback(close)

    def eternal(self, name: str, run: Callable[[], Awaitable[None]], *, stop: Stop | None = None) -> None:
        """A task that never ends.

        stop: asks it to finish what it has in hand: intake, stopped before the drains. Without it the task is
        cancelled after them.
        """
        self._tasks.append(_Task(name, run, stop))

    def drain(self, action: Stop) -> None:
        """Awaited between the stop of the intake and the end of the other tasks: the relay sends what is left."""
        self._drains.append(action)

    async def live(self) -> None:
        """Runs the tasks until `stopping` is set or one of them fails; then stops in order and closes everything."""
        running: dict[str, asyncio.Task[None]] = {}
        try:
            for task in self._tasks:
                running[task.name] = asyncio.create_task(_forever(task), name=task.name)
            stopped = asyncio.create_task(self.stopping.wait(), name="stop")
            done, _ = await asyncio.wait({stopped, *running.values()}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            for finished in done - {stopped}:
                finished.result()
        finally:
            await self._end(running)

    async def _end(self, running: dict[str, asyncio.Task[None]]) -> None:
        try:
            async with asyncio.timeout(self.settings.shutdown_seconds):
                intake = [task for task in self._tasks if task.stop is not None and not running[task.name].done()]
                await asyncio.gather(*(_quietly(task.name, task.stop) for task in intake))
                for action in self._drains:
                    await _quietly("drain", action)
        except TimeoutError:
            _log.warning("the stop took too long; what is left is cancelled", seconds=self.settings.shutdown_seconds)
        for one in running.values():
            one.cancel()
        if running:
            await asyncio.wait(running.values(), timeout=_LAST_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.shutdown_seconds):
                await self._stack.aclose()


def run(
    name: str,
    settings: Callable[[], _Configured],
    compose: Callable[[Runtime, _Configured], Awaitable[None]],
) -> None:
    """Runs the service `name` until SIGTERM or SIGINT. Exits with 2 for settings that cannot work, 1 for a failure."""
    try:
        configured = settings()
    except ValueError as error:
        print(f"muster {name}: {error}", file=sys.stderr)  # noqa: T201 - logging is not configured yet
        raise SystemExit(2) from error
    logs.configure(name, configured.instance, configured.log_level)
    tracing.configure(name, configured.instance, configured.otlp_endpoint)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_main(configured, compose))
    except Exception as error:
        _log.exception("the service ends because of a failure", service=name)
        raise SystemExit(1) from error
    finally:
        tracing.close()


def _on_lost_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what no task took: in one line where it is Kafka's client, whose batches fail for themselves as well.

    Who sent the records hears of the failure by its own futures; the batch keeps one more that nothing reads.
    """
    error = context.get("exception")
    if isinstance(error, KafkaError):
        _log.warning("a batch of Kafka's client failed", why=str(error))
    else:
        loop.default_exception_handler(context)


async def _main(settings: _Configured, compose: Callable[[Runtime, _Configured], Awaitable[None]]) -> None:
    runtime = Runtime(settings)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_lost_exception)
    loop.set_default_executor(filled_pool(_THREADS, "blocking"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runtime.stopping.set)
    # Without this, whoever asks would hear "ready" from a process that has not even opened its database.
    runtime.health.bad("start", "the service is still opening its parts", at_once=True)
    health = runtime.health
    exposition = Exposition(settings.metrics_listen, lambda: health.troubles, lambda: health.waiting)
    exposition.start()
    watched = asyncio.create_task(WATCHDOG.run(settings.stall_seconds), name="watchdog")
    try:
        if await _unless_stopped(runtime, compose(runtime, settings)):
            # What was imported and opened stays. Each full collection would walk its 100,000 objects, and hold up every
            # call, for 60 ms on a busy machine.
            heap.settle()
            runtime.health.good("start")
            _log.info("running")
            await runtime.live()
        else:
            await runtime.live()
    finally:
        watched.cancel()
        exposition.stop()
    _log.info("stopped")


async def _unless_stopped(runtime: Runtime, composing: Awaitable[None]) -> bool:
    """Composes, unless a signal comes first: opening may wait for Kafka for a long time."""
    task = asyncio.ensure_future(composing)
    stopped = asyncio.ensure_future(runtime.stopping.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_LAST_SECONDS)
        return False
    task.result()
    return True


async def _forever(task: _Task) -> None:
    await task.run()
    if task.stop is None:
        raise EternalTaskEnded(f"the task {task.name} has ended; it never should")


async def _quietly(name: str, stop: Stop | None) -> None:
    if stop is None:
        return
    try:
        await stop()
    except Exception:  # noqa: BLE001 - one part must not keep the others from stopping
        _log.exception("a part could not be stopped in order", part=name)
