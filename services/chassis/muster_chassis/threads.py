"""Thread pools that are whole from the start.

Used for what blocks: files, locks, the operating system. Python's own pools start a thread whenever none is idle, up to
their bound, which in a quiet process takes hours: to an operator that looks like a leak.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier


def filled_pool(workers: int, name: str) -> ThreadPoolExecutor:
    """A pool of that many threads, all of which run when this returns. `name` begins the names of its threads."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
    together = Barrier(workers)  # each task keeps its thread until all threads have one
    wait([pool.submit(together.wait) for _ in range(workers)])
    return pool
