"""Numbers that come from outside, bounded in characters and exponent before they are made.

`Fraction("1e999999999")` has a thousand million digits, and writing them out holds the process for minutes. Whatever
reads a number from a request or a file calls one of these first.
Called by quantities, the readers of YAML, JSON and filters, policies and the client. Pure.
Holds: the cost of a call is bounded by `LONGEST` digits; what is out of bounds raises ValueError, which quotes at most
`LONGEST` characters of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeVar

LONGEST: Final = 40
"""Characters of a number, sign and exponent included."""
LARGEST_EXPONENT: Final = 40
"""Places that the exponent may move the point, in either direction."""
LONGEST_REAL: Final = 400
"""Characters of a number that becomes a float: `%f` writes the largest one with 316."""
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_YAML_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_Loader = TypeVar("_Loader")


def exact(text: str) -> Fraction:
    """The number that `text` writes in decimal digits. Raises ValueError."""
    return Fraction(_bounded(text))


def decimal(text: str) -> Decimal:
    """The same as a Decimal. Raises ValueError."""
    return Decimal(_bounded(text))


def whole(text: str) -> int:
    """The whole number that `text` writes in decimal digits. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(_too_long(text))
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def real(text: str) -> float:
    """The finite float nearest to the number that `text` writes. Raises ValueError."""
    if len(text) > LONGEST_REAL:
        raise ValueError(_too_long(text, LONGEST_REAL))
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text[:LONGEST]!r} is not a number")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:LONGEST]} is too large to be read")
    return number


def bound_yaml(loader: type[_Loader]) -> type[_Loader]:
    """A subclass of a PyYAML loader class that refuses numbers of more than `LONGEST` characters with ValueError.

    PyYAML multiplies numbers to the base 60 (`1:59:59`) part by part, in time that grows with the square of the text.
    """
    bounded: Any = type(f"Bounded{loader.__name__}", (loader,), {})
    for tag in _YAML_NUMBERS:
        bounded.add_constructor(tag, _short_only(bounded.yaml_constructors[tag]))
    return bounded  # type: ignore[no-any-return]  # PyYAML's classes are not typed


def _short_only(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def constructor(loader: Any, node: Any) -> Any:
        if len(node.value) > LONGEST:
            raise ValueError(f"line {node.start_mark.line + 1}: {_too_long(node.value)}")
        return construct(loader, node)

    return constructor


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(_too_long(text))
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    if match[1] and abs(int(match[1])) > LARGEST_EXPONENT:
        raise ValueError(f"the exponent of {text} is out of range: -{LARGEST_EXPONENT} to {LARGEST_EXPONENT}")
    return text


def _too_long(text: str, longest: int = LONGEST) -> str:
    return f"the number {text[:LONGEST]}.. has {len(text)} characters; at most {longest} are allowed"
