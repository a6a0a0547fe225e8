"""Shares as a table with bars and MIG layouts as rows of boxes, for people.

Called by commands.py. Holds: what is drawn is as wide as its cells say, in any terminal; numbers stand beside bars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

from muster_kernel.mig import Card
from muster_kernel.quantities import MILLI, format_gpu
from muster_scheduler.domain.shares.tree import TOP, Branch, Share
from muster_scheduler.planning.layouts import Layout
from muster_scheduler.planning.level import Case

_BAR: Final = 32
_COLUMNS: Final = ("QUEUE", "DESERVED", "REQUEST", "LIMIT", "WEIGHT", "PRIORITY", "SHARE")
_FEWEST: Final = (0, 1, 2, 6)
_ALL_NUMBERS: Final = 60  # columns of a terminal
_WITH_BAR: Final = 100
_SHORTEST_NAME: Final = 8


def table_of(case: Case, width: int) -> list[str]:
    """One case: what each queue deserves, wants and gets, with a bar of what it gets and what it lacks. A line a queue.

    width: columns of the terminal; where they are few, the bar is left out first, then what explains the share.
    """
    columns = [at for at in range(len(_COLUMNS)) if width >= _ALL_NUMBERS or at in _FEWEST]
    with_bar = width >= _WITH_BAR
    rows = [(*(_COLUMNS[at] for at in columns), f"OF {format_gpu(case.total)}")]
    shares, below = case.shares(), _children(case)
    for at, depth in _walk(below):
        branch, share = case.tree[at], shares[case.tree[at].name]
        wanted = share.wanted if below[at] else branch.request
        cells = (_indented(depth, width) + _shown(branch.name), *_numbers(branch, share, wanted))
        rows.append((*(cells[column] for column in columns), bar(share.fair, share.wanted, case.total)))
    return _aligned(rows if with_bar else [row[:-1] for row in rows], len(columns), width)


def _numbers(branch: Branch, share: Share, wanted: int) -> tuple[str, ...]:
    return (
        format_gpu(share.deserved),
        format_gpu(wanted),
        "-" if branch.limit is None else format_gpu(branch.limit),
        f"{branch.weight / MILLI:g}",
        str(branch.rank),
        format_gpu(share.fair),
    )


def _aligned(rows: list[tuple[str, ...]], numbers: int, width: int) -> list[str]:
    """Names to the left and folded where they are long, numbers to the right, what comes after them as it is."""
    widths = [max(map(len, cells)) for cells in list(zip(*rows, strict=True))[1:]]
    room = max(_SHORTEST_NAME, width - sum(widths) - 2 * len(widths))
    first = min(room, max(cell_len(row[0]) for row in rows))
    lines = []
    for name, *cells in rows:
        piece, *more = chop_cells(name, first) or [""]
        padded = (
            cell.rjust(wide) if at < numbers else cell
            for at, (cell, wide) in enumerate(zip(cells, widths, strict=True), 1)
        )
        lines += ["  ".join((set_cell_size(piece, first), *padded)).rstrip(), *more]
    return lines


def _shown(name: str) -> str:
    """A name as one line: a break or an escape in it would draw over its neighbours."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)


def _indented(depth: int, width: int) -> str:
    """Two cells a level; where these would leave no room for the name, the level stands there as a number."""
    return "  " * depth if 8 * depth <= width else f"{depth}: "


def _children(case: Case) -> dict[int, list[int]]:
    """The children of each queue, and of TOP, in the order of the file."""
    below: dict[int, list[int]] = {at: [] for at in range(TOP, len(case.tree))}
    for at, branch in enumerate(case.tree):
        below[branch.parent].append(at)
    return below


def _walk(below: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """The queues with each one's children below it, and how deep each stands. No recursion: a tree may be a chain."""
    left = [(at, 0) for at in reversed(below[TOP])]
    while left:
        at, depth = left.pop()
        yield at, depth
        left += [(child, depth + 1) for child in reversed(below[at])]


def bar(got: int, wanted: int, total: int) -> str:
    """Full blocks for what is got, light ones for what is wanted beyond; the width stands for `total`."""
    full = _cells(got, total)
    return "█" * full + "░" * (_cells(wanted, total) - full)


def _cells(amount: int, total: int) -> int:
    return min(_BAR, (2 * amount * _BAR + total) // (2 * total)) if total else 0


def boxes(card: Card, layouts: Iterable[Layout], profiles: Iterable[str], columns: int) -> list[str]:
    """One row for each layout, a cell for each memory slice; free slices are dots. A head numbers the slices.

    columns: of the terminal; where the boxes are wider, a layout is told as `first slice:profile`, folded.
    """
    width = max(len(name) for name in profiles) + 3
    if width * card.slices > columns:
        told = (" ".join(f"{start}:{name}" for name, start in layout) or "-" for layout in layouts)
        return [line for row in told for line in wrap(row, columns, subsequent_indent="  ")]
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
