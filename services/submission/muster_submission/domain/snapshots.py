"""What a watcher has been shown by its snapshot, page by page.

A snapshot is read in pages, newest first, each exact at the change log's head of that moment. Changes are then read
from the first page's head on, and those that a later page already showed must not be shown again: the watcher would
see a workload fall back. Remembering one line a page is enough, because ids are ordered as the pages are.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field


@dataclass(slots=True)
class Shown:
    """`add` once a page, in order; then `has` for each change."""

    _lows: list[str] = field(default_factory=list)  # ids negated in order: kept descending, searched by position
    _heads: list[int] = field(default_factory=list)

    def add(self, lowest_id: str, head: int) -> None:
        """A page that ended with `lowest_id` ('' where it was the last page) was read when the log stood at `head`."""
        if self._lows and lowest_id >= self._lows[-1]:
            raise ValueError(f"pages go from new to old: {lowest_id!r} does not come after {self._lows[-1]!r}")
        self._lows.append(lowest_id)
        self._heads.append(head)

    @property
    def start(self) -> int:
        """The head of the first page: changes are read after it."""
        return self._heads[0] if self._heads else 0

    @property
    def settled(self) -> int:
        """The highest head: a change after it was in no page, and nothing has to be remembered any more."""
        return max(self._heads, default=0)

    def has(self, workload_id: str, sequence: int) -> bool:
        """Whether the snapshot's page of this workload was read after change number `sequence`."""
        if not self._lows or sequence > self.settled:
            return False
        page = self._page_of(workload_id)
        return page < len(self._heads) and sequence <= self._heads[page]

    def _page_of(self, workload_id: str) -> int:
        # The first page whose lowest id is not above the workload's.
        return bisect_left(self._lows, True, key=lambda low: low <= workload_id)
