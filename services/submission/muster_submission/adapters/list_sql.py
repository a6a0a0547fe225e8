"""A list's way as SQL that leaves the planner no other: the statements of adapters/lists.py.

An index that a way names is forced by the statement's shape: its first columns are compared as a range with one value
in it, not as equal, so that the order begins with them and no other index can give it.
Holds: values go by number, never into the text; columns come from the domain's table.
"""
# ruff: noqa: S608 - see what holds

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from muster_submission.domain.listing import CALLED, FEW, Key, Order, Question, Walk
from muster_submission.domain.terms import Except, Interval, Look, Points, Term, Way

GROUPS: Final = 10_000
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "uuid",
        "kind": "smallint",
        "phase": "smallint",
        "gpus": "bigint",
        "pods": "integer",
        "created_at": "timestamptz",
        "finished_at": "timestamptz",
        "deleted_at": "timestamptz",
    }
)
_TESTS: Final[Mapping[Way, str]] = MappingProxyType(
    {
        # strpos, right and starts_with know no pattern: % _ and \ are letters like all others.
        Way.CONTAINS: "strpos({column}, {value}) > 0",
        Way.LACKS: "strpos({column}, {value}) = 0",
        Way.BEGINS: "starts_with({column}, {value})",
        Way.ENDS: "right({column}, length({value})) = {value}",
    }
)


class Statement:
    """SQL with its values, which get their numbers as they come in."""

    def __init__(self) -> None:
        self.text = ""
        self.values: list[Any] = []

    def value(self, column: str, value: Any, *, many: bool = False) -> str:
        """The place of a value of that column's type, or of an array of them."""
        self.values.append(value)
        return f"${len(self.values)}::{_TYPES.get(column, 'text')}{'[]' if many else ''}"

    def test(self, term: Term) -> str:
        """A term as a condition on the row `l`."""
        column = f"l.{term.column}"
        match term:
            case Points(values=values):
                return f"{column} = ANY ({self.value(term.column, sorted(values), many=True)})"
            case Except(values=values):
                return f"{column} <> ALL ({self.value(term.column, sorted(values), many=True)})"
            case Look(way=way, text=text):
                return _TESTS[way].format(column=column, value=self.value(term.column, text))
            case Interval(low=low, high=high):
                ends = [(">=", low), ("<=", high)]
                said = [f"{column} {sign} {self.value(term.column, end)}" for sign, end in ends if end is not None]
                return " AND ".join(said) or "true"

    def tests(self, asked: Question, but: Sequence[Key] = ()) -> str:
        """Every term but those that an index has seen to."""
        return " AND ".join(self.test(term) for term in asked.terms if term not in but) or "true"


def _there(asked: Question) -> str:
    return "l.gone" if asked.gone else "NOT l.gone"


def _ordered(order: Order, columns: Sequence[str] = ()) -> str:
    direction = "DESC" if order.descending else "ASC"
    return ", ".join(f"l.{column} {direction}" for column in columns or order.columns)


def _index_order(asked: Question, fixed: Sequence[Key]) -> str:
    return _ordered(asked.order, tuple(dict.fromkeys((*(key.column for key in fixed), *asked.order.columns))))


def _entries(made: Statement, asked: Question, fixed: Sequence[Key], columns: str, rest: str, limit: str) -> str:
    """The entries of the index that begins with `fixed` and goes on in the list's order, value by value."""
    points = [key for key in fixed if isinstance(key, Points)]
    intervals = [key for key in fixed if isinstance(key, Interval)]
    there = " AND ".join([_there(asked), *(made.test(key) for key in intervals), rest])
    ordered = _index_order(asked, fixed)
    if not points:
        return f"SELECT {columns} FROM workload_list l WHERE {there} ORDER BY {ordered} LIMIT {limit}"
    sources = [
        f"unnest({made.value(key.column, sorted(key.values), many=True)}) AS k{number} (v)"
        for number, key in enumerate(points)
    ]
    mine = ", ".join(f"l.{key.column}" for key in points)
    theirs = ", ".join(f"k{number}.v" for number in range(len(points)))
    return (
        f"SELECT b.* FROM {' CROSS JOIN '.join(sources)} CROSS JOIN LATERAL ("
        f"SELECT {columns} FROM workload_list l WHERE ({mine}) >= ({theirs}) AND ({mine}) <= ({theirs}) AND {there} "
        f"ORDER BY {ordered} LIMIT {limit}) b"
    )


def _finished(made: Statement, asked: Question, entries: str) -> Statement:
    made.text = (
        f"SELECT l.id::text AS id FROM ({entries}) l ORDER BY {_ordered(asked.order)} "
        f"OFFSET {asked.offset:d} LIMIT {asked.limit:d}"
    )
    return made


