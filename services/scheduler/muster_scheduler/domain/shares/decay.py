"""What a queue has used lately, fading: GPU time in a half-life window, in fixed point.

Called by the books: `fade` before what a queue holds changes, `part_of` when fair shares are made.
Integrated from the scheduler's own assignments, never from measurements.

What was held at time t counts 2^-((now - t) / half life). Normalised by the integral of these weights this is an
average: the average of a constant amount is that amount, and usage is the average over the capacity.
Holds: integers alone, no platform's exp; the average fades in ticks of 1/4,096 half life, aligned to the epoch, so that
settling often is the same as settling once but for the rounding of one unit a tick.
"""

from __future__ import annotations

from math import isqrt
from typing import Final, NamedTuple

from muster_scheduler.domain.shares.divide import MILLION

_SHIFT: Final = 30  # fractional bits of the fading factor
_ONE: Final = 1 << _SHIFT
_BITS: Final = 12
TICKS: Final = 1 << _BITS  # ticks of one half life
_FINE: Final = 16  # fractional bits of the average, so that rounding down does not eat small amounts


def _roots() -> tuple[int, ...]:
    """2^-(2^-i) for i = 1 .. 12 in fixed point, by integer square roots."""
    found, value = [], _ONE >> 1
    for _ in range(_BITS):
        value = isqrt(value << _SHIFT)
        found.append(value)
    return tuple(found)


_ROOTS: Final = _roots()


class Faded(NamedTuple):
    """A fading average. `level`: the average at the begin of the tick, in 2^-16 of the resource's unit.

    `area`: unit x microseconds held since then; `at`: until when it is settled, microseconds since 1970.
    """

    level: int = 0
    area: int = 0
    at: int = 0


def tick_of(half_life: int) -> int:
    """The length of a tick in microseconds. half_life: microseconds, at least 4,096."""
    return half_life // TICKS


def factor(ticks: int) -> int:
    """2^-(ticks / 4,096) in parts of 2^30."""
    halves, rest = divmod(ticks, TICKS)
    if halves >= _SHIFT:
        return 0
    value = _ONE
    for bit, root in enumerate(_ROOTS):
        if rest >> (_BITS - 1 - bit) & 1:
            value = value * root >> _SHIFT
    return value >> halves


def fade(past: Faded, held: int, now: int, half_life: int) -> Faded:
    """The average after `held` was held from `past.at` to `now`. Time that runs back changes nothing."""
    if now <= past.at:
        return past
    tick = tick_of(half_life)
    begun, current = past.at // tick, now // tick
    if begun == current:
        return Faded(past.level, past.area + held * (now - past.at), now)
    area = past.area + held * ((begun + 1) * tick - past.at)
    level = _towards(past.level, (area << _FINE) // tick, 1)
    level = _towards(level, held << _FINE, current - begun - 1)
    return Faded(level, held * (now - current * tick), now)


def _towards(level: int, held: int, ticks: int) -> int:
    kept = factor(ticks)
    return (level * kept + held * (_ONE - kept)) >> _SHIFT


def part_of(level: int, capacity: int) -> int:
    """An average (a `level`) as a part of the capacity, in millionths, at most all of it."""
    return min(MILLION, level * MILLION // (capacity << _FINE)) if capacity > 0 else 0
