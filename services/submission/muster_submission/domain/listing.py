"""How a list is read from its table: which index a question walks, decided here and not by the database's guesses.

A planner that guesses walks the index of the order through a million rows to find ten; so the ways are counted first,
by probes that stop early, and chosen by rules. Called by adapters/lists.py, which turns a way into SQL that allows no
other. Holds: every way that may be cut short says so, and `Scan`, one pass over the table, always answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from muster_submission.domain.fields import BY_NAME, ListField, Nature
from muster_submission.domain.filtering import Places
from muster_submission.domain.terms import Interval, Points, Term, joined

PAGE_DEFAULT: Final = 50
PAGE_LIMIT: Final = 500
LARGEST_OFFSET: Final = 1_000_000_000
FEW: Final = 2_000
"""Rows that are fetched by one key and sorted at once, in a few milliseconds; probes stop there."""
STRIDE: Final = 5_000
"""Entries of an index that are looked through before one pass over the table is the better bargain."""
MERGED: Final = 100_000
"""Entries that are merged from the indexes of several values."""
DEEP: Final = 20_000
"""An offset beyond which entries are counted off, not looked into."""
CALLED: Final = "called"
"""The column that no table has: what the order's column is called."""
_SLACK: Final = 2  # milliseconds
KEYS: Final = 1_000
"""Values of one key that are looked up one by one."""

INDEXES: Final[Mapping[bool, frozenset[tuple[str, ...]]]] = MappingProxyType(
    {
        False: frozenset(
            {
                ("id",),
                ("name", "id"),
                ("kind", "id"),
                ("phase", "id"),
                ("project", "id"),
                ("project", "name", "id"),
                ("project", "phase", "id"),
                ("submitted_by", "id"),
                ("cluster", "id"),
                ("node_pool", "id"),
                ("gpus", "id"),
                ("finished_at", "id"),
            }
        ),
        True: frozenset({("id",), ("project", "id"), ("cluster", "id"), ("deleted_at", "id")}),
    }
)
"""The columns of every index, of what is there and of what is deleted."""


class BadOrder(ValueError):
    """A sort, an offset or a limit that cannot be had; its text says what can."""