def _named(made: Statement, order: Order, rows: str) -> str:
    """The rows as `l`, with what the order's column is called where that is the order."""
    if order.called is None:
        return f"{rows} l"
    values = made.value(order.column, [value for value, _ in order.called], many=True)
    names = made.value(CALLED, [name for _, name in order.called], many=True)
    return (
        f"(SELECT l.*, coalesce(n.name, '') COLLATE \"C\" AS {CALLED} FROM {rows} l "
        f"LEFT JOIN unnest({values}, {names}) AS n (value, name) ON n.value = l.{order.column}) l"
    )


def probes(asked: Question, found: Sequence[Key]) -> Statement:
    """How many rows each key holds, counted up to FEW: one row, a number a key."""
    made = Statement()
    counts = []
    for key in found:
        by_key = Question(order=Order(key.column, descending=False), gone=asked.gone)
        entries = _entries(made, by_key, [key], "1", "true", f"{FEW:d}")
        counts.append(f"(SELECT count(*) FROM (SELECT 1 FROM ({entries}) e LIMIT {FEW:d}) c)")
    made.text = f"SELECT {', '.join(counts)}"
    return made


def _held(made: Statement, asked: Question, key: Key) -> str:
    by_key = Question(order=Order(key.column, descending=False), gone=asked.gone)
    return f"WITH held AS MATERIALIZED ({_entries(made, by_key, [key], 'l.*', 'true', f'{FEW:d}')})"


def few(asked: Question, key: Key) -> Statement:
    """Every row of a key, sorted and cut."""
    made = Statement()
    held = _held(made, asked, key)
    rows = _named(made, asked.order, "held")
    _finished(made, asked, f"SELECT l.* FROM {rows} WHERE {made.tests(asked, [key])}")
    made.text = f"{held} {made.text}"
    return made


def few_counted(asked: Question, key: Key) -> Statement:
    """How many rows of a key pass."""
    made = Statement()
    held = _held(made, asked, key)
    made.text = f"{held} SELECT count(*) FROM held l WHERE {made.tests(asked, [key])}"
    return made


def walk(asked: Question, way: Walk) -> Statement:
    """The answer by one index, walked from its beginning."""
    made = Statement()
    columns = ", ".join(f"l.{column}" for column in asked.order.columns)
    rest = made.tests(asked, way.keys)
    return _finished(made, asked, _entries(made, asked, way.keys, columns, rest, f"{asked.need:d}"))


def strided(asked: Question, way: Walk) -> Statement:
    """What a bounded walk finds in order: rows that pass, and the entries at which a value's walk was cut short."""
    made = Statement()
    numbered = f"l.*, row_number() OVER (ORDER BY {_index_order(asked, way.keys)}) AS place"
    entries = _entries(made, asked, way.keys, numbered, "true", f"{way.stride:d}")
    made.text = (
        f"SELECT l.id::text AS id, l.passes, l.edge FROM ("
        f"SELECT l.*, {made.tests(asked, way.keys)} AS passes, "
        f"l.place = {way.stride:d} AS edge FROM ({entries}) l) l "
        f"WHERE l.passes OR l.edge ORDER BY {_ordered(asked.order)} LIMIT {asked.need + 1:d}"
    )
    return made


def scan(asked: Question) -> Statement:
    """The answer by one pass over the table."""
    made = Statement()
    columns = ", ".join(f"l.{column}" for column in dict.fromkeys((asked.order.column, "id")))
    entries = f"SELECT {columns} FROM workload_list l WHERE {_there(asked)} AND {made.tests(asked)}"
    _finished(made, asked, f"SELECT l.* FROM {_named(made, asked.order, 'every')}")
    # Materialised, so that an index of the order's column, which would be walked to its end, is no way to it.
    made.text = f"WITH every AS MATERIALIZED ({entries}) {made.text}"
    return made


def counted(asked: Question) -> Statement:
    """How many rows pass, by whatever way the planner likes: it guesses well where all have to be counted."""
    made = Statement()
    made.text = f"SELECT count(*) FROM workload_list l WHERE {_there(asked)} AND {made.tests(asked)}"
    return made


def pods_counted(asked: Question) -> Statement:
    """How many pods the rows that pass have together."""
    made = Statement()
    there = f"{_there(asked)} AND l.pods > 0 AND {made.tests(asked)}"
    made.text = f"SELECT coalesce(sum(l.pods), 0)::bigint FROM workload_list l WHERE {there}"
    return made


def grouped(asked: Question, columns: Sequence[str], measure: str) -> Statement:
    """A number for each group of the rows that pass, followed by what the group has in common."""
    made = Statement()
    shown = ", ".join(f"l.{column}" for column in columns)
    by = f" GROUP BY {shown} ORDER BY {shown} LIMIT {GROUPS:d}" if columns else ""
    told = ", ".join([measure, *(f"l.{column}" for column in columns)])
    made.text = f"SELECT {told} FROM workload_list l WHERE {_there(asked)} AND {made.tests(asked)}{by}"
    return made
