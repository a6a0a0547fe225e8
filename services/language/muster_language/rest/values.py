"""JSON values and the typed values of rows, both ways.

Called by the REST reader and writer. Holds: a number is never true or false, never a text; what is refused is said
with what is allowed; a value that is written reads back to the same amount.
"""

from __future__ import annotations

import re
from typing import Any, Final

from muster_kernel.quantities import parse_milli_cpu
from muster_language.catalogue import Row
from muster_language.catalogue import value_types as of
from muster_language.values import Refused, Value, parser, shown, span

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?")
_FORMATS: Final = {"uuid": (_UUID, "a UUID"), "hostname": (_HOST, "a host's name")}
# Where a row's words are those of YAML, REST has its own.
_RULES: Final = {"hard": "Required", "soft": "Preferred"}
WORDS: Final = {"pod_affinity_scheduling_rule": _RULES, "pod_anti_affinity_scheduling_rule": _RULES}
_LARGEST_WHOLE: Final = float(1 << 53)


def from_json(row: Row, value: Any) -> Value | Refused:
    """The typed value of a scalar row; bounds are the LAYER stage's."""
    if row.words is not None:
        return parser(row)(value) if isinstance(value, str) else _not(value, row.words.allowed)
    match row.type:
        case of.BOOLEAN:
            return value if isinstance(value, bool) else _not(value, "true or false")
        case of.INTEGER:
            return parser(row)(str(int(value))) if _is_whole(value) else _not(value, span(row))
        case of.NUMBER:
            return float(value) if _is_number(value) else _not(value, span(row))
        case of.QUANTITY if row.quantity == "CPU":
            return _decimal(value) if _is_number(value) else _not(value, "a number of cores above 0 such as 2 or 0.5")
        case _:
            return _text(row, value)


def to_json(row: Row, value: Any) -> Any:
    """The JSON value of a scalar row."""
    if row.words is not None:
        word = row.words.by_number.get(value, "")
        return WORDS.get(row.name, {}).get(word, word)
    if row.type == of.QUANTITY and row.quantity == "CPU":
        return _cores(value)
    if row.type == of.NUMBER and float(value).is_integer():
        return int(value)
    return value


def _text(row: Row, value: Any) -> Value | Refused:
    if row.name == "quantity" and _is_number(value):
        value = _decimal(value)  # an extended resource may be counted by a bare number
    if not isinstance(value, str):
        return _not(value, "a text")
    if len(value) < row.rest_min_length:
        return Refused("the text is empty", "a text, or leave the member out")
    form = _FORMATS.get(row.rest_format)
    if form is not None and not form[0].fullmatch(value):
        return Refused(f"{shown(value)} is not {form[1]}", form[1])
    return value


def _not(value: Any, allowed: str) -> Refused:
    return Refused(f"{given(value)} stands here", allowed)


def given(value: Any) -> str:
    """A JSON value as errors quote it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else shown(value) if isinstance(value, str) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or (value.is_integer() and abs(value) <= _LARGEST_WHOLE))


def _decimal(value: float) -> str:
    """The number in digits: no quantity is written with an exponent."""
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.12f}".rstrip("0")


def _cores(text: str) -> float:
    milli = parse_milli_cpu(text)
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
