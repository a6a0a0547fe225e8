"""The agent's end of the pump: finds the one that runs, or starts one, and asks it one thing at a time.

Used by `services.py`. Holds: a pump that runs is taken over with all its connections, also by another start of the
agent; one that does not answer is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import muster_cluster_agent
from muster_cluster_agent.errors import BackendError

_START_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 5.0
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from muster_cluster_agent.adapters.local.pump import main; main()"
)


class PumpClient:
    """One pump. lost: called when it has gone, so that what it carried can be said again to the next one."""

    def __init__(self, control: Path, errors: Path, lost: Callable[[], None]) -> None:
        self._control = control
        self._errors = errors
        self._lost = lost
        self._turn = asyncio.Lock()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def find(self) -> dict[int, tuple[int, ...]] | None:
        """Take over the pump that runs: its routes by port. None where none runs; one is started when it is needed."""
        async with self._turn:
            if not await self._connect():
                return None
        found = await self.ask({"list": True})
        return {int(port): tuple(targets) for port, targets in found["routes"].items()}

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Its answer. Raises BackendError where no pump can be had."""
        async with self._turn:
            if not await self._connect():
                await self._start()
            writer = self._writer
            if writer is None:
                raise BackendError("the pump of services ended as soon as it had started")
            try:
                writer.write(json.dumps(question).encode() + b"\n")
                async with asyncio.timeout(_ANSWER_SECONDS):
                    answer = await self._answers.get()
            except (OSError, TimeoutError) as error:
                await self._let_go()
                raise BackendError(f"the pump of services does not answer: {error}") from error
            except asyncio.CancelledError:
                await self._let_go()  # on this connection the next question would be given this one's answer
                raise
            if answer.get("lost"):
                await self._let_go()
                raise BackendError("the pump of services ended before it answered")
            return answer

    async def close(self) -> None:
        """Leave the pump alone: its services go on."""
        await self._let_go()

    async def _connect(self) -> bool:
        if self._writer is not None:
            return True
        try:
            folder = os.open(self._control.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                path = f"/proc/self/fd/{folder}/{self._control.name}"
                reader, self._writer = await asyncio.open_unix_connection(path)
            finally:
                os.close(folder)
        except OSError:
            return False
        self._answers = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(reader, self._answers), name="pump")
        return True

    async def _read(self, reader: asyncio.StreamReader, answers: asyncio.Queue[dict[str, Any]]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                answers.put_nowait(json.loads(line))
        answers.put_nowait({"lost": True})
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._lost()

    async def _start(self) -> None:
        async with asyncio.timeout(_START_SECONDS):
            word = await asyncio.to_thread(self._started)
        if word != b"ready\n" or not await self._connect():
            raise BackendError(f"the pump of services did not start; see {self._errors}")

    def _started(self) -> bytes:
        """Start a pump, which leaves its parent; its first word. Blocks."""
        source = str(Path(muster_cluster_agent.__file__).parent.parent)
        with (
            self._errors.open("ab") as errors,
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _CODE, source, str(self._control)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                env={name: os.environ[name] for name in ("PATH", "MUSTER_STACK_ID") if name in os.environ},
                start_new_session=True,
            ) as parent,
        ):
            return parent.stdout.readline() if parent.stdout is not None else b""

    async def _let_go(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
