"""The whole keeper: one process that starts a stack in order, keeps it, answers for it, and ends it in order.

Started by `python -m muster_stack.keeper` (which `muster up` becomes) and, with parts of their own, by the tests.
Holds: one keeper a data folder (a lock that dies with the process); when it ends by itself nothing is left running.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from muster_stack.bus.access import Access
from muster_stack.errors import AlreadyRunning, StackError
from muster_stack.kafka import KafkaServer
from muster_stack.keeper import control, sweep
from muster_stack.keeper.child import Child, Phase
from muster_stack.keeper.logs import keep_short
from muster_stack.keeper.parts import KAFKA, Parts, marks
from muster_stack.keeper.state import State, describe, ourselves, read
from muster_stack.layout import Layout

_AGENT: Final = "agent-"
_REQUESTS: Final = ("status", "kill", "wipe_kafka", "grant", "revoke", "rotate_kafka", "stop")
_REGISTER_PAUSE: Final = 1.0


class Keeper:
    """Runs the parts of one stack until it is told to stop."""

    def __init__(self, state: State, parts: Parts, *, register: Sequence[str] = (), say: Callable[[str], None]) -> None:
        """`register`: clusters to make known to submission. `say`: what a person at the terminal reads."""
        self._state = state
        self._parts = parts
        self._say = say
        self._layout = state.layout
        self._unregistered = set(register)
        self._registered = asyncio.Event()
        self._stopping = asyncio.Event()
        self._changing_kafka = asyncio.Lock()
        self._hurry = False
        self._children = {part.name: Child(part, self._write, say) for part in parts.all}

    async def run(self) -> None:
        """Until a signal or `stop`: then everything is ended, replicas too."""
        self._state.keeper = ourselves()
        self._listen_to_signals()
        server = await control.serve(self._layout.control, self._answer)
        try:
            async with asyncio.TaskGroup() as tasks:
                kept = [tasks.create_task(child.keep(), name=name) for name, child in self._children.items()]
                beside = (
                    tasks.create_task(self._open(), name="open"),
                    tasks.create_task(self._register(), name="register"),
                    tasks.create_task(keep_short(self._layout.logs), name="logs"),
                )
                await self._stopping.wait()
                for task in beside:
                    task.cancel()
                await self._close()
                for task in kept:
                    task.cancel()
        finally:
            sweep.end_services(self._layout)  # nothing is left after an orderly end; this is for any other
            self._state.keeper = None
            self._write()
            server.close()
            self._layout.control.unlink(missing_ok=True)  # last: whoever waits for our end looks at it

    async def _open(self) -> None:
        rows = self._parts.rows
        for row, following in zip(rows, (*rows[1:], ()), strict=True):
            children = [self._children[part.name] for part in row]
            for part in (*row, *(part for part in following if part.patient)):
                self._children[part.name].want()
            awaited = [child for child in children if child.part.awaited]
            await asyncio.gather(*(child.until_ready() for child in awaited))
            self._say(f"ready: {', '.join(child.part.name for child in awaited)}")
        await asyncio.gather(*(child.until_ready() for child in self._children.values()))
        await self._registered.wait()
        rest = f", REST: http://{self._parts.rest}" if self._parts.rest else ""
        self._say(f"Muster is up in {self._layout.root} (submission: {self._parts.submission}{rest}); Ctrl-C ends it")
        if self._state.application:
            self._say(f"calls need a token; the administrator's application is in {self._state.application}")

    async def _register(self) -> None:
        # Beside the start of the services, for which it waits: agents wait for the topics of their clusters.
        while self._unregistered and self._parts.submission:
            await asyncio.gather(*(self._children[part.name].until_ready() for part in self._parts.rows[0]))
            if await self._run_register(self._parts.submission) != 0:
                await asyncio.sleep(_REGISTER_PAUSE)
        self._registered.set()

    async def _run_register(self, address: str) -> int:
        login = ("--application", self._state.application) if self._state.application else ()
        argv = (sys.executable, "-m", "muster_stack.register", *login, address, *sorted(self._unregistered))
        environment = {**os.environ, **marks(self._layout, "register")}
        with self._layout.log("register").open("ab") as log:
            process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log, env=environment)
        status = await process.wait()
        if status == 0:
            self._unregistered.clear()
        return status

    async def _close(self) -> None:
        for row in reversed(self._parts.rows):
            if row is self._parts.rows[0]:
                # Kafka and PostgreSQL are still there, nobody else: what agents left running ends now.
                await asyncio.to_thread(sweep.end_replicas, self._layout)
            grace = 0.0 if self._hurry else None
            await asyncio.gather(*(self._children[part.name].drop(grace=grace) for part in row))
        await asyncio.to_thread(sweep.end_everything, self._layout)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._told_to_stop)

    def _told_to_stop(self) -> None:
        if self._stopping.is_set():
            self._hurry = True
            return
        self._say("stopping (once more: without patience)")
        self._stopping.set()

    def _write(self) -> None:
        self._state.write(list(self._children.values()))

    async def _answer(self, request: Mapping[str, Any]) -> Any:
        match request:
            case {"do": "status"}:
                return self._status()
            case {"do": "kill", "name": str(name), "signal": int(number)}:
                return self._child(name).send(number)
            case {"do": "wipe_kafka"}:
                async with self._changing_kafka:
                    return await self._wipe_kafka()
            case {"do": "grant", "cluster": str(cluster)}:
                return await self._grant(lambda access: access.grant_agent(cluster))
            case {"do": "grant", "topic": str(topic), "name": str(name)}:
                return await self._grant(lambda access: access.grant_producer(topic, name))
            case {"do": "revoke", "name": str(name)}:
                return await self._grant(lambda access: access.revoke(name))
            case {"do": "rotate_kafka"}:
                async with self._changing_kafka:
                    return await self._rotate_kafka()
            case {"do": "stop"}:
                self._told_to_stop()
                return True
            case _:
                raise StackError(f"unknown request {request}; there are {', '.join(_REQUESTS)}")

    def _status(self) -> dict[str, Any]:
        ready = all(child.phase is Phase.READY for child in self._children.values()) and not self._unregistered
        rows = {name: describe(child) for name, child in self._children.items()}
        return {
            "ready": ready,
            "unregistered": sorted(self._unregistered),
            "application": self._state.application,
            "services": rows,
            "confinement": self._confinement(),
        }

    def _confinement(self) -> dict[str, str]:
        """By cluster, how far replicas are confined, where its agent has told already."""
        clusters = [name.removeprefix(_AGENT) for name in self._children if name.startswith(_AGENT)]
        return {name: level for name in clusters if (level := self._layout.confinement(name))}

    def _child(self, name: str) -> Child:
        if name not in self._children:
            raise StackError(f"there is no part {name!r}; there are {', '.join(self._children)}")
        return self._children[name]

    def _kafka(self) -> KafkaServer:
        if self._parts.kafka is None:
            raise StackError("this stack has no Kafka of its own")
        return self._parts.kafka

    async def _grant(self, change: Callable[[Access], str | None]) -> str | None:
        """Changes who may use Kafka; returns what `change` did, once the broker knows it."""
        kafka = self._kafka()
        if kafka.access is None:
            raise StackError("this stack's Kafka takes every client")
        async with self._changing_kafka:
            try:
                name = await asyncio.to_thread(change, kafka.access)
            except (ValueError, OSError) as error:
                raise StackError(str(error)) from error
            await asyncio.to_thread(kafka.settle)
        return name

    async def _rotate_kafka(self) -> list[str]:
        """New passwords for all; the broker's start ends every connection that was opened with an old one."""
        try:
            names = await asyncio.to_thread(self._kafka().rotate)
        except OSError as error:
            raise StackError(f"not every password was replaced: {error}; try again") from error
        child = self._child(KAFKA)
        await child.drop()
        child.want()
        await child.until_ready()
        return names

    async def _wipe_kafka(self) -> str:
        kafka = self._kafka()
        child = self._child(KAFKA)
        await child.drop(grace=0)
        await asyncio.to_thread(kafka.wipe)
        child.want()
        await child.until_ready()
        broker = await asyncio.to_thread(kafka.ready)
        return broker.cluster_id if broker else ""


@contextmanager
def only_one(layout: Layout) -> Iterator[None]:
    """Holds the folder's lock in the block; it dies with the process, even by kill -9. Raises AlreadyRunning."""
    layout.make()
    with layout.lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            keeper = read(layout).get("keeper") or {}
            raise AlreadyRunning(
                f"a stack already runs in {layout.root} (process {keeper.get('pid', 'unknown')}): "
                "use it, end it with `muster down`, or start another one with --data FOLDER"
            ) from None
        yield
