"""The tables of the workload language (tests/data/catalogue), and the catalogue's rows under the names that they use.

The tables were taken from the public documents, definitions and API description of the language; the catalogue is ours.
Read by the tests that hold one against the other.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_language import Kind, Row, catalogue
from muster_language.catalogue import value_types as of

FOLDER: Final = Path(__file__).parents[1] / "data" / "catalogue"
LETTERS: Final = {"W": Kind.WORKSPACE, "T": Kind.TRAINING, "D": Kind.DISTRIBUTED, "F": Kind.INFERENCE}
COLUMNS: Final = dict(zip(("workspace", "training", "distributed", "inference"), Kind, strict=True))

Table = list[dict[str, str]]


def table(name: str) -> Table:
    """The rows of a table."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kinds_of(letters: str) -> frozenset[Kind]:
    """The kinds of a cell such as WTF."""
    return frozenset(LETTERS[letter] for letter in letters)


@dataclass(frozen=True, slots=True)
class Place:
    """A row, and the field in whose items or object it stands (itself at the top)."""

    field: Row
    row: Row


def on_rest() -> dict[str, Place]:
    """Every REST path of the catalogue as the tables write them: below `spec`, with [] behind arrays of objects."""
    found: dict[str, Place] = {}
    for row in catalogue().rows:
        top = "" if row.rest_beside_spec else "spec."
        for path in (row.rest, *row.rest_also):
            if path:
                found[f"{top}{path}"] = Place(row, row)
        for member in row.inside:
            found |= {path: Place(row, member) for path in _inside(row, member)}
    return found


def _inside(row: Row, member: Row) -> Iterator[str]:
    here = f"spec.{row.rest}{'[]' if row.type == of.ITEMIZED else ''}."
    if member.rest and row.rest:
        yield f"{here}{member.rest}"
    for path in member.rest_also:
        yield f"{here}{path}"
        yield f"spec.{path}"


def in_policies() -> dict[str, tuple[frozenset[str], frozenset[Kind]]]:
    """Every policy path of the catalogue with its rules and kinds; a gang's stand under worker and master."""
    found: dict[str, tuple[frozenset[str], frozenset[Kind]]] = {}
    for row in catalogue().rows:
        for owner in (row, *row.inside):
            for each in owner.policy:
                gang = each.kinds & {Kind.DISTRIBUTED}
                if each.kinds - gang:
                    found[each.path] = (each.rules, each.kinds - gang)
                if gang:
                    found[f"worker.{each.path}"] = (each.rules, gang)
                if gang and row.for_roles:
                    found[f"master.{each.path}"] = (each.rules, gang)
    return found


def in_yaml(name: str) -> list[Row]:
    """The rows that a YAML name means: one, or those that used to stand in an object of that name."""
    row = catalogue().by_yaml.get(name)
    if row is not None:
        return [row]
    return [each for each in catalogue().rows if any(alias.startswith(f"{name}.") for alias in each.aliases)]
