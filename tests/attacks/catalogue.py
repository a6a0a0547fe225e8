"""Finds the attacks: every module of `tests/attacks/rows` declares some in `ATTACKS`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tests.attacks.attack import Attack

_ROWS: Final = Path(__file__).parent / "rows"
ROWS: Final = frozenset({f"A{n}" for n in range(1, 17)} | {f"B{n}" for n in range(1, 13)})
"""The findings that have to be attacked."""


def attacks() -> tuple[Attack, ...]:
    """Every attack, by row and name. Raises ValueError for two of one name or a row that there is not."""
    modules = sorted(path.stem for path in _ROWS.glob("[a-z]*.py"))
    found = [each for name in modules for each in import_module(f"tests.attacks.rows.{name}").ATTACKS]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ValueError(f"two attacks have one name: {sorted({name for name in names if names.count(name) > 1})}")
    if unknown := {each.row for each in found} - ROWS:
        raise ValueError(f"attacks of unknown rows: {sorted(unknown)}")
    return tuple(sorted(found, key=lambda each: (each.row[0], int(each.row[1:]), each.name)))