@dataclass(frozen=True, slots=True)
class Order:
    """The column that rows are sorted by; equal ones by id, in the same direction.

    called: what values of the column are called elsewhere, each once, where rows are sorted by that; a value without a
    name comes before all others. No index has such an order.
    """

    column: str = "id"
    descending: bool = True
    called: tuple[tuple[str, str], ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """What the order compares, the id last."""
        if self.called is not None:
            return (CALLED, "id")
        return ("id",) if self.column == "id" else (self.column, "id")

    def reversed(self) -> Order:
        """From the other end."""
        return replace(self, descending=not self.descending)

    def among(self, values: Collection[str]) -> Order:
        """The same order of rows whose column is one of these: by id alone where all of them are called the same."""
        if self.called is None:
            return self
        known = tuple(pair for pair in self.called if pair[0] in values)
        names = {name for _, name in known} | ({""} if len(known) < len(values) else set())
        return replace(self, called=known) if len(names) > 1 else Order(descending=self.descending)


Key = Points | Interval
"""A term by which an index finds rows."""


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to see: rows that pass every term, in an order, a stretch of them. `gone`: deleted ones."""

    terms: tuple[Term, ...] = ()
    order: Order = field(default_factory=Order)
    gone: bool = False
    offset: int = 0
    limit: int = PAGE_DEFAULT

    @property
    def need(self) -> int:
        """How many rows in order answer it."""
        return self.offset + self.limit


def question(
    terms: tuple[Term, ...], order: Order, *, gone: bool = False, offset: int = 0, limit: int = PAGE_DEFAULT
) -> Question:
    """A question in its shortest form, with the plainest order that gives the same rows in the same places.

    The id contains the time of creation as well, and has the indexes.
    """
    by_id = tuple(_by_id(term) for term in terms if isinstance(term, Points | Interval) and term.column == "created_at")
    every = joined((*terms, *by_id))
    fixed = [term for term in every if isinstance(term, Points) and term.column == order.column]
    return Question(every, order.among(fixed[0].values) if fixed else order, gone, offset, limit)


def _by_id(term: Key) -> Interval:
    low, high = (min(term.values), max(term.values)) if isinstance(term, Points) else (term.low, term.high)
    return Interval(
        "id",
        None if low is None else _edge(low, -_SLACK, "0"),
        None if high is None else _edge(high, _SLACK, "f"),
    )


def _edge(moment: datetime, slack: int, digit: str) -> str:
    """The first or the last id of a millisecond, a little beyond it: ids cut the microseconds off."""
    milliseconds = min(max(0, int(moment.timestamp() * 1000) + slack), (1 << 48) - 1)
    head = f"{milliseconds:012x}"
    return f"{head[:8]}-{head[8:]}-{digit * 4}-{digit * 4}-{digit * 12}"


def order_of(sort_by: str, sort_order: str, places: Places, fields: Mapping[str, ListField] = BY_NAME) -> Order:
    """An order in callers' words; newest first where nothing is said. Raises BadOrder."""
    if sort_order not in {"", "asc", "desc"}:
        raise BadOrder(f"sortOrder is {sort_order[:40]!r}; it is asc or desc")
    if not sort_by:
        return Order(descending=sort_order != "asc")
    found = fields.get(sort_by)
    if found is None or not found.sortable:
        known = ", ".join(one.name for one in fields.values() if one.sortable)
        raise BadOrder(f"sortBy is {sort_by[:40]!r}; lists are sorted by {known}")
    called = tuple(places.called(found)) if found.nature is Nature.PLACE else None
    return Order(_sorted_column(found), sort_order == "desc", called)


def beyond(order: Order, last: str) -> Interval:
    """What comes after the row `last` where rows are in the order of their ids."""
    number = int(last.replace("-", ""), 16)
    text = f"{max(0, number - 1 if order.descending else number + 1):032x}"
    edge = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
    return Interval("id", None, edge) if order.descending else Interval("id", edge, None)


def _sorted_column(known: ListField) -> str:
    # A UUIDv7 begins with the moment at which it was made, the same millisecond that created_at has.
    return "id" if known.column == "created_at" else known.column


@dataclass(frozen=True, slots=True)
class Few:
    """Fetch every row that a key holds, fewer than FEW, and sort them."""

    key: Key


@dataclass(frozen=True, slots=True)
class Walk:
    """Walk an index in the list's order: `keys` fix its first columns, value by value, or none does.

    stride: entries of each value that are looked through; 0: until the answer is complete. A walk with a stride that
    finds too few rows has not answered.
    """

    keys: tuple[Key, ...] = ()
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Scan:
    """One pass over the table, sorted."""


Way = Few | Walk | Scan


def keys(asked: Question) -> list[Key]:
    """The terms with which an index begins: those to probe."""
    firsts = {columns[0] for columns in INDEXES[asked.gone]}
    return [term for term in asked.terms if isinstance(term, Points | Interval) and _usable(term, firsts)]


def certain(asked: Question) -> Walk | None:
    """A walk that is the best way whatever the counts say: its index answers alone, and nothing is read in vain."""
    fixed = _fixed(asked)
    if fixed is None or not all(term in fixed for term in asked.terms):
        return None
    return Walk(fixed) if _branches(fixed) * asked.need <= DEEP or not keys(asked) else None


def ways(asked: Question, counted: Mapping[str, int]) -> list[Way]:
    """The ways to try, in turn; the last one answers. `counted`: rows of each key's column, up to FEW."""
    few = min(keys(asked), key=lambda key: counted[key.column], default=None)
    if few is not None and counted[few.column] < FEW:
        return [Few(few)]
    fixed = _fixed(asked)
    if fixed is None:
        return [Scan()]
    walk = Walk(fixed, _stride(asked, fixed))
    return [walk] if walk.stride == 0 else [walk, Scan()]


def _usable(term: Key, firsts: set[str]) -> bool:
    return term.column in firsts and not (isinstance(term, Points) and len(term.values) > KEYS)


def _fixed(asked: Question) -> tuple[Key, ...] | None:
    """The keys that begin the best index of the order; None where the order has no index."""
    ordered = asked.order.columns
    indexes = INDEXES[asked.gone]
    found = [key for key in asked.terms if isinstance(key, Points | Interval)]
    points = [key for key in found if isinstance(key, Points)]
    candidates = [
        *((one, two) for one in points for two in points if one != two),
        *((key,) for key in points if key.column != asked.order.column),
    ]
    for some in candidates:
        if (*(key.column for key in some), *ordered) in indexes and _branches(some) * asked.need <= MERGED:
            return some
    if ordered not in indexes:
        return None
    return tuple(key for key in found if key.column == asked.order.column and _branches((key,)) <= KEYS)


def _branches(fixed: tuple[Key, ...]) -> int:
    return math.prod(len(key.values) for key in fixed if isinstance(key, Points))


def _stride(asked: Question, fixed: tuple[Key, ...]) -> int:
    """No bound where the index alone answers, or where so much is skipped that a sort would cost more."""
    if all(term in fixed for term in asked.terms) or asked.need > DEEP:
        return 0
    return max(STRIDE, 2 * asked.need) // _branches(fixed) + 50
