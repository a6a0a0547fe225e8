"""What a workload is called: a given name, a numbered prefix, or the name of a run that an event started.

Called when workloads are submitted. Holds: every name that comes out is a legal one of at most 63 characters, and a
number of a prefix is handed out once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster_kernel.ids import NAME_LIMIT, check_name
from muster_submission.domain.problems import Problem

NUMBER_DIGITS: Final = 10
PREFIX_LIMIT: Final = NAME_LIMIT - 1 - NUMBER_DIGITS
_HASH_LENGTH: Final = 12  # at eight, one of 100,000 runs of a template would have met another's name


@dataclass(frozen=True, slots=True)
class Given:
    """The user chose the name."""

    name: str


@dataclass(frozen=True, slots=True)
class Prefixed:
    """Muster appends a dash and the next number of this prefix in the project."""

    prefix: str


Naming = Given | Prefixed


def naming(name: str | None, prefix: str | None) -> Naming | Problem:
    """How a workload gets its name. Exactly one of the two is given; an empty text counts as not given."""
    if name and prefix:
        return Problem("namePrefix", f"name {name!r} and namePrefix {prefix!r} exclude each other: give one of them")
    try:
        if name:
            return Given(check_name(name))
        if prefix:
            return Prefixed(check_name(prefix, limit=PREFIX_LIMIT))
    except ValueError as error:
        return Problem("name" if name else "namePrefix", str(error))
    return Problem("name", "a workload needs a name, or a namePrefix that Muster numbers")


def numbered(prefix: str, number: int) -> str:
    """The name with that number. Raises ValueError where the number has more than ten digits."""
    if not 0 <= number < 10**NUMBER_DIGITS:
        raise ValueError(f"prefix {prefix!r} is used up: {number} is not within 0..{10**NUMBER_DIGITS - 1}")
    return f"{prefix}-{number}"


def demand(namings: Iterable[tuple[str, Naming]]) -> list[tuple[str, str, int]]:
    """How many numbers each (project, prefix) needs, sorted: calls that lock rows in one order cannot deadlock."""
    wanted: dict[tuple[str, str], int] = {}
    for project, chosen in namings:
        if isinstance(chosen, Prefixed):
            wanted[project, chosen.prefix] = wanted.get((project, chosen.prefix), 0) + 1
    return [(project, prefix, count) for (project, prefix), count in sorted(wanted.items())]


def resolve(namings: Sequence[tuple[str, Naming]], numbers: Mapping[tuple[str, str], Sequence[int]]) -> list[str]:
    """The names, in order: given ones as they are, prefixed ones with the numbers handed out for them."""
    left = {key: iter(handed) for key, handed in numbers.items()}
    return [
        chosen.name if isinstance(chosen, Given) else numbered(chosen.prefix, next(left[project, chosen.prefix]))
        for project, chosen in namings
    ]


def run_name(template: str, *, trigger: str, source: str, event_id: str, number: int) -> str:
    """The name of the run that one event starts: the template's name and twelve characters of a hash.

    The same firing always gives the same name, so that a repeated event collides instead of doubling.
    """
    told = "\x00".join((trigger, source, event_id, str(number)))
    digest = hashlib.sha256(told.encode()).hexdigest()[:_HASH_LENGTH]
    head = template[: NAME_LIMIT - 1 - _HASH_LENGTH].rstrip("-")
    return check_name(f"{head}-{digest}")
