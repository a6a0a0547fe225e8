"""Whether this process can do its work, and what keeps it from it.

Every part that may fail owns a named condition; the process serves while none of them is in trouble for longer than
its grace. The gRPC health service, /healthz and a gauge all show this one state. A degraded condition is shown in the
same places, and the process goes on serving: only a part of its work waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster_chassis import logs, metrics

_log = logs.get(__name__)

CONDITION = metrics.gauge(
    "muster_condition",
    unit="1 = good",
    meaning="Whether a condition of this process is good.",
    action="Where it stays 0: /healthz names the reason.",
    labels=("condition",),
)


@dataclass
class Health:
    """The conditions of one process. `grace`: seconds that a trouble may last before the process stops serving."""

    grace: float = 5.0
    clock: Callable[[], float] = time.monotonic
    _troubles: dict[str, tuple[str, float]] = field(default_factory=dict)
    _degraded: dict[str, str] = field(default_factory=dict)

    def good(self, condition: str) -> None:
        """`condition` holds."""
        trouble, degraded = self._troubles.pop(condition, None), self._degraded.pop(condition, None)
        if trouble is not None or degraded is not None:
            _log.info("condition is good again", condition=condition)
        CONDITION.labels(condition).set(1)

    def bad(self, condition: str, why: str, *, at_once: bool = False) -> None:
        """`condition` does not hold, and `why`. The first moment counts; `at_once` waits for no grace."""
        known = self._troubles.get(condition)
        if known is None:
            _log.warning("condition is bad", condition=condition, why=why)
        since = float("-inf") if at_once else known[1] if known else self.clock()
        self._troubles[condition] = (why, since)
        CONDITION.labels(condition).set(0)

    def degraded(self, condition: str, why: str) -> None:
        """A part of the work waits, and `why`; the process goes on serving. `good` ends it."""
        if condition not in self._degraded:
            _log.warning("condition is degraded", condition=condition, why=why)
        self._degraded[condition] = why
        CONDITION.labels(condition).set(0)

    def show(self, condition: str, why: str) -> None:
        """Show a condition as degraded while there is a reason, and as good once `why` is empty."""
        if why:
            self.degraded(condition, why)
        elif condition in self._degraded:
            self.good(condition)

    @property
    def waiting(self) -> dict[str, str]:
        """The degraded conditions, with their reasons."""
        return dict(sorted(self._degraded.items()))

    @property
    def troubles(self) -> dict[str, str]:
        """The conditions that keep this process from serving, with their reasons."""
        now = self.clock()
        return {name: why for name, (why, since) in sorted(self._troubles.items()) if now - since >= self.grace}

    @property
    def serving(self) -> bool:
        """Whether calls may come in."""
        return not self.troubles
