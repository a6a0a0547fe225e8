"""Waiting longer after every failure: doubling pauses with jitter, so that many who wait do not come back at once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Pauses of `first` seconds, doubled up to `last`; each is shortened at random by up to half."""

    first: float = 0.05
    last: float = 5.0
    attempts: int = field(default=0, init=False)

    def next(self) -> float:
        """The next pause, in seconds."""
        bound = min(self.last, self.first * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return bound * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is no secret

    async def pause(self) -> None:
        """Waits for the next pause."""
        await asyncio.sleep(self.next())

    def reset(self) -> None:
        """Begins again at `first`: it worked."""
        self.attempts = 0
