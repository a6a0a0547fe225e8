"""A table that fits: no lines, two spaces between columns, and no column lost where the terminal is narrow.

Called by the renderers of lists. Holds: numbers and headings are never cut; what has to give way is first the last
column, then those in the middle, and the first one only then, because it is what people copy; the first and the last
go on in a second line, the others end in an ellipsis. Where not even the headings fit beside each other, each row is a
paragraph, which says every heading beside its value and cuts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from muster_client.cli.printable import one_line

Cell = str | Text
_GAP: Final = 2
_LAST: Final = 12
_MIDDLE: Final = 8
_FIRST: Final = 16


class Grid(Table):
    """Columns as wide as what stands in them, as long as there is room."""

    def __init__(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: frozenset[str]) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold", show_edge=False)
        self._headings = tuple(headings)
        # Before anything is measured, and as text: a name such as [/] would be markup to rich, and an error.
        self._cells = [[_printable(cell) for cell in row] for row in rows]
        self._numbers = numbers
        cells = zip(headings, *([cell.plain for cell in row] for row in self._cells), strict=True)
        self._wanted = [max(len(each) for each in column) for column in cells]
        last = len(headings) - 1
        for index, heading in enumerate(headings):
            fold = index in {0, last} and heading not in numbers
            self.add_column(
                heading,
                justify="right" if heading in numbers else "left",
                no_wrap=not fold,
                overflow="fold" if fold else "ellipsis",
            )
        for row in self._cells:
            self.add_row(*row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Gives each column its width in the room that there is now."""
        widths = self.widths(options.max_width)
        if sum(widths) + _GAP * (len(widths) - 1) > options.max_width:
            yield from self._paragraphs(options.max_width)
            return
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)

    def _paragraphs(self, room: int) -> Iterator[RenderableType]:
        for name, *others in self._cells:
            if name:  # a row without one goes on with what the row above it is about
                yield Text.assemble(name, overflow="fold")
            line = Text(overflow="fold")
            for heading, cell in zip(self._headings[1:], others, strict=True):
                pair = Text.assemble((heading, "bold"), " ", cell)
                if line and _GAP + len(line) + _GAP + len(pair) > room:
                    yield Padding(line, (0, 0, 0, _GAP))
                    line = Text(overflow="fold")
                line = Text.assemble(line, " " * _GAP, pair, overflow="fold") if line else pair
            yield Padding(line, (0, 0, 0, _GAP))

    def widths(self, room: int) -> list[int]:
        """The widths of the columns within `room` characters, gaps included; more where even the least is too much."""
        found = list(self._wanted)
        over = sum(found) + _GAP * (len(found) - 1) - room
        last = len(found) - 1
        middle = [index for index in range(1, last) if self._headings[index] not in self._numbers]
        ends = [index for index in {0, last} if self._headings[index] not in self._numbers]
        names = [index for index in middle if found[index] > _FIRST]  # not words such as phases, which are short
        for columns, least in (([last], _LAST), (names, _MIDDLE), ([0], _FIRST), ([*middle, *ends], 0)):
            over = self._shrink(found, [index for index in columns if index in {*middle, *ends}], least, over)
        return found

    def _shrink(self, widths: list[int], columns: list[int], least: int, over: int) -> int:
        """Takes from the widest of the columns until it fits or each has its least; what is still too much."""
        floors = {index: max(least, len(self._headings[index])) for index in columns}
        while over > 0:
            open_ones = [index for index in columns if widths[index] > floors[index]]
            if not open_ones:
                break
            widest = max(open_ones, key=lambda index: (widths[index], -index))
            widths[widest] -= 1
            over -= 1
        return over


def grid(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Iterable[str] = ()) -> Grid:
    """A table. Columns named in `right` hold numbers."""
    return Grid(headings, [list(row) for row in rows], frozenset(right))


def _printable(cell: Cell) -> Text:
    return Text(one_line(cell)) if isinstance(cell, str) else Text(one_line(cell.plain), style=cell.style)
