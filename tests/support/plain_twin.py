"""The scheduler's state in a process of its own that has no compiler: it decides by the plain Python of its kernels.

Started by the state machine, told step by step what the compiled one is told. As a program it is that process: it reads
pickled steps from its input and answers each with its firm decisions as text; an empty step begins anew.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if __name__ == "__main__":
    sys.modules["numba"] = None  # type: ignore[assignment]  # before anything is imported that would compile

if TYPE_CHECKING:
    from muster_scheduler.domain.decisions import Decision
    from muster_scheduler.domain.events import Event
    from muster_scheduler.domain.state import State

_ROOT = Path(__file__).parents[2]
# Whether every class is looked at in each cycle, so that what is decided follows from the truth alone. MUSTER_ASLEEP=1:
# only those that were woken; a change that forgets to wake somebody is then found, by whichever law it breaks.
_AWAKE = os.environ.get("MUSTER_ASLEEP", "") != "1"
_MOST_CYCLES = 50  # a dozen gangs that each want room cost two or three


class Step(NamedTuple):
    """One transaction: its moment, its events; `retire`: what has been over for a while leaves, nothing is decided."""

    now: int
    events: tuple[Event, ...]
    retire: bool = False


def act(state: State, step: Step) -> list[Decision]:
    """Does a transaction and leaves it open; what was decided."""
    state.begin(step.now)
    for event in step.events:
        state.apply(event)
    if step.retire:
        state.world.retire()
    else:
        if _AWAKE:
            state.world.waiting.wake_all()
        decide(state)
    return list(state.plan().decisions)


def decide(state: State) -> None:
    """Runs cycles until one ends before its budget does: the service does so too, and laws hold of what is decided."""
    for _ in range(_MOST_CYCLES):
        if not state.propose():
            return
    raise AssertionError(f"{_MOST_CYCLES} cycles in a row have spent their budget on what waits")


class Twin:
    """The other end of the process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.plain_twin"]
        self._process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._told = 0  # steps of which nobody has read the answer

    def begin(self) -> None:
        """Forgets everything, also what was told and never asked for: a law was broken meanwhile."""
        while self._told:
            self.answer()
        self.tell(b"")
        assert self.answer() == "begun", "the twin does not know where it is"

    def tell(self, step: bytes) -> None:
        """Has it do a pickled step, while the one who tells does the same."""
        assert self._process.stdin is not None
        pickle.dump(step, self._process.stdin)
        self._process.stdin.flush()
        self._told += 1

    def answer(self) -> str:
        """The firm decisions of the first step of which that was not asked yet, as text."""
        assert self._process.stdout is not None
        self._told -= 1
        return str(pickle.load(self._process.stdout))  # noqa: S301 - from the process that we started

    def close(self) -> None:
        """Ends the process."""
        self._process.terminate()
        self._process.communicate()


def serve(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Answers until nobody asks any more."""
    from muster_scheduler.domain.compiling import _njit  # noqa: PLC0415 - only the process may import without numba
    from muster_scheduler.domain.state import State  # noqa: PLC0415
    from tests.support.checked_fleet import firm  # noqa: PLC0415
    from tests.support.machine_shapes import LIMITS  # noqa: PLC0415

    assert _njit is None, "the twin compiles"
    state = State(LIMITS)
    while True:
        try:
            step = pickle.load(incoming)  # noqa: S301 - from the process that started us
        except EOFError:
            return
        answer = "begun"
        if step:
            answer = repr(firm(act(state, pickle.loads(step))))  # noqa: S301 - as above
            state.commit()
        else:
            state = State(LIMITS)
        pickle.dump(answer, outgoing)
        outgoing.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
