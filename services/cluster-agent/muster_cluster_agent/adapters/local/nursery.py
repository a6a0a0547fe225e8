"""The agent's end of the fork server: asks for supervisors, and starts the server anew where it died.

Used by the local back end. Holds: a request that got no answer has an unknown outcome; the replica's journal tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import structlog

import muster_cluster_agent
from muster_cluster_agent.errors import BackendError

_READY: Final = b"ready\n"
_START_SECONDS: Final = 10.0
_FORK_SECONDS: Final = 10.0
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from muster_cluster_agent.adapters.local.forkserver import main; main()"
)

log = structlog.get_logger(__name__)


class Nursery:
    """One fork server and the requests that wait for it."""

    def __init__(self, errors: Path) -> None:
        """`errors`: the file for what supervisors say on standard error, which is only ever trouble."""
        self._errors = errors
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._answers: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._starting = asyncio.Lock()

    async def open(self) -> None:
        """Starts the server where none runs."""
        async with self._starting:
            if self._writer is not None and self._answers is not None and not self._answers.done():
                return
            await self.close()
            ours, theirs = socket.socketpair()
            source = str(Path(muster_cluster_agent.__file__).parent.parent)
            with self._errors.open("ab") as errors, theirs:
                self._process = subprocess.Popen(  # noqa: ASYNC220  a fork and an exec; its answer is awaited below
                    [sys.executable, "-I", "-S", "-c", _CODE, source],
                    stdin=theirs.fileno(),
                    stdout=errors,
                    stderr=errors,
                    cwd="/",
                    env={name: os.environ[name] for name in ("PATH", "MUSTER_STACK_ID") if name in os.environ},
                    start_new_session=True,
                )
            reader, self._writer = await asyncio.open_connection(sock=ours)
            async with asyncio.timeout(_START_SECONDS):
                if await reader.readline() != _READY:
                    raise BackendError(f"the fork server did not start; see {self._errors}")
            self._answers = asyncio.create_task(self._read(reader), name="fork-server")

    async def fork(self, folder: Path) -> int:
        """The pid of the new supervisor of a replica's folder. Raises BackendError or TimeoutError."""
        await self.open()
        if self._writer is None:
            raise BackendError("the fork server is not there")
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[str(folder)] = answer
        try:
            self._writer.write(f"{folder}\n".encode())
            async with asyncio.timeout(_FORK_SECONDS):
                pid = await answer
        finally:
            self._waiting.pop(str(folder), None)
        if pid == 0:
            raise BackendError("no process could be made for a supervisor (too many processes or too little memory)")
        return pid

    async def close(self) -> None:
        """Ends the server; the supervisors stay."""
        if self._answers is not None:
            self._answers.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._answers
            self._answers = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._process is not None:
            await asyncio.to_thread(_reap, self._process)
            self._process = None

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                pid, _, folder = line.decode().rstrip("\n").partition(" ")
                answer = self._waiting.get(folder)
                if answer is not None and not answer.done():
                    answer.set_result(int(pid))
        except ConnectionError:
            pass
        finally:
            log.debug("fork_server_ended")
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(BackendError("the fork server ended before it answered"))


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
