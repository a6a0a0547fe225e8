"""How often the garbage collector looks, once a service runs or a state is in memory.

Called by the runtime when a service has opened its parts, by the scheduler when a term of leading begins, and by
benchmarks, so that they measure what a service does. What is there stays and is never walked again. What comes later
mostly stays too, or goes with its last reference, since few objects refer to each other in circles. With Python's usual
thresholds the scheduler spent as much on walking a burst of 32,000 placements as on deciding them, and an agent that
made 10,000 pods spent a fifth of its time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 50_000
"""Objects more than were given back, after which the young ones are walked; Python's own: 700. Most of what one JSON
text or one record is made of has gone by then: the agent spent 9 % of its time with 5,000, and 3 % with this."""
_MIDDLE: Final = 50
_OLD: Final = 50


@contextmanager
def filling() -> Iterator[None]:
    """While a state is read nothing is collected: all of it stays, and each collection would walk all of it again.

    Afterwards, if it could be read, what there is now is left out of every collection until `release`.
    """
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was:
            gc.enable()


def settle() -> None:
    """What is there now is left out of every collection from here on; what comes is looked at in larger portions."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def release() -> None:
    """A term has ended: its state goes."""
    gc.unfreeze()
