"""The last resort of a search: every set of a few candidates, when no order of putting back respects all queues.

Called by search.py where its orders fail. Sets are walked in Gray's order, so that each differs from the one before by
one workload; whether the gang fits is a kernel's answer, whether queues agree is judged from the smallest set on.
Holds: complete up to `MOST` candidates, not tried above; a set is only judged if it has no smaller fitting part.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster_scheduler.domain.compiling import lean
from muster_scheduler.domain.room.stock import Need, Stock, count, lift, shift_all
from muster_scheduler.domain.room.values import Bools, Held, Ints, Judge, Running

MOST: Final = 14  # candidates: 16,384 sets


def smallest(
    stock: Stock,
    running: Running,
    need: Need,
    inside: Bools,
    members: Ints,
    size: int,
    judge: Judge,
    released: tuple[Ints, Ints],
) -> tuple[Ints | None, bool]:
    """The smallest set that makes room and that `judge` allows (None: there is none), and whether all were looked at.

    released: int64[m, k] and int64[k], what each member's leaving counts towards limits, and how much they need.
    Before and after: all members are lifted from the stock.
    """
    if len(members) > MOST:
        return None, False
    fits = np.zeros(1 << len(members), np.bool_)
    counts = count(stock, need, inside, size)
    walk(stock, running.held, need, inside, counts, members, size, fits)
    lift(stock, running.held, members[_left_behind(len(members))], 1)
    gives, least = released
    if len(least):
        sets = np.arange(len(fits))[:, None] >> np.arange(len(members)) & 1
        fits &= (sets @ gives >= least).all(axis=1)
    for chosen in _minimal(fits, len(members)):
        victims = members[[bit for bit in range(len(members)) if chosen >> bit & 1]]
        if not judge(victims).any():
            return victims, True
    return None, True


def _left_behind(number: int) -> list[int]:
    """Which members the walk leaves put back at its end: the last number in Gray's order."""
    last = ((1 << number) - 1) ^ ((1 << number) - 1) >> 1
    return [bit for bit in range(number) if last >> bit & 1]


def _minimal(fits: Bools, number: int) -> list[int]:
    """The fitting sets of which no member could stay, the smallest first, then those of earlier candidates."""
    least = fits.copy()
    for bit in range(number):
        # Rows by the bits above, then with or without this one, then by the bits below.
        least.reshape(-1, 2, 1 << bit)[:, 1] &= ~fits.reshape(-1, 2, 1 << bit)[:, 0]
    return sorted(np.flatnonzero(least).tolist(), key=lambda s: (s.bit_count(), s))


@lean
def walk(
    stock: Stock, held: Held, need: Need, inside: Bools, counts: Ints, members: Ints, size: int, fits: Bools
) -> None:
    """fits[s]: whether the gang fits when set s of the members (a bit each) has left. All of them begin lifted."""
    everybody = len(fits) - 1
    total = 0
    for n in range(len(counts)):
        total += counts[n]
    back = 0  # the set of those put back
    fits[everybody] = total >= size
    for step in range(1, len(fits)):
        gray = step ^ step >> 1
        bit = 0
        while not (gray ^ back) >> bit & 1:
            bit += 1
        sign = 1 if back >> bit & 1 else -1
        total += shift_all(stock, held, need, inside, counts, size, members[bit], sign)
        back = gray
        fits[everybody ^ back] = total >= size
