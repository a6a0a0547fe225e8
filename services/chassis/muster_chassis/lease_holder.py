"""The process that takes and renews a lease for the leading process: `python -m muster_chassis.lease_holder`.

`lease.Leadership` starts it. A rebuild blocks the event loop of the leader for longer than a lease lasts. A thread of
the same process would be blocked as long, because it needs the interpreter's lock. The process uses JSON lines. The
first line of its input has the connection's configuration; each later line answers a question for the floor. Its output
reports the state of the lease.

    in   {"dsn": .., "options": {..}, "schema": .., "name": .., "holder": .., "lease": seconds}
    out  {"floor": true}                    which epoch must the next one exceed?
    in   {"floor": 41}                      or {"floor": null}: the floor cannot be read now
    out  {"leads": epoch, "until": moment}  moments are seconds of the monotonic clock, which all processes share
    out  {"until": moment}                  renewed
    out  {"trouble": why}                   PostgreSQL does not answer; tried again
    out  {"lost": why}                      the last line
    in   end of file                        the leader has ended or stops leading: the lease is given back

Holds: its session has a PostgreSQL lock for its epoch, so that a candidate sees at once that this process has ended,
and does not wait until the lease expires. The process ends with the process that started it, and also when that process
is stopped (SIGSTOP). The watchdog ends a leader whose loop is blocked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import asyncpg

RENEW_SECONDS: Final = 1.0
MARGIN: Final = 0.5
_LEASE_SECONDS: Final = 5.0
_TRY_SECONDS: Final = 0.25
_LOOK_SECONDS: Final = 0.5
_LOOKS: Final = 2  # looks in a row that find the leader stopped: a profiler stops it for some milliseconds
_PAUSE: Final = 0.5
_PR_SET_PDEATHSIG: Final = 1
_STOPPED: Final = ("T", "t")
TROUBLE: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended($1, 2))"
_UNLOCK: Final = "SELECT pg_advisory_unlock(hashtextextended($1, 2))"
_LEADER: Final = """
SELECT holder, epoch, expires < clock_timestamp() AS over FROM lease_renewal WHERE name = $1
"""
_LOCKS: Final = "+lock"  # suffix of a holder whose session has the lock of its epoch
# A role may end its own sessions. The sessions of a stopped process would keep its transactions and locks for ever.
_END_SESSIONS: Final = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1"
_FIRST: Final = "INSERT INTO lease_renewal VALUES ($1, $2, 0, '-infinity') ON CONFLICT DO NOTHING"
# Waits for open transactions of the previous leader, which hold the row FOR SHARE; their timeouts limit the wait.
_EPOCH: Final = """
INSERT INTO lease_epoch AS e VALUES ($1, $2::bigint + 1)
ON CONFLICT (name) DO UPDATE SET epoch = greatest(e.epoch, $2::bigint) + 1 RETURNING epoch
"""
_TAKE: Final = """
UPDATE lease_renewal SET holder = $2, epoch = $3, expires = clock_timestamp() + make_interval(secs => $4)
WHERE name = $1
"""
_RENEW: Final = """
UPDATE lease_renewal SET expires = clock_timestamp() + make_interval(secs => $4)
WHERE name = $1 AND holder = $2 AND epoch = $3 RETURNING true
"""
_GIVE_BACK: Final = "UPDATE lease_renewal SET expires = '-infinity' WHERE name = $1 AND holder = $2"


class Contest:
    """The statements that take, renew and give back a lease, on one connection.

    holder: must differ between processes that live at the same time. sessions: the application_name that all sessions
    of the leader's process have, and no other process has. lease: how long the lease lasts, in seconds.
    """

    def __init__(
        self, connection: asyncpg.Connection, schema: str, name: str, holder: str, sessions: str, lease: float
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._name = name
        self._holder = f"{holder} {sessions}{_LOCKS}"
        self._sessions = sessions
        self._lease = lease
        self._locked = False
        self._gone = 0  # the epoch whose session was found to be gone

    async def free(self) -> bool:
        """Return whether a takeover may be tried: the lease has expired, or the session of the leader is gone."""
        found = await self._connection.fetchrow(_LEADER, self._name)
        if found is None or found["over"] or found["holder"] == self._holder:
            return True
        if not found["holder"].endswith(_LOCKS) or not await self._lock(found["epoch"]):
            return False
        await self._connection.execute(_UNLOCK, self._key(found["epoch"]))
        self._gone = found["epoch"]
        return True

    async def take(self, floor: int) -> int | None:
        """Take over and return the new epoch, above `floor`; None if another candidate was faster."""
        async with self._connection.transaction():
            await self._connection.execute(_FIRST, self._name, self._holder)
            (found,) = await self._connection.fetch(_LEADER + " FOR UPDATE", self._name)
            mine = found["holder"] == self._holder
            if not found["over"] and not mine and found["epoch"] != self._gone:
                return None
            await self._end_sessions(found["holder"])
            epoch: int = await self._connection.fetchval(_EPOCH, self._name, floor)
            # Lock before others can see the epoch: to them a free lock means that the leader is gone.
            self._locked = await self._lock(epoch)
            await self._connection.execute(_TAKE, self._name, self._holder, epoch, self._lease)
        return epoch

    async def renew(self, epoch: int) -> bool:
        """Renew the lease from now on; return whether `epoch` still holds it."""
        renewed = await self._connection.fetchval(_RENEW, self._name, self._holder, epoch, self._lease)
        if renewed and not self._locked:  # after a reconnect the previous session may still have the lock
            self._locked = await self._lock(epoch)
        return bool(renewed)

    async def give_back(self) -> None:
        """Let the next candidate take over at once."""
        await self._connection.execute(_GIVE_BACK, self._name, self._holder)

    async def _end_sessions(self, holder: str) -> None:
        """End the sessions of the previous leader. If its process still lives, it connects again and is deposed."""
        sessions = holder.removesuffix(_LOCKS).rpartition(" ")[2]
        if sessions != self._sessions:
            await self._connection.execute(_END_SESSIONS, sessions)

    def abandon(self) -> None:
        """Close the connection at once, without telling the server."""
        self._connection.terminate()

    async def _lock(self, epoch: int) -> bool:
        return bool(await self._connection.fetchval(_LOCK, self._key(epoch)))

    def _key(self, epoch: int) -> str:
        return f"{self._schema}/{self._name}/{epoch}"


class _Holder:
    """The work of the process between its first line and the end of its input."""

    def __init__(self, config: dict[str, Any], lines: asyncio.StreamReader) -> None:
        self._config = config
        self._lines = lines
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._lease = float(config["lease"])
        self._contest: Contest | None = None
        self._leader = os.getppid()

    async def run(self) -> None:
        """Take the lease once it is free, and hold it until it is lost or the leader ends."""
        tasks = [asyncio.create_task(each) for each in (self._listen(), self._look(), self._hold())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error
        with contextlib.suppress(*TROUBLE):
            async with asyncio.timeout(2):
                if self._contest is not None:
                    await self._contest.give_back()

    async def _listen(self) -> None:
        """Receive the answers of the leader until it ends or stops leading."""
        while line := await self._lines.readline():
            self._answers.put_nowait(line)

    async def _look(self) -> None:
        """Return when the process of the leader is stopped: it would hold the lease and decide nothing."""
        stopped = 0
        while stopped < _LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            stopped = stopped + 1 if _state_of(self._leader) in _STOPPED else 0

    async def _hold(self) -> None:
        epoch, until = await self._taken()
        say(leads=epoch, until=until)
        while True:
            await asyncio.sleep(RENEW_SECONDS * min(1.0, self._lease / _LEASE_SECONDS))
            asked = time.monotonic()
            try:
                async with asyncio.timeout(max(0.0, until - asked)):
                    contest = self._contest or await self._connected()
                    if not await contest.renew(epoch):
                        say(lost="another holds the lease")
                        return
            except TROUBLE as error:
                self._abandon()
                if time.monotonic() >= until:
                    say(lost=f"the lease could not be renewed: {error!r}")
                    return
                await asyncio.sleep(_PAUSE / 5)
            else:
                until = asked + self._lease - MARGIN
                say(until=until)

    async def _taken(self) -> tuple[int, float]:
        """Wait until the lease is free and take it. Return the epoch, and the time until which the lease lasts."""
        while True:
            try:
                contest = self._contest or await self._connected()
                if await contest.free():
                    floor = await self._floor()
                    asked = time.monotonic()
                    epoch = await contest.take(floor) if floor is not None else None
                    if epoch is not None:
                        return epoch, asked + self._lease - MARGIN
            except TROUBLE as error:
                self._abandon()
                say(trouble=repr(error))
                await asyncio.sleep(_PAUSE)
            await asyncio.sleep(_TRY_SECONDS)

    async def _floor(self) -> int | None:
        say(floor=True)
        found: int | None = json.loads(await self._answers.get())["floor"]
        return found

    def _abandon(self) -> None:
        """Drop a failed connection, and with it the lock of its session."""
        contest, self._contest = self._contest, None
        if contest is not None:
            contest.abandon()

    async def _connected(self) -> Contest:
        connection = await asyncpg.connect(self._config["dsn"], timeout=10, **self._config["options"])
        config = self._config
        sessions = config["options"]["server_settings"]["application_name"]
        self._contest = Contest(connection, config["schema"], config["name"], config["holder"], sessions, self._lease)
        return self._contest


def say(**fields: object) -> None:
    """Write one line to the leader. The leader exists: its end kills this process by a signal."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _state_of(pid: int) -> str:
    """Return the state of a process from /proc, such as R, S or T; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


async def _serve() -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    first = await lines.readline()
    if first:
        await _Holder(json.loads(first), lines).run()


def main() -> int:
    """Serve one leader until it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The leader handles an orderly stop itself: it closes the input of this process when it has finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asyncio.run(_serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
