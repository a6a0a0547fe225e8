"""A typed value against its catalogue row's own bounds: what every layer has to keep, whatever channel it came by.

Called by the LAYER stage of validation, by the reader for what it builds itself, and by policy for its defaults. Pure.
Holds: a value without `refusal` is legal in a layer by itself; a row's check is made once per process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, Final

from muster_kernel.quantities import parse_bytes, parse_milli_cpu, portion_milli
from muster_kernel.words import split
from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.values import GPU_ALLOWED, Refused, outside, shown, span

Check = Callable[[Any], Refused | None]
"""The value of the row's type -> why it is not taken. None: it is."""

_MOST_ENTRIES: Final = 64
_WORDS: Final = frozenset({"command", "args"})
_QUOTED: Final = re.compile(r"""['"\\\0]""")
_PORTIONS: Final = frozenset({"gpu_portion_request", "gpu_portion_limit"})


def refusal(row: Row, value: Any) -> Refused | None:
    """Why a typed value breaks the row's own bounds; None where it keeps them."""
    return check_of(row)(value)


@cache
def check_of(row: Row) -> Check:
    """The row's check, made once: at 20,000 workloads a second nobody wants to look the bounds up again each time."""
    if row.name in _PORTIONS:
        return _portion
    if row.type == of.ARRAY:
        return _entries(row)
    if row.words is not None:
        return _known(row)
    makers: dict[int, Callable[[Row], Check]] = {
        of.BOOLEAN: lambda _: _anything,
        of.INTEGER: _bounds,
        of.NUMBER: _bounds,
        of.QUANTITY: _quantity,
    }
    text = makers.get(row.type, _text)(row)
    return text if row.name not in _WORDS else lambda value: text(value) or _splits(value)


def _splits(text: str) -> Refused | None:
    """The agent splits it in the same way; there it would fail only once somebody has waited for a place."""
    if _QUOTED.search(text) is None:
        return None  # most commands: nothing in them can go wrong, and splitting costs more than every other check
    try:
        split(text)
    except ValueError as error:
        return Refused(f"the text cannot be split into words: {error}", "a quote or backslash of its own after a \\")
    return None


def _anything(_: Any) -> Refused | None:
    return None


def _portion(value: float) -> Refused | None:
    try:
        portion_milli(value)
    except ValueError:
        return Refused(f"{value} is not a GPU request", GPU_ALLOWED)
    return None


def _known(row: Row) -> Check:
    words = row.words
    numbers = frozenset(words.by_number) if words else frozenset[int]()
    allowed = words.allowed if words else ""
    return lambda value: None if value in numbers else Refused(f"{value} is not known", allowed)


def _bounds(row: Row) -> Check:
    low = -math.inf if row.minimum is None else row.minimum
    high = math.inf if row.maximum is None else row.maximum
    step, start = row.step, row.minimum or 0

    def check(value: float) -> Refused | None:
        if low <= value <= high and abs(value) != math.inf:
            if step and (Decimal(str(value)) - Decimal(str(start))) % Decimal(str(step)):
                return Refused(f"{value} is not a step of {step:g}", span(row))
            return None
        if not math.isfinite(value):
            return Refused(f"{value} is not a number", span(row))
        return Refused(outside(row, value), span(row))

    return check


def _quantity(row: Row) -> Check:
    parse = parse_milli_cpu if row.quantity == "CPU" else parse_bytes

    def check(value: str) -> Refused | None:
        try:
            amount = parse(value)
        except ValueError as error:
            message, _, allowed = str(error).partition(": ")
            return Refused(message, allowed or _example(row))
        if amount == 0:
            nothing = f"{value} is nothing: a request of zero can never be meant"
            return Refused(nothing, f"{_example(row)}, or leave it out")
        return None

    return check


def _example(row: Row) -> str:
    if row.quantity == "CPU":
        return "a number above 0 such as 2, 0.5 or 250m"
    return "a number above 0 such as 250M or 4Gi"


def _entries(row: Row) -> Check:
    """A list that is one value: each entry as the row has it; names each once, while free text may repeat itself."""
    names = bool(row.one_of) or row.words is not None or bool(row.pattern)
    each = _entry(row)

    def check(entries: list[Any]) -> Refused | None:
        if len(entries) > _MOST_ENTRIES:
            return Refused(f"{len(entries)} entries are too many", f"at most {_MOST_ENTRIES}")
        refused = next((found for found in map(each, entries) if found is not None), None)
        if refused is not None or not names or len(set(entries)) == len(entries):
            return refused
        twice = next(entry for entry in entries if entries.count(entry) > 1)
        return Refused(f"{shown(str(twice))} is given twice", "each name once")

    return check


def _entry(row: Row) -> Check:
    if row.words is not None:
        return _known(row)
    if row.one_of:
        allowed = ", ".join(row.one_of.values())
        known = frozenset(row.one_of.values())
        return lambda text: None if text in known else Refused(f"{shown(text)} is not known", allowed)
    return _text(row, noun="name")


def _quoted(text: str) -> str:
    """A refused text; of an address the userinfo may be a credential (user:password@host), and it is not repeated."""
    return "the given text" if "@" in text else shown(text)


def _text(row: Row, noun: str = "") -> Check:
    pattern = re.compile(row.pattern).fullmatch if row.pattern else None
    longest = row.max_length
    # A refused credential is a credential all the same: errors are answered, logged and pasted into tickets.
    quoted = (lambda _: "the credential") if row.sensitive else _quoted

    def check(text: str) -> Refused | None:
        if "\0" in text:
            return Refused("the value has a NUL character", "text without NUL")
        if len(text) > longest:
            return Refused(f"{quoted(text)} is too long: {len(text)} characters", f"at most {longest} characters")
        if pattern is not None and not pattern(text):
            return Refused(f"{quoted(text)} is not a {noun or row.yaml}", row.allowed)
        return None

    return check
