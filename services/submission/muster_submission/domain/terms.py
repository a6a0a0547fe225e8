"""What has to hold of a row of the list, as values: the meaning of a filter once its words are understood.

Made by filtering.py, joined by listing.py, turned into SQL by the adapter and judged here in memory for watches: one
meaning, two ways to ask, and a test on a real server holds them equal.
Holds: text is compared by code points, which is how collation C orders UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

LAST: Final = "\U0010ffff"
"""Comes after every other character: with it behind them, all texts of a prefix end."""


class Way(StrEnum):
    """How a text is looked into."""

    CONTAINS = "=@"
    LACKS = "!@"
    BEGINS = "=^"
    ENDS = "=$"


_LOOKS: Final[Mapping[Way, Callable[[str, str], bool]]] = MappingProxyType(
    {
        Way.CONTAINS: lambda whole, part: part in whole,
        Way.LACKS: lambda whole, part: part not in whole,
        Way.BEGINS: lambda whole, part: whole.startswith(part),
        Way.ENDS: lambda whole, part: whole.endswith(part),
    }
)


@dataclass(frozen=True, slots=True)
class Points:
    """The column is one of these; of none where there are none."""

    column: str
    values: frozenset[Any]


@dataclass(frozen=True, slots=True)
class Interval:
    """The column lies between these, both included; None is open."""

    column: str
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True)
class Except:
    """The column is none of these."""

    column: str
    values: frozenset[Any]


@dataclass(frozen=True, slots=True)
class Look:
    """The column's text contains, lacks, begins with or ends in another."""

    column: str
    way: Way
    text: str


Term = Points | Interval | Except | Look


def look(way: Way, whole: str, part: str) -> bool:
    """Whether a text passes."""
    return _LOOKS[way](whole, part)


def holds(term: Term, value: Any) -> bool:
    """Whether a value of the term's column passes."""
    match term:
        case Points(values=values):
            return value in values
        case Interval(low=low, high=high):
            return (low is None or low <= value) and (high is None or value <= high)
        case Except(values=values):
            return value not in values
        case Look(way=way, text=text):
            return look(way, value, text)


def joined(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """The same meaning in fewer terms: at most one Points or Interval a column, the keys by which rows are found."""
    keys: dict[str, Points | Interval] = {}
    rest: dict[Term, None] = {}
    for term in terms:
        if isinstance(term, Points | Interval):
            known = keys.get(term.column)
            keys[term.column] = term if known is None else _both(known, term)
        else:
            rest[term] = None
    return (*keys.values(), *rest)


def _both(one: Points | Interval, other: Points | Interval) -> Points | Interval:
    if isinstance(one, Points):
        return Points(one.column, frozenset(value for value in one.values if holds(other, value)))
    if isinstance(other, Points):
        return _both(other, one)
    low = max((each.low for each in (one, other) if each.low is not None), default=None)
    high = min((each.high for each in (one, other) if each.high is not None), default=None)
    return Interval(one.column, low, high)


def impossible(terms: tuple[Term, ...]) -> bool:
    """Whether no row can pass, as far as the terms alone say."""
    return any(isinstance(term, Points) and not term.values for term in terms)
