"""With which seed a run draws its stories: the same in each run, unless others are wanted.

Read by conftest.py for all properties and by the scheduler's state machine, which runs in a process of its own. A gate
that draws anew in each run is red by chance, and speaks of the draw instead of the change
(docs/decisions/0008-a-gate-draws-the-same-stories.md).
"""

from __future__ import annotations

import os
import random
from typing import Final

NAME: Final = "MUSTER_SEED"
_USUAL: Final = 5


def seed() -> int:
    """What MUSTER_SEED says: a number; `random` for one that nobody has seen; the usual one where it says nothing."""
    said = os.environ.get(NAME, str(_USUAL))
    return random.randrange(1 << 32) if said == "random" else int(said)
