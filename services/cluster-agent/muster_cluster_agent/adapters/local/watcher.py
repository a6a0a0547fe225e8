"""How the agent hears of its replicas: supervisors that tell, supervisors that end, servers that become ready.

Used by the local back end; everything runs in its event loop. Holds: a word that is lost costs time and never truth,
since what counts is read from the journal each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import structlog

from muster_cluster_agent.adapters.local import readiness
from muster_cluster_agent.adapters.local.register import Register
from muster_cluster_agent.adapters.local.replicas import EXEC_SOCKET, Replica, ReplicaStore
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.ports import Changed

_LONGEST_NAME: Final = 256

log = structlog.get_logger(__name__)


class Watcher:
    """Watches over the replicas of one register. found: called with each replica that was on the disk and not known."""

    def __init__(
        self, state: StateFolder, store: ReplicaStore, register: Register, found: Callable[[Replica], None]
    ) -> None:
        """Nothing is watched yet."""
        self._state = state
        self._store = store
        self._register = register
        self._found = found
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._pidfds: dict[str, int] = {}
        self._listener: socket.socket | None = None
        self._changes = asyncio.Event()
        self._changed: set[str] = set()
        self._fleet_changed = False
        self._unread: set[str] = set()  # replicas of which it was said that they cannot be read

    def open(self) -> None:
        """Listens where supervisors tell that their journal has grown."""
        path = self._state.socket
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hear)

    async def close(self) -> None:
        """Stops watching. Replicas and their supervisors go on."""
        for task in self._questions.values():
            task.cancel()
        await asyncio.gather(*self._questions.values(), return_exceptions=True)
        self._questions.clear()
        loop = asyncio.get_running_loop()
        for handle in self._pidfds.values():
            loop.remove_reader(handle)
            os.close(handle)
        self._pidfds.clear()
        if self._listener is not None:
            loop.remove_reader(self._listener.fileno())
            self._listener.close()

    async def changes(self) -> AsyncIterator[Changed]:
        """What changes from now on."""
        while True:
            await self._changes.wait()
            self._changes.clear()
            changed, self._changed = frozenset(self._changed), set()
            fleet, self._fleet_changed = self._fleet_changed, False
            yield Changed(changed, fleet=fleet, everything=fleet)

    def tell(self, workload_id: str) -> None:
        """A workload's replicas have changed."""
        self._changed.add(workload_id)
        self._changes.set()

    def tell_fleet(self) -> None:
        """Nodes or devices have changed, or a clock may have run out."""
        self._fleet_changed = True
        self._changes.set()

    def adopt(self, replica: Replica) -> None:
        """A replica that was found on the disk."""
        self._register.add(replica)
        self._found(replica)
        if replica.gone:
            return
        supervisor = replica.supervisor()
        if replica.supervised and supervisor is not None:
            self.attend(replica, supervisor[0])
            self._store.wake(replica)  # an agent may have died between writing that it has to stop and waking it
        self._ask(replica)

    def attend(self, replica: Replica, pid: int) -> bool:
        """Wakes up when the supervisor ends, however it ends; False where it has ended or no descriptor is left."""
        if replica.name in self._pidfds:
            return True
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        self._pidfds[replica.name] = handle
        asyncio.get_running_loop().add_reader(handle, self._supervisor_ended, replica.name)
        return True

    def reread(self, name: str) -> None:
        """Takes the journal's truth into memory. A small file that was just written: read at once, not in a thread.

        A replica that cannot be read stays as it is known and is one line in the log; the others are read.
        """
        self._contained(name, lambda: self._take(name))

    def adopt_found(self, replica: Replica) -> None:
        """Adopts a replica that was found when the agent started; one that cannot be is one line in the log."""
        self._contained(replica.name, lambda: self.adopt(replica))

    def _contained(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  what one replica has written must not keep the others unread
            if name not in self._unread:
                log.warning("replica_not_read", replica=name, why=f"{type(error).__name__}: {error}"[:300])
            self._unread.add(name)
        else:
            self._unread.discard(name)

    def _take(self, name: str) -> None:
        fresh = self._store.read(name)
        if fresh is None:
            return
        known = self._register.get(name)
        if known is None:
            self.adopt(fresh)
        else:
            known.spec = fresh.spec
            known.lines, known.supervised = fresh.lines, fresh.supervised or self._is_between(known, fresh)
            self._ask(known)
        self.tell(fresh.workload_id)

    def _is_between(self, known: Replica, fresh: Replica) -> bool:
        """Between the fork and the first line no process holds the journal, and yet one will."""
        return known.starting or (known.supervised and not fresh.lines and known.name in self._pidfds)

    def _supervisor_ended(self, name: str) -> None:
        handle = self._pidfds.pop(name, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)
        self.reread(name)

    def _hear(self) -> None:
        names = set()
        with contextlib.suppress(BlockingIOError):
            while self._listener is not None:
                names.add(self._listener.recv(_LONGEST_NAME).decode(errors="replace"))
        for name in names:
            self.reread(name)

    def _ask(self, replica: Replica) -> None:
        """Begins or ends to ask a replica whether it can serve; one that has nothing to be asked is ready once.

        It runs.
        """
        if not replica.running:
            replica.ready = False
            task = self._questions.pop(replica.name, None)
            if task is not None:
                task.cancel()
            return
        question = _question(replica, self._state.work)
        if question is None:
            replica.ready = True
        elif replica.name not in self._questions:
            self._questions[replica.name] = asyncio.create_task(
                self._ask_on(replica, question), name=f"ready {replica.name}"
            )

    async def _ask_on(self, replica: Replica, question: readiness.Question) -> None:
        def hear(ready: bool) -> None:  # noqa: FBT001  the one thing that there is to tell
            replica.ready = ready
            self.tell(replica.workload_id)

        probe = replica.spec.get("probe") or {}
        try:
            pace = readiness.Pace(**probe.get("pace", {}))
            await readiness.watch(question, pace, tell=hear, ready=replica.ready)
        except Exception:
            log.exception("readiness_failed", replica=replica.name)
            self._questions.pop(replica.name, None)  # asked anew when its journal is looked at again


def _question(replica: Replica, work: Path) -> readiness.Question | None:
    """What this replica is asked before it counts as ready; None: running is enough."""
    if replica.spec["launch"] == "MpiWorker":
        return readiness.unix(work, f"{os.path.relpath(replica.spec['told'], work)}/{EXEC_SOCKET}")
    probe = replica.spec.get("probe")
    if not probe:
        return None
    port = int(probe["port"])
    if not probe.get("path"):
        return readiness.tcp(port)
    return readiness.http(port, probe["path"], host=probe.get("host", ""), tls=bool(probe.get("tls")))
