"""Budgets of processor time: so much at once, refilled at a steady rate, for each of many keys.

Asked before expressions are evaluated, charged afterwards. Pure: the clock's reading is an argument, in seconds.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

_MOST_KEYS: Final = 10_000


class Budgets:
    """A token bucket for each key, of `capacity` seconds, refilled by `rate` seconds a second.

    A key without a bucket has all of its budget. A bucket may be overdrawn: a cost is known only afterwards.
    """

    def __init__(self, capacity: float, rate: float) -> None:
        self._capacity = capacity
        self._rate = rate
        self._used: dict[Hashable, tuple[float, float]] = {}  # seconds in use, and when that was so

    def exhausted(self, key: Hashable, now: float) -> bool:
        """Whether `key` has used up its budget."""
        return self._in_use(key, now) >= self._capacity

    def charge(self, key: Hashable, seconds: float, now: float) -> None:
        """Take `seconds` from the budget of `key`."""
        in_use = self._in_use(key, now) + seconds
        self._used.pop(key, None)
        self._used[key] = (in_use, now)
        if len(self._used) > _MOST_KEYS:
            del self._used[next(iter(self._used))]  # the one that was charged longest ago

    def _in_use(self, key: Hashable, now: float) -> float:
        seconds, since = self._used.get(key, (0.0, now))
        return max(0.0, seconds - (now - since) * self._rate)
