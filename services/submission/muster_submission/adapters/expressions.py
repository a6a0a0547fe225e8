"""CEL beside the event loop: one child process answers, and another one follows where it was ended.

Called by the handlers of triggers. Holds: no expression keeps the loop or the consumer for longer than its processor
time; a question that ends the child is answered as a runaway, and the next one finds a new child; a rule does not pay
for a machine that gives the child no processor time; an answer reaches the question that it belongs to, also where
others were given up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from muster_chassis import logs, metrics
from muster_submission.adapters.cel_child import CPU_SECONDS, LENGTH, Answered, Check, Evaluate, Failed, Told
from muster_submission.domain.expressions import Answer, Broken, Question, Schema, Values

_log = logs.get(__name__)
_ANSWER_SECONDS: Final = 10.0  # on a machine that gives the child no time; its own clock counts processor time
_LOST_SECONDS: Final = 2 * CPU_SECONDS  # what a question costs that ended its child: its time, and the next start
_LIMIT: Final = 16 << 20
_OURS: Final = frozenset({"MUSTER_DATABASE_URL"})  # what strangers' expressions run beside has no key to the books
_DECODER: Final[msgspec.msgpack.Decoder[Told | Answered | Failed]] = msgspec.msgpack.Decoder(Told | Answered | Failed)
_TIMED_OUT: Final = f"the expressions took more than {CPU_SECONDS:g} s of processor time"
_STARVED: Final = "the machine gave their process too little processor time"
_DIED: Final = "the expressions took more memory than they may have, or ended their process"

RUNAWAYS: Final = metrics.counter(
    "muster_trigger_runaways_total",
    unit="questions",
    meaning="CEL questions that ended their process: too much processor time or memory.",
    action="`muster triggers firings` names the rule; it is switched off by itself where it goes on.",
)


Spent = Callable[[float], None]
"""Hears how many seconds of processor time a question took."""


_Reply = Told | Answered | Failed | Broken


class CelProcess:
    """Expressions, evaluated in a child."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._asked: asyncio.Task[_Reply] | None = None  # kept: a loop holds tasks weakly

    @property
    def pid(self) -> int | None:
        """The child that answers now."""
        return self._child.pid if self._child else None

    async def evaluate(self, question: Question, spent: Spent | None = None) -> Answer:
        """The values of a rule's expressions over an event."""
        match await self._ask(Evaluate(question), spent):
            case Answered(matched=matched, texts=texts):
                return Values(matched, texts)
            case Failed(why=why):
                return Broken(why)
            case Broken() as broken:
                return broken
            case Told():
                raise AssertionError("the child answered another question")

    async def check(
        self, expressions: Mapping[str, str], schema: Schema | None, spent: Spent | None = None
    ) -> Mapping[str, str]:
        """What is wrong with expressions, by key."""
        match await self._ask(Check(dict(expressions), schema), spent):
            case Told(problems=problems):
                return problems
            case Broken(why=why) | Failed(why=why):
                return {"condition": why}
            case Answered():
                raise AssertionError("the child answered another question")

    async def close(self) -> None:
        """Ends the child."""
        async with self._turn:
            await self._end()

    async def _ask(self, asked: Evaluate | Check, spent: Spent | None) -> _Reply:
        await self._turn.acquire()
        # A question that its caller gives up is still answered: else the next one would be given its answer.
        self._asked = asyncio.create_task(self._in_turn(asked, spent))
        return await asyncio.shield(self._asked)

    async def _in_turn(self, asked: Evaluate | Check, spent: Spent | None) -> _Reply:
        try:
            answer = await self._answer(asked)
            if spent is not None:
                spent(_price(answer))
            return answer
        finally:
            self._turn.release()

    async def _answer(self, asked: Evaluate | Check) -> _Reply:
        """The answer, or why there is none. A child that is ended from outside, or is silent, costs one more try."""
        lost = Broken(_DIED, runaway=True)
        for _ in range(2):
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    return await self._exchange(asked)
            except TimeoutError:
                # Its own clock would have ended it after CPU_SECONDS: a silent child was not given them.
                await self._end()
                lost = Broken(f"the expressions had no answer within {_ANSWER_SECONDS:g} s: {_STARVED}")
            except (asyncio.IncompleteReadError, ConnectionError):
                code = await self._end()
                RUNAWAYS.inc()
                if code == -signal.SIGPROF:
                    return Broken(_TIMED_OUT, runaway=True)
                lost = Broken(_DIED, runaway=True)
        return lost

    async def _exchange(self, asked: Evaluate | Check) -> Told | Answered | Failed:
        child = await self._started()
        assert child.stdin is not None and child.stdout is not None  # noqa: S101, PT018 - both are pipes
        if child.stdin.is_closing():  # uvloop's own error for a write to it is no ConnectionError
            raise ConnectionResetError("the child has gone")
        frame = msgspec.msgpack.encode(asked)
        child.stdin.write(LENGTH.pack(len(frame)) + frame)
        await child.stdin.drain()
        (size,) = LENGTH.unpack(await child.stdout.readexactly(LENGTH.size))
        if size > _LIMIT:
            raise ConnectionError(f"an answer of {size} bytes")
        return _DECODER.decode(await child.stdout.readexactly(size))

    async def _started(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "muster_submission.adapters.cel_child",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: text for name, text in os.environ.items() if name not in _OURS},
            )
            _log.info("the process for expressions was started", pid=self._child.pid)
        return self._child

    async def _end(self) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        if child.returncode is None and child.stdin is not None and child.stdin.is_closing():
            child.kill()
        if child.returncode is None:
            # Its output has ended or it is hung: where it ended by itself the signal finds nobody.
            try:
                return await asyncio.wait_for(child.wait(), 0.5)
            except TimeoutError:
                child.kill()
        return await child.wait()


def _price(reply: _Reply) -> float:
    """What a question costs its rule and project, in seconds of processor time."""
    match reply:
        case Broken(runaway=runaway):
            return _LOST_SECONDS if runaway else 0.0
        case answered:
            return answered.seconds
