"""What stands against an effective spec, as the rules of the language say it.

Made by the rules under `effective`; policy turns them into compliance issues, which every channel shows.
Holds: a path is the REST path of the field, and details say what is wrong in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster_language.catalogue import catalogue

LANGUAGE: Final = "language"


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that stands against an effective spec."""

    path: str
    rule: str
    given: str
    allowed: str
    details: str


Found = Iterator[Issue]


def missing(path: str, details: str, allowed: str) -> Issue:
    """A value that nobody gives."""
    return Issue(path, LANGUAGE, "", allowed, details)


def wrong(path: str, given: object, allowed: str, details: str) -> Issue:
    """A value that another one contradicts."""
    return Issue(path, LANGUAGE, str(given), allowed, details)


def words(name: str) -> str:
    """The words of an enum field, for a person."""
    known = catalogue().by_name[name].words
    return known.allowed if known else ""


def path_of(name: str) -> str:
    """The path under which issues speak of a field, by its proto name."""
    return catalogue().by_name[name].path


def number_of(name: str, word: str) -> Any:
    """The number of an enum's word; only for words that the catalogue has."""
    known = catalogue().by_name[name].words
    if known is None:
        raise ValueError(f"{name} has no words")
    return known.by_word[word.casefold()]
