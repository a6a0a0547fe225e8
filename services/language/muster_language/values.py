"""Text to the typed value that its catalogue row means; whether the value is within bounds is asked in `bounds`.

Called by the reader and by policy's documents. Pure.
Holds: a value that `typed` gives fits the protobuf field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from muster_kernel.quantities import GpuRequest, parse_gpu
from muster_language.catalogue import Row, nearest
from muster_language.catalogue import value_types as of

GPU_ALLOWED: Final = "0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices"
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
_SHOWN: Final = 60  # characters of a given value that an error quotes

Value = bool | int | float | str | list[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a value is not taken, and what would be."""

    message: str
    allowed: str = ""


def typed(row: Row, text: str) -> Value | Refused:
    """The value that the text says for a scalar row. Bounds are not looked at, except what the field could not hold."""
    return parser(row)(text)


@cache
def parser(row: Row) -> Callable[[str], Value | Refused]:
    """What `typed` does for a row, made once: the reader asks for each of hundreds of values."""
    if row.words is not None:
        return lambda text: _word(row, text)
    match row.type:
        case of.BOOLEAN:
            return _boolean
        case of.INTEGER:
            return lambda text: _integer(row, text)
        case of.NUMBER:
            return lambda text: _number(row, text)
        case of.ARRAY:
            return lambda text: [entry for entry in (part.strip() for part in text.split(",")) if entry]
        case _:
            return str


def gpu(text: str) -> GpuRequest | Refused:
    """A `gpu` request as YAML takes it."""
    try:
        return parse_gpu(text)
    except ValueError:
        return Refused(f"{shown(text)} is not a GPU request", GPU_ALLOWED)


def shown(text: str) -> str:
    """A given text as errors quote it: cut, and without anything that would break the line."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.."
    return cut if cut.isprintable() and cut.strip() == cut and cut else repr(cut)


def _word(row: Row, text: str) -> Value | Refused:
    words = row.words
    if words is None:
        raise ValueError(f"{row.name} has no words")
    number = words.by_word.get(text.casefold())
    if number is not None:
        return number
    near = nearest(text, list(words.by_number.values()))
    return Refused(f"{shown(text)} is not known{f'; did you mean {near}?' if near else ''}", words.allowed)


def _boolean(text: str) -> Value | Refused:
    if text in {"true", "True", "TRUE"}:
        return True
    if text in {"false", "False", "FALSE"}:
        return False
    return Refused(f"{shown(text)} is neither true nor false", "true or false")


def _integer(row: Row, text: str) -> Value | Refused:
    if not _WHOLE.fullmatch(text):
        return Refused(f"{shown(text)} is not a whole number", span(row))
    number = int(text)
    return number if 0 <= number <= of.LARGEST_INTEGER else Refused(outside(row, number), span(row))


def _number(row: Row, text: str) -> Value | Refused:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else Refused(f"{shown(text)} is not a number", span(row))


def outside(row: Row, value: Value) -> str:
    """How a number misses the bounds of its row."""
    if row.maximum is not None and float(str(value)) > row.maximum:
        return f"{value} is too large"
    return f"{value} is too small" if float(str(value)) < (row.minimum or 0) else f"{value} is out of range"


def span(row: Row) -> str:
    """The numbers that a row takes, for a person."""
    what = "a whole number" if row.type == of.INTEGER else "a number"
    low, high = row.minimum, row.maximum
    if low is not None and high is not None:
        return f"{what} from {low:.15g} to {high:.15g}"
    if low is not None:
        return f"{what} from {low:.15g} on"
    return f"{what} up to {high:.15g}" if high is not None else what
