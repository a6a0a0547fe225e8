"""Shares as a table with bars and MIG layouts as rows of boxes, for people.

Called by commands.py. Holds: what is drawn is as wide as its cells say, in any terminal; numbers stand beside bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.table import Table
from rich.text import Text

from muster_kernel.mig import Card
from muster_kernel.quantities import MILLI, format_gpu
from muster_scheduler.domain.shares.tree import TOP
from muster_scheduler.planning.layouts import Layout
from muster_scheduler.planning.level import Case

_BAR: Final = 32
_COLUMNS: Final = ("QUEUE", "DESERVED", "REQUEST", "LIMIT", "WEIGHT", "PRIORITY", "SHARE")
_FEWEST: Final = (0, 1, 2, 6)
_ALL_NUMBERS: Final = 60  # columns of a terminal
_WITH_BAR: Final = 100


def table_of(case: Case, width: int) -> Table:
    """One case: what each queue deserves, wants and gets, with a bar of what it gets and what it lacks.

    width: columns of the terminal; where they are few, the bar is left out first, then what explains the share.
    """
    columns = [at for at in range(len(_COLUMNS)) if width >= _ALL_NUMBERS or at in _FEWEST]
    table = Table(box=None, pad_edge=False)
    for at in columns:
        table.add_column(_COLUMNS[at], justify="right" if at else "left", no_wrap=at > 0)
    if width >= _WITH_BAR:
        table.add_column(f"OF {format_gpu(case.total)}")
    shares = case.shares()
    depth: list[int] = []
    for branch in case.tree:
        depth.append(0 if branch.parent == TOP else depth[branch.parent] + 1)
    for at in _walk(case):
        branch = case.tree[at]
        share = shares[branch.name]
        numbers = (
            format_gpu(share.deserved),
            format_gpu(share.wanted if _has_children(case, at) else branch.request),
            "-" if branch.limit is None else format_gpu(branch.limit),
            f"{branch.weight / MILLI:g}",
            str(branch.rank),
            format_gpu(share.fair),
        )
        cells = [Text("  " * depth[at] + _shown(branch.name)), *map(Text, numbers)]
        drawn = [Text(bar(share.fair, share.wanted, case.total))] if width >= _WITH_BAR else []
        table.add_row(*(cells[column] for column in columns), *drawn)
    return table


def _shown(name: str) -> str:
    """A name as one line: a break or an escape in it would draw over its neighbours."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def _has_children(case: Case, at: int) -> bool:
    return any(branch.parent == at for branch in case.tree)


def _walk(case: Case, above: int = TOP) -> Iterator[int]:
    """The queues with each one's children below it."""
    for at, branch in enumerate(case.tree):
        if branch.parent == above:
            yield at
            yield from _walk(case, at)


def bar(got: int, wanted: int, total: int) -> str:
    """Full blocks for what is got, light ones for what is wanted beyond; the width stands for `total`."""
    full = _cells(got, total)
    return "█" * full + "░" * (_cells(wanted, total) - full)


def _cells(amount: int, total: int) -> int:
    return min(_BAR, (2 * amount * _BAR + total) // (2 * total)) if total else 0


def boxes(card: Card, layouts: Iterable[Layout], profiles: Iterable[str]) -> list[str]:
    """One row for each layout, a cell for each memory slice; free slices are dots. A head numbers the slices."""
    width = max(len(name) for name in profiles) + 3
    head = "".join(f" {slot}".ljust(width) for slot in range(card.slices))
    return [head.rstrip(), *(_row(card, layout, width) for layout in layouts)]


def _row(card: Card, layout: Layout, width: int) -> str:
    cells, at = "", 0
    for name, start in layout:
        memory = card.profiles[name].memory
        cells += _free(start - at, width) + f"[{name.center(memory * width - 2, '-' if memory > 1 else ' ')}]"
        at = start + memory
    return cells + _free(card.slices - at, width)


def _free(slices: int, width: int) -> str:
    return f"{'·'.center(width)}" * slices
