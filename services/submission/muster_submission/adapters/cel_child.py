"""The process in which CEL runs: reads questions, writes answers, and is ended by the kernel where one takes too long.

Started by `expressions` as `python -m`. CEL holds the interpreter's lock while it evaluates, and its own budget counts
steps, not their cost: ten thousand searches of a long text, or ten thousand copies of it, are within it. So the time is
measured by a CPU timer whose signal ends the process, memory by a limit of the process; the parent starts another one.
"""

from __future__ import annotations

import resource
import signal
import struct
import sys
import time
from typing import BinaryIO, Final

import msgspec

from muster_chassis import priority
from muster_submission.adapters import cel
from muster_submission.domain.expressions import Answer, Broken, Question, Schema

CPU_SECONDS: Final = 0.25
"""Processor time of one question."""
MEMORY: Final = 1 << 30
"""Bytes of address space beyond what the process has when it is ready."""
LENGTH: Final = struct.Struct(">I")


class Evaluate(msgspec.Struct, tag=True):
    """Evaluate these."""

    question: Question


class Check(msgspec.Struct, tag=True):
    """Say what is wrong with these."""

    expressions: dict[str, str]
    schema: Schema | None


class Told(msgspec.Struct, tag=True):
    """What is wrong, by key."""

    problems: dict[str, str]
    seconds: float = 0.0


class Answered(msgspec.Struct, tag=True):
    """Values of all expressions: whether the condition holds, and the texts."""

    matched: bool
    texts: dict[str, str]
    seconds: float = 0.0
    """Processor time of the question; so it is of the other answers."""


class Failed(msgspec.Struct, tag=True):
    """Some expression has no value."""

    why: str
    seconds: float = 0.0


def main() -> None:
    """Answers until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's; it closes the input
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    cel.problems({"ready": "true"}, None)
    priority.lower()
    _bound()
    decoder = msgspec.msgpack.Decoder(Evaluate | Check)
    while (frame := _read(source)) is not None:
        asked = decoder.decode(frame)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        began = time.process_time()
        found = _answer(asked)
        found.seconds = time.process_time() - began
        answer = msgspec.msgpack.encode(found)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(LENGTH.pack(len(answer)) + answer)
        sink.flush()


def _answer(asked: Evaluate | Check) -> Told | Answered | Failed:
    if isinstance(asked, Check):
        return Told(cel.problems(asked.expressions, asked.schema))
    found: Answer = cel.evaluate(asked.question)
    return Failed(found.why) if isinstance(found, Broken) else Answered(found.matched, dict(found.texts))


def _bound() -> None:
    with open("/proc/self/statm", encoding="ascii") as pages:  # noqa: PTH123 - a file of the kernel
        size = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return source.read(LENGTH.unpack(head)[0])


if __name__ == "__main__":
    main()
