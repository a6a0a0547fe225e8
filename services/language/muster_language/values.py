"""One value against its catalogue row: text to typed value on the way in, and the bounds that every layer has to keep.

Called by the reader (`typed`) and by the LAYER stage of validation (`refusal`). Pure.
Holds: a value that `typed` gives fits the protobuf field; a value without `refusal` is legal in a layer by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

from muster_kernel.quantities import GpuRequest, parse_bytes, parse_gpu, parse_milli_cpu, portion_milli
from muster_language import value_types as of
from muster_language.catalogue import Row, nearest

GPU_ALLOWED: Final = "0 is no GPU, 0.01 to 1 a portion, a whole number above 1 that many devices"
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
_POOL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SHOWN: Final = 60  # characters of a given value that an error quotes
_MOST_ENTRIES: Final = 64

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


def refusal(row: Row, value: Value) -> Refused | None:
    """Why a typed value breaks the row's own bounds; None where it keeps them."""
    return _check(row)(value)


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
        return Refused(f"{shown(text)} is not a whole number", _range(row))
    number = int(text)
    return number if 0 <= number <= of.LARGEST_INTEGER else Refused(_outside(row, number), _range(row))


def _number(row: Row, text: str) -> Value | Refused:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    return number if math.isfinite(number) else Refused(f"{shown(text)} is not a number", _range(row))


@cache
def _check(row: Row) -> Callable[[Value], Refused | None]:
    """The row's check, made once: at 300 workloads a second nobody wants to look the bounds up again each time."""
    if row.name == "gpu_portion_request":
        return _portion
    if row.words is not None:
        return _known(row)
    makers: dict[int, Callable[[Row], Callable[[Value], Refused | None]]] = {
        of.BOOLEAN: lambda _: _anything,
        of.INTEGER: _bounds,
        of.NUMBER: _bounds,
        of.QUANTITY: _quantity,
        of.ARRAY: lambda _: _entries,
    }
    return makers.get(row.type, _text)(row)


def _anything(_: Value) -> Refused | None:
    return None


def _portion(value: Value) -> Refused | None:
    try:
        portion_milli(float(str(value)))
    except ValueError:
        return Refused(f"{value} is not a GPU request", GPU_ALLOWED)
    return None


def _known(row: Row) -> Callable[[Value], Refused | None]:
    words = row.words
    numbers = frozenset(words.by_number) if words else frozenset[int]()
    allowed = words.allowed if words else ""
    return lambda value: None if value in numbers else Refused(f"{value} is not known", allowed)


def _bounds(row: Row) -> Callable[[Value], Refused | None]:
    low = -math.inf if row.minimum is None else row.minimum
    high = math.inf if row.maximum is None else row.maximum

    def check(value: Value) -> Refused | None:
        number = float(str(value))
        if not math.isfinite(number):
            return Refused(f"{value} is not a number", _range(row))
        if not low <= number <= high:
            return Refused(_outside(row, value), _range(row))
        if row.step and (Decimal(str(value)) - Decimal(str(row.minimum or 0))) % Decimal(str(row.step)):
            return Refused(f"{value} is not a step of {row.step:g}", _range(row))
        return None

    return check


def _quantity(row: Row) -> Callable[[Value], Refused | None]:
    parse = parse_milli_cpu if row.quantity == "CPU" else parse_bytes

    def check(value: Value) -> Refused | None:
        try:
            amount = parse(str(value))
        except ValueError as error:
            message, _, allowed = str(error).partition(": ")
            return Refused(message, allowed or _example(row))
        if amount == 0:
            return Refused(
                f"{value} is nothing: a request of zero can never be meant", f"{_example(row)}, or leave it out"
            )
        return None

    return check


def _example(row: Row) -> str:
    return (
        "a number above 0 such as 2, 0.5 or 250m" if row.quantity == "CPU" else "a number above 0 such as 250M or 4Gi"
    )


def _entries(value: Value) -> Refused | None:
    entries = value if isinstance(value, list) else []
    if len(entries) > _MOST_ENTRIES:
        return Refused(f"{len(entries)} entries are too many", f"at most {_MOST_ENTRIES}")
    for entry in entries:
        if not _POOL.fullmatch(entry):
            return Refused(f"{shown(entry)} is not a name", "letters, digits, - _ and ., at most 63 characters")
    twice = next((entry for entry in entries if entries.count(entry) > 1), None)
    return Refused(f"{twice} is given twice", "each name once") if twice else None


def _text(row: Row) -> Callable[[Value], Refused | None]:
    pattern = re.compile(row.pattern) if row.pattern else None

    def check(value: Value) -> Refused | None:
        text = str(value)
        if "\0" in text:
            return Refused("the value has a NUL character", "text without NUL")
        if len(text) > row.max_length:
            return Refused(f"{shown(text)} is too long: {len(text)} characters", f"at most {row.max_length} characters")
        if pattern is not None and not pattern.fullmatch(text):
            return Refused(f"{shown(text)} is not a {row.yaml}", row.description)
        return None

    return check


def _outside(row: Row, value: Value) -> str:
    if row.maximum is not None and float(str(value)) > row.maximum:
        return f"{value} is too large"
    return f"{value} is too small" if float(str(value)) < (row.minimum or 0) else f"{value} is out of range"


def _range(row: Row) -> str:
    what = "a whole number" if row.type == of.INTEGER else "a number"
    low, high = row.minimum, row.maximum
    if low is not None and high is not None:
        return f"{what} from {low:.15g} to {high:.15g}"
    if low is not None:
        return f"{what} from {low:.15g} on"
    return f"{what} up to {high:.15g}" if high is not None else what
