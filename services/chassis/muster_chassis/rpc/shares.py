"""Fair shares of the event loop: how long a caller's next call waits when the loop is busy.

Used by the limiter of a service that people call. A process serves every caller on one loop: a caller that never
pauses takes the time of all others. What each caller used of the loop is measured and fades with a time constant of
one second. Where all callers together used more than 70 % of the loop, max-min fairness gives the level that each may
use. Callers above the level wait until their use has faded to it; callers below it are never delayed. A refused call
counts five times.
Holds: a caller who is alone is never delayed; the calls of one caller keep their order; the table is bounded by the
callers of the last seconds.
"""

from __future__ import annotations

import asyncio
import math
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from muster_chassis import metrics

T = TypeVar("T")
_FADES: Final = 1.0  # seconds in which a use fades to 37 %
_BUSY: Final = 0.7  # of the loop's time: calls' own steps reach no more where many callers work at full speed
_FORGOTTEN: Final = 0.001  # of the loop's time: some seven seconds after the last call
_REFUSED_COSTS: Final = 5.0  # times its time: a program that is refused again and again does no work
_LONGEST_PAUSE: Final = 0.25
_LEVEL_SECONDS: Final = 0.05
_SWEEP_SECONDS: Final = 10.0

WAITED: Final = metrics.histogram(
    "muster_calls_waited_seconds",
    unit="seconds",
    meaning="How long calls waited because their caller had used more than a fair share of a busy instance.",
    action="Grows steadily: some callers call without a pause; have them ask less often, or add an instance.",
    labels=(),
)


@dataclass(slots=True)
class _Account:
    """What one caller used. use: seconds of the loop a second, as of `at`; expected: seconds that a call takes."""

    use: float = 0.0
    at: float = 0.0
    expected: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Meter:
    """What one call took of the loop. refused: it was refused for a fault of its caller."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.refused = False


class Shares:
    """The accounts of one process. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._all = _Account()  # of all callers together
        self._level = (-math.inf, math.inf)  # when it was found, and the level
        self._swept = clock()

    async def turn(self, name: str) -> float:
        """Waits until the next call of this caller may begin; returns what it was charged in advance."""
        account = self._account(name)
        began = self._clock()
        async with account.turn:
            while (pause := self._pause(account)) > 0.0:  # noqa: ASYNC110 - what is waited for is time
                await asyncio.sleep(min(pause, _LONGEST_PAUSE))
            # In advance, so that a hundred calls that come at once are not all admitted at once.
            charged = account.expected
            self._add(account, charged)
        if (waited := self._clock() - began) > 0.0:
            WAITED.observe(waited)
        return charged

    def charge(self, name: str, charged: float, meter: Meter) -> None:
        """Puts what the call took in the place of what was charged in advance."""
        account = self._account(name)
        seconds = meter.seconds * (_REFUSED_COSTS if meter.refused else 1.0)
        self._add(account, seconds - charged)
        account.expected += (seconds - account.expected) / 8

    def pause(self, name: str) -> float:
        """Seconds until the caller's use has faded to its fair share; 0 where it may call now."""
        return self._pause(self._account(name))

    def _account(self, name: str) -> _Account:
        return self._accounts.setdefault(name, _Account(at=self._clock()))

    def _pause(self, account: _Account) -> float:
        # By the account itself: one that is waited for may leave the table between two turns.
        self._fade(self._all)
        self._fade(account)
        if self._all.use <= _BUSY or self._all.use - account.use <= _FORGOTTEN:
            return 0.0
        level = self._fair_level()
        return _FADES * math.log(account.use / level) if account.use > level else 0.0

    def _fair_level(self) -> float:
        """What each caller may use now. It looks at all accounts and is computed 20 times a second at most."""
        now, (found, level) = self._clock(), self._level
        if now - found < _LEVEL_SECONDS:
            return level
        self._sweep()
        level = fair_level((account.use for account in self._accounts.values()), _BUSY)
        self._level = (now, level)
        return level

    def _add(self, account: _Account, seconds: float) -> None:
        for each in (account, self._all):
            self._fade(each)
            each.use = max(0.0, each.use + seconds)
        if self._clock() - self._swept > _SWEEP_SECONDS:
            self._sweep()

    def _fade(self, account: _Account) -> None:
        now = self._clock()
        account.use *= math.exp((account.at - now) / _FADES)
        account.at = now

    def _sweep(self) -> None:
        """Brings all accounts up to now; forgets callers that have not called for some seconds."""
        self._swept = self._clock()
        for name, account in tuple(self._accounts.items()):
            self._fade(account)
            if account.use < _FORGOTTEN and not account.turn.locked():
                del self._accounts[name]


def fair_level(uses: Iterable[float], capacity: float) -> float:
    """The level L with sum(min(use, L)) = capacity: max-min fairness, also called water filling.

    Infinite where the uses together do not reach the capacity.
    """
    ordered, left = sorted(uses), capacity
    for index, use in enumerate(ordered):
        level = left / (len(ordered) - index)
        if use > level:
            return level
        left -= use
    return math.inf


@types.coroutine
def metered(work: Coroutine[Any, Any, T], meter: Meter) -> Generator[Any, Any, T]:
    """The result of `work`; each of its steps on this thread is added to the meter, what it waits for is not."""
    value: Any = None
    error: BaseException | None = None
    while True:
        began = time.thread_time()
        try:
            waited = work.send(value) if error is None else work.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            meter.seconds += time.thread_time() - began
        try:
            value, error = (yield waited), None
        except BaseException as thrown:  # noqa: BLE001 - a cancellation belongs to the work
            value, error = None, thrown
