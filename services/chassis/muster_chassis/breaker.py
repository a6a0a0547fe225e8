"""When nearly everything on a topic is refused, the fault is not in the records (rule 11).

The consumer asks after each record. Pure: a ring of the last thousand outcomes a topic.
"""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW: Final = 1000
LEAST: Final = 100


class Breaker:
    """The last outcomes of one topic. Trips when more than half of the last 1,000, at least 100, were rejected."""

    def __init__(self) -> None:
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._rejected = 0

    def note(self, *, rejected: bool) -> None:
        """One more record."""
        if len(self._outcomes) == WINDOW and self._outcomes[0]:
            self._rejected -= 1
        self._outcomes.append(rejected)
        self._rejected += rejected

    @property
    def tripped(self) -> bool:
        """Whether the consumer must stop."""
        return len(self._outcomes) >= LEAST and 2 * self._rejected > len(self._outcomes)

    @property
    def counts(self) -> tuple[int, int]:
        """How many were rejected, of how many."""
        return self._rejected, len(self._outcomes)

    def reset(self) -> None:
        """Begins to count anew: someone has looked and resumed."""
        self._outcomes.clear()
        self._rejected = 0
