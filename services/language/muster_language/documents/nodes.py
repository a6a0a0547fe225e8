"""The tree that a YAML text is: scalars, mappings and sequences with their places, nothing typed and nothing guessed.

Made by loading.py, walked by the reader and by policy. Named tuples: a document has a hundred of them, and a frozen
dataclass takes three times as long to make, which is what reading a document spent most of its time on.
Holds: a scalar is what the user wrote, never YAML 1.1's idea of it.
"""

from __future__ import annotations

from typing import NamedTuple


class Scalar(NamedTuple):
    """A text as it stands, quotes and escapes resolved. `plain`: without quotes; `null`: plain nothing, ~ or null."""

    text: str
    null: bool
    plain: bool
    line: int
    column: int


class Mapping(NamedTuple):
    """Entries in their order; duplicate keys have been reported and left out."""

    entries: list[tuple[Scalar, Node]]
    line: int
    column: int


class Sequence(NamedTuple):
    """Items in their order."""

    items: list[Node]
    line: int
    column: int


Node = Scalar | Mapping | Sequence


def entry(mapping: Mapping, word: str) -> tuple[Scalar, Node] | None:
    """The entry of a mapping under a key; None where there is none."""
    for each in mapping.entries:  # a generator would cost more than the handful of keys that there are
        if each[0].text == word:
            return each
    return None
