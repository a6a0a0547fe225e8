"""Gives programs processors of their own, as they have where they run on different machines.

Used by benchmarks whose figure is how much one of two can take, where both are on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil


@contextmanager
def apart(theirs: Collection[int]) -> Iterator[None]:
    """Half of the processors for these processes, the others for this one and its other children, until the block ends.

    Raises RuntimeError on a machine with one processor.
    """
    every = sorted(os.sched_getaffinity(0))
    if len(every) < 2:
        raise RuntimeError("this machine has one processor; two are needed to keep programs apart")
    half = len(every) // 2
    here = psutil.Process()
    ours = [here.pid, *(each.pid for each in here.children(recursive=True) if each.pid not in theirs)]
    try:
        _bind(theirs, every[:half])
        _bind(ours, every[half:])
        yield
    finally:
        _bind([*theirs, *ours], every)


def _bind(processes: Iterable[int], processors: Collection[int]) -> None:
    """Bind every thread of these processes; a thread that begins later follows the one that began it."""
    for pid in processes:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for thread in psutil.Process(pid).threads():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread.id, processors)
