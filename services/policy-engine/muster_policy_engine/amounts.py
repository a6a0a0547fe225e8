"""Amounts of a row in base units, as bounds compare them and defaults are worked out from them.

Holds: 1Gi and 1024Mi are one amount; no amount is rounded on the way to its value, except down.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from muster_kernel.numbers import decimal
from muster_kernel.quantities import parse_bytes, parse_milli_cpu
from muster_language import Row
from muster_language.catalogue import value_types as of

_CORE: Final = 1_000  # base units of one core
_DECIMALS: Final = 1_000


class Unit(StrEnum):
    """What the values of a row count."""

    BYTES = "bytes"
    CORES = "CPU cores"
    NUMBER = "a plain number"


def unit_of(row: Row) -> Unit | None:
    """The unit of a row; None: its values are no amounts."""
    if row.type == of.QUANTITY:
        return Unit.CORES if row.quantity == "CPU" else Unit.BYTES
    return Unit.NUMBER if row.type in {of.INTEGER, of.NUMBER} else None


def comparable(row: Row, text: str) -> Decimal | int:
    """The amount that bounds compare: bytes, thousandths of a core or the number. Raises ValueError."""
    match unit_of(row):
        case Unit.CORES:
            return parse_milli_cpu(text)
        case Unit.BYTES:
            return parse_bytes(text)
        case _:
            return decimal(text)


def amount_of(row: Row, value: Any) -> Decimal | int:
    """The amount of a typed value. Raises ValueError."""
    return comparable(row, repr(value) if isinstance(value, float) else str(value))


def factor_of(target: Row, source: Row, text: str) -> Fraction:
    """How many base units of the target one base unit of the source gives.

    Between rows of one unit the text is a number (0.5). From a plain number to another unit it is an amount for each
    (16Gi). Raises ValueError for any other text and for rows between which there is no factor.
    """
    if unit_of(target) is unit_of(source):
        return Fraction(decimal(text))
    if unit_of(source) is Unit.NUMBER:
        return Fraction(comparable(target, text))
    if unit_of(source) is Unit.CORES and unit_of(target) is Unit.BYTES:
        return Fraction(comparable(target, text)) / _CORE
    raise ValueError(f"{unit_of(target)} cannot be worked out from {unit_of(source)}")


def value_from(target: Row, amount: Fraction) -> Any:
    """The value of the target for an amount in its base units: rounded down, a number to the step of its row.

    It is never below the least that the language takes, and never more than the field can hold.
    """
    match unit_of(target):
        case Unit.BYTES:
            return str(max(int(amount), 1))
        case Unit.CORES:
            return f"{max(int(amount), 1)}m"
        case _ if target.type == of.INTEGER:
            return min(max(int(amount), int(target.minimum or 0)), of.LARGEST_INTEGER)
        case _:
            step = Fraction(str(target.step)) if target.step else Fraction(1, _DECIMALS)
            return float(max(amount // step * step, Fraction(str(target.minimum or 0))))
