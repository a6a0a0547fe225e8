"""What is compiled before the first decision: kernels that would otherwise hold a cycle for seconds.

Called by app.py in a thread, before a candidate follows or leads; cheap where an earlier process has kept the code.
Holds: it reads nothing and changes nothing; without a compiler it is a few microseconds of plain Python.
"""

from __future__ import annotations

from muster_scheduler.domain import ahead


def warm_up() -> None:
    """Calls each kernel once on next to nothing, with the very types that decisions give it."""
    ahead.warm_up()
