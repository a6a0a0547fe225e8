"""filterBy: `name=^train,phase==Running`, read into terms, or refused in a sentence that names what is known.

Called by REST's lists and counts and by gRPC's filters. A condition is a field, an operator and a value; all of them
have to hold. They come repeated, in a JSON array, or with commas: a comma separates only where a known field and an
operator follow, because values may hold commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from muster_kernel.ids import is_uuid
from muster_kernel.numbers import decimal
from muster_submission.domain.fields import BY_NAME, GPU_UNITS, OPERATORS, ListField, Nature
from muster_submission.domain.terms import LAST, Except, Interval, Look, Points, Term, Way, look

MOST: Final = 50
"""Conditions in one question."""
LONGEST: Final = 1000
"""Characters of one value."""
_SHOWN: Final = 80
_ALL: Final = tuple(dict.fromkeys(operator for some in OPERATORS.values() for operator in some))
_OPERATOR: Final = "|".join(re.escape(one) for one in sorted(_ALL, key=len, reverse=True))
_LONGEST_IN_ALL: Final = 64 << 10  # characters of all conditions
# Possessive: spaces that could be shared out in many ways would cost the square of their number.
_CONDITION: Final = re.compile(rf"\s*+(\w*+)\s*+({_OPERATOR})(.*)", re.DOTALL)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)  # what has no moment yet lies before it
_LOST_PLUS: Final = re.compile(r" (\d\d:?\d\d)$")  # in an address that was not encoded, + is a space
_LARGEST: Final = Decimal(10**9)

Lookup = Callable[[], Iterable[tuple[str, str]]]
"""For a PLACE: every value of the column with what it is called under that field."""


class BadFilter(ValueError):
    """A condition that cannot be read; its text says which, and what is known."""


@dataclass(frozen=True, slots=True)
class Places:
    """What projects and clusters are called elsewhere, by the field's name."""

    lookups: Mapping[str, Lookup] = field(default_factory=dict)

    def called(self, place: ListField) -> Iterable[tuple[str, str]]:
        """The values of the field's column, each with its name under the field."""
        return self.lookups[place.name]()


def conditions(given: Sequence[str], fields: Mapping[str, ListField] = BY_NAME) -> list[str]:
    """What stands in filterBy, each condition by itself. Raises BadFilter."""
    length = sum(map(len, given))
    if length > _LONGEST_IN_ALL:
        raise BadFilter(f"filterBy holds {length} characters; at most {_LONGEST_IN_ALL} are allowed")
    comma = _comma(tuple(fields))
    found = [one for text in given for one in _parts(text, comma) if one.strip()]
    if len(found) > MOST:
        raise BadFilter(f"filterBy holds {len(found)} conditions; at most {MOST} are allowed")
    return found


def read(given: Sequence[str], places: Places, fields: Mapping[str, ListField] = BY_NAME) -> tuple[Term, ...]:
    """The terms of filterBy. Raises BadFilter."""
    return tuple(term for one in conditions(given, fields) for term in _terms(one, places, fields))


@cache
def _comma(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf",(?=\s*+(?:{'|'.join(names)})\s*+(?:{_OPERATOR}))")


def _parts(text: str, comma: re.Pattern[str]) -> Sequence[str]:
    if not text.lstrip().startswith("["):
        return comma.split(text)
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError as error:
        raise BadFilter(f"filterBy {_short(text)} begins like a JSON array and is none of texts: {error}") from None


def _terms(text: str, places: Places, fields: Mapping[str, ListField]) -> Iterable[Term]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise BadFilter(
            f"filterBy {_short(text)} is no condition: expected a field, an operator and a value, such as "
            f"name=^train; operators are {' '.join(_ALL)}"
        )
    name, operator, value = match.groups()
    field = fields.get(name)
    if field is None:
        raise BadFilter(f"filterBy knows no field {_short(name)}; there are {', '.join(fields)}")
    if operator not in field.operators:
        raise BadFilter(f"filterBy {name} does not take {operator}; it takes {' '.join(field.operators)}")
    if len(value) > LONGEST or "\x00" in value:
        raise BadFilter(f"filterBy {name}: a value has at most {LONGEST} characters and no NUL")
    return _READERS[field.nature](field, operator, value, places)


