"""Amounts of the 2.18 API as exact integers and back: decimal GPUs, millicores, memory in Mib, MB or GB, weights.

Called by quotas.py. Holds: what is read is what will be written back, to the unit; what is not exact is refused, never
rounded; nothing that was sent is taken for a number unless it is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from muster_kernel.quantities import GPU, MILLI

UNITS: Final = {"Mib": 1 << 20, "MB": 10**6, "GB": 10**9}
MEGABYTE: Final = 10**6
_LARGEST: Final = 1 << 62
_DIGITS: Final = 12


def gpu_units(value: Any) -> int:
    """GPUs in 1/7,000. Raises ValueError."""
    return _whole(value, Fraction(GPU), "GPUs, in steps of 0.001")


def cpu_milli(value: Any) -> int:
    """Millicores. Raises ValueError."""
    return _whole(value, Fraction(1), "millicores")


def memory_bytes(value: Any, units: str) -> int:
    """Bytes of an amount in Mib, MB or GB. Raises ValueError."""
    return _whole(value, Fraction(UNITS[units]), f"{units} that is a whole number of bytes")


def weight_milli(value: Any) -> int:
    """A weight in thousandths. Raises ValueError."""
    return _whole(value, Fraction(MILLI), "a weight, in steps of 0.001")


def unlimited(value: Any) -> bool:
    """Whether it says that there is no limit: null or -1."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value == -1)


def gpus(units: int) -> float | int:
    """1/7,000 GPU as GPUs."""
    return _plain(Fraction(units, GPU))


def weight(milli: int) -> float | int:
    """Thousandths as a weight."""
    return _plain(Fraction(milli, MILLI))


def best_units(amounts: Iterable[int]) -> str:
    """The unit in which all of them are whole: Mib, else MB; Mib where none is (which a double holds exactly)."""
    given = list(amounts)
    whole = next((unit for unit in ("Mib", "MB") if all(one % UNITS[unit] == 0 for one in given)), None)
    return whole or "Mib"


def in_units(amount: int, units: str) -> float | int:
    """Bytes in a unit."""
    value = Fraction(amount, UNITS[units])
    return int(value) if value.denominator == 1 else float(value)


def _whole(value: Any, factor: Fraction, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_shown(value)} is no number: 0 or more {what}")  # noqa: TRY004 - sent, not programmed
    # As it is written, else as a double holds it: that is how an odd number of bytes comes back in Mib.
    amount = Fraction(Decimal(repr(value))) * factor
    amount = amount if amount.denominator == 1 else Fraction(value) * factor
    if amount < 0 or amount.denominator != 1:
        raise ValueError(f"{_shown(value)}: expected 0 or more {what}")
    if amount > _LARGEST:
        raise ValueError(f"{_shown(value)} is too large")
    return int(amount)


def _plain(value: Fraction) -> float | int:
    return int(value) if value.denominator == 1 else round(float(value), _DIGITS)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}.."  # noqa: PLR2004 - what fits in a line
