"""Which time of a replica has been counted already: sorted spans that neither overlap nor touch.

Called by the accounts for each sample. Pure.
Holds: whatever intervals come, in whatever order and however often, each microsecond of a replica is new exactly once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

MOST_SPANS: Final = 1_000

Span = tuple[int, int]
"""From (included) to (excluded), in microseconds since 1970."""


def cover(covered: Sequence[Span], new: Span) -> tuple[list[Span], int]:
    """The spans with `new` among them, and how many microseconds of it were not covered before.

    Beyond MOST_SPANS the two oldest become one: a report so late that it falls into their gap counts for nothing.
    Raises ValueError for an empty span.
    """
    start, end = new
    if start >= end:
        raise ValueError(f"a span ends after it begins, not {start}..{end}")
    first = bisect_left(covered, start, key=_end)  # the first span that ends at or after the start: it touches
    last = bisect_right(covered, end, key=_start)  # one behind the last span that begins at or before the end
    touching = covered[first:last]
    known = sum(max(0, min(end, span[1]) - max(start, span[0])) for span in touching)
    if touching:
        start, end = min(start, touching[0][0]), max(end, touching[-1][1])
    spans = [*covered[:first], (start, end), *covered[last:]]
    if len(spans) > MOST_SPANS:
        spans[:2] = [(spans[0][0], spans[1][1])]
    return spans, (new[1] - new[0]) - known


def _start(span: Span) -> int:
    return span[0]


def _end(span: Span) -> int:
    return span[1]
