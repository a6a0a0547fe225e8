"""How often someone may try: a bucket of tries for each, refilled with time.

Called by the token route with the address that asks. Holds: at most `most` are remembered, the longest silent goes
first; whoever is forgotten begins with a full bucket.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Rates:
    """Buckets by name. size: tries at once; refill: tries a second."""

    size: float
    refill: float
    most: int = 10_000
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def take(self, name: str, now: float, cost: float = 1.0) -> float:
        """Takes `cost` out of a bucket. Returns 0.0, or the seconds until there is enough; then nothing was taken."""
        left, since = self._left.pop(name, (self.size, now))
        left = min(self.size, left + max(0.0, now - since) * self.refill)
        wait = 0.0 if left >= cost else (cost - left) / self.refill
        self._left[name] = (left if wait else left - cost, now)
        if len(self._left) > self.most:
            del self._left[next(iter(self._left))]
        return wait

    def charge(self, name: str, now: float, cost: float) -> None:
        """Takes `cost` even where there is not that much: what went wrong is dearer than what went well."""
        left, since = self._left.pop(name, (self.size, now))
        left = min(self.size, left + max(0.0, now - since) * self.refill)
        self._left[name] = (max(-self.size, left - cost), now)
