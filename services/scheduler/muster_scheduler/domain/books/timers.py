"""What has to be looked at again at a certain time: backoffs, left-out nodes, automatic deletion.

Derived and lazy: an entry only says "look then"; whether there is still something to do is read from the workload. So
an entry too many does no harm, and a rebuild simply asks every workload again. For the same reason what is due comes by
id: an entry too many, as an abort leaves some, says too early a time and would change the order of the decisions.
"""

from __future__ import annotations

import heapq


class Timers:
    """Times at which workloads want to be looked at."""

    def __init__(self) -> None:
        """Begins empty."""
        self._heap: list[tuple[int, str]] = []
        self._taken: list[tuple[int, str]] = []  # by the transaction that is open

    def at(self, time: int, workload: str) -> None:
        """Looks at the workload at that time (microseconds since 1970)."""
        heapq.heappush(self._heap, (time, workload))

    def due(self, now: int, most: int | None = None) -> list[str]:
        """Workloads whose time has come, each once, by id: not by time, which entries too many would change.

        most: of those whose time came first; the others stay due.
        """
        ripe: set[str] = set()
        while self._heap and self._heap[0][0] <= now and (most is None or len(ripe) < most):
            entry = heapq.heappop(self._heap)
            self._taken.append(entry)
            ripe.add(entry[1])
        return sorted(ripe)

    def keep(self) -> None:
        """What was due has been looked at, and that is written."""
        self._taken.clear()

    def give_up(self) -> None:
        """What was due since the last `keep` is due again."""
        for entry in self._taken:
            heapq.heappush(self._heap, entry)
        self._taken.clear()

    def listed(self) -> frozenset[tuple[int, str]]:
        """All entries, for checks."""
        return frozenset(self._heap)

    def next(self) -> int | None:
        """The time of the next entry, or None."""
        return self._heap[0][0] if self._heap else None
