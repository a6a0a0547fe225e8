"""Runs commands side by side and shows what they print one after the other.

Called by `test`. A lane is a list of commands that run in order; the lanes run at the same time. A person sees the
output of the first command while it runs, then that of the next one from its beginning.
Holds: the first command that fails ends all others, and its output comes last; no process is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from verbs.paths import ROOT
from verbs.shell import VerbFailed, words_of

_POLL_SECONDS: Final = 0.2
_END_SECONDS: Final = 30.0  # for servers and stacks of tests to stop in order
_LOW_PRIORITY: Final = 15


@dataclass(eq=False)
class Step:
    """One command of a lane. yields: it takes the processor time that the other lanes leave."""

    name: str
    command: Sequence[str | Path]
    yields: bool = False
    output: IO[bytes] = field(init=False)  # a file without a name, while the lanes run
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    shown: int = 0  # bytes of the output


Shown = Step | Callable[[], None]
"""What a person sees in its turn: the output of a step, or a function that prints once those before it have ended."""


def run_lanes(lanes: Sequence[Sequence[Step]], shown: Sequence[Shown]) -> None:
    """Runs all steps and shows them in the order of `shown`. Raises VerbFailed with the code of the one that failed."""
    with contextlib.ExitStack() as files:
        for step in (step for lane in lanes for step in lane):
            step.output = files.enter_context(tempfile.TemporaryFile())
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A shell that runs us in the background has us ignore it. The commands inherit that, and are ended by it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            asyncio.run(_run_all(lanes, shown))
        except* VerbFailed as failed:
            raise failed.exceptions[0] from None
        except* asyncio.CancelledError:
            raise VerbFailed("it was told to stop", code=128 + signal.SIGTERM) from None


async def _run_all(lanes: Sequence[Sequence[Step]], shown: Sequence[Shown]) -> None:
    if (me := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    async with asyncio.TaskGroup() as group:
        for lane in lanes:
            group.create_task(_run(lane))
        group.create_task(_show(shown))


async def _run(lane: Sequence[Step]) -> None:
    for step in lane:
        code = await _ended(step)
        step.ended.set()
        if code != 0:
            _show_rest(step)
            raise VerbFailed(f"{step.name} ended with {code}", code=code)


async def _ended(step: Step) -> int:
    """The exit code of the step's command, 128 + n where signal n ended it."""
    lowered = ["nice", "-n", str(_LOW_PRIORITY)] if step.yields else []
    words = [*lowered, *words_of(step.command)]
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdout=step.output, stderr=step.output, start_new_session=True
    )
    try:
        if step.yields:
            _lower_session_of(process.pid)
        code = await process.wait()
    finally:
        await _end(process)
    return code if code >= 0 else 128 - code


def _lower_session_of(pid: int) -> None:
    """Where the kernel groups processes by session (sched(7), autogroup), `nice` counts within a session only.

    muster_chassis.priority does it for a process itself. The verbs are standard library alone and do it for a command.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(_LOW_PRIORITY))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends what is left of the command's processes, as Ctrl-C does, and then by force."""
    with contextlib.suppress(ProcessLookupError, TimeoutError):
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _show(shown: Sequence[Shown]) -> None:
    for each in shown:
        if not isinstance(each, Step):
            await asyncio.to_thread(each)
            continue
        while not each.ended.is_set():
            _show_rest(each)
            await asyncio.sleep(_POLL_SECONDS)
        _show_rest(each)


def _show_rest(step: Step) -> None:
    """Prints what was not printed yet of the step's output."""
    while chunk := os.pread(step.output.fileno(), 1 << 20, step.shown):
        step.shown += len(chunk)
        sys.stdout.buffer.write(chunk)
    sys.stdout.flush()