def _text(field: ListField, operator: str, value: str, _: Places) -> Iterable[Term]:
    match operator:
        case "==" | "!=" | "<=" | ">=":
            return _compared(field.column, operator, value)
        case "=^":
            return (Interval(field.column, value, value + LAST),)  # one stretch of an order: nothing else lies in it
        case _:
            return (Look(field.column, Way(operator), value),)


def _compared(column: str, operator: str, value: Any) -> Iterable[Term]:
    match operator:
        case "==":
            return (Points(column, frozenset({value})),)
        case "!=":
            return (Except(column, frozenset({value})),)
        case "<=":
            return (Interval(column, None, value),)
        case _:
            return (Interval(column, value, None),)


def _passing(operator: str, value: str, called: Iterable[tuple[Any, str]]) -> frozenset[Any]:
    """The values of a column whose names pass: every operator on a few known names is a set."""
    match operator:
        case "==" | "!=":
            return frozenset(one for one, name in called if (name == value) is (operator == "=="))
        case "<=" | ">=":
            return frozenset(one for one, name in called if (name <= value if operator == "<=" else name >= value))
        case _:
            return frozenset(one for one, name in called if look(Way(operator), name, value))


def _word(field: ListField, operator: str, value: str, _: Places) -> Iterable[Term]:
    if operator in {"==", "!="} and value not in field.words:
        raise BadFilter(f"filterBy {field.name} is never {_short(value)}; it is one of {', '.join(field.words)}")
    passing = _passing(operator, value, [(number, word) for word, number in field.words.items()])
    return (Points(field.column, passing),)


def _place(field: ListField, operator: str, value: str, places: Places) -> Iterable[Term]:
    return (Points(field.column, _passing(operator, value, places.called(field))),)


def _id(field: ListField, operator: str, value: str, _: Places) -> Iterable[Term]:
    if not is_uuid(value):
        raise BadFilter(f"filterBy {field.name}: {_short(value)} is no id: expected a UUID in lower case")
    return _compared(field.column, operator, value)


def _number(field: ListField, operator: str, value: str, _: Places) -> Iterable[Term]:
    try:
        units = decimal(value.strip()) * GPU_UNITS
    except ValueError:
        raise BadFilter(f"filterBy {field.name}: {_short(value)} is not a number") from None
    if abs(units) > _LARGEST * GPU_UNITS:
        raise BadFilter(f"filterBy {field.name}: {_short(value)} is out of range: -{_LARGEST} to {_LARGEST}")
    if operator in {"<=", ">="}:
        rounded = units.to_integral_value(ROUND_FLOOR if operator == "<=" else ROUND_CEILING)
        return _compared(field.column, operator, int(rounded))
    # Portions such as 0.33 are no whole number of units; the accounts round them, and so does the question.
    return _compared(field.column, operator, int(units.to_integral_value()))


def _time(field: ListField, operator: str, value: str, _: Places) -> Iterable[Term]:
    try:
        moment = datetime.fromisoformat(_LOST_PLUS.sub(r"+\1", value.strip()))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadFilter(
            f"filterBy {field.name}: {_short(value)} is no time: expected one like 2026-01-31T13:00:00Z"
        ) from None
    there = Interval(field.column, _EPOCH, None)  # what has no moment passes no comparison but !=
    return (*_compared(field.column, operator, moment), *(() if operator == "!=" else (there,)))


_READERS: Final[Mapping[Nature, Callable[[ListField, str, str, Places], Iterable[Term]]]] = MappingProxyType(
    {
        Nature.TEXT: _text,
        Nature.WORD: _word,
        Nature.PLACE: _place,
        Nature.ID: _id,
        Nature.NUMBER: _number,
        Nature.TIME: _time,
    }
)


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
