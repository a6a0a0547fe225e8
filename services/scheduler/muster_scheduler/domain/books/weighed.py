"""Under which fair shares the classes of each node pool were blocked: others may let some of them take from others.

Kept by the queue for whoever wakes classes (turning/waking.py). Derived: where nobody knows, all are tried.
"""

from __future__ import annotations

from muster_scheduler.domain.shares.tree import Shares


class Weighed:
    """Fair shares by pool; None: classes were blocked under different ones."""

    def __init__(self) -> None:
        """Begins without any class blocked."""
        self._known: dict[str, Shares | None] = {}
        self._before: dict[str, Shares | None] = {}  # what the open transaction changed, as it was

    def renew(self, pool: str, shares: Shares) -> Shares | None:
        """All classes of a pool are looked at under these shares. Under which they were blocked before."""
        before = self._known.get(pool)
        if before != shares:
            self._write(pool, shares)
        return before

    def note(self, pool: str, shares: Shares) -> None:
        """Some classes of the pool may have been blocked under these shares."""
        if self._known.get(pool) != shares:
            self._write(pool, None)

    def _write(self, pool: str, shares: Shares | None) -> None:
        self._before.setdefault(pool, self._known.get(pool))
        self._known[pool] = shares

    def keep(self) -> None:
        """What has happened since the last `keep` stays."""
        self._before.clear()

    def give_up(self) -> None:
        """What has happened since the last `keep` has not."""
        self._known |= self._before
        self._before.clear()
