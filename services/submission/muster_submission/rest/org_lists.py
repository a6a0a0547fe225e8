"""Short lists that are kept in memory (org units, node pools, access rules): filtered, sorted and cut as the API says.

Called by their routes. The grammar of filterBy is the same as for workloads; the fields are those given here. Holds:
every order ends in the id, so that two pages never show a row twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from starlette.requests import Request

from muster_submission.domain.fields import ListField, Nature
from muster_submission.domain.filtering import BadFilter, Places, read
from muster_submission.domain.terms import Term, holds
from muster_submission.rest.operation import Parameter
from muster_submission.rest.requests import bad, one_of, whole, whole_schema

DEFAULT_LIMIT: Final = 50
LARGEST_LIMIT: Final = 500
LARGEST_OFFSET: Final = 1_000_000_000
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One field by which rows are filtered and sorted."""

    field: ListField
    value: Callable[[Row], Any]


def text(name: str, meaning: str, value: Callable[[Row], str]) -> Column[Row]:
    """A text."""
    return Column(ListField(name, Nature.TEXT, name, meaning), value)


def time(name: str, meaning: str, value: Callable[[Row], datetime]) -> Column[Row]:
    """A time; `value` without a zone is UTC."""
    return Column(ListField(name, Nature.TIME, name, meaning), lambda row: value(row).replace(tzinfo=UTC))


class Listing(Generic[Row]):
    """How one kind of row is listed. `number`: the row's id; `order`: by what it is sorted where nothing is said."""

    def __init__(self, columns: Iterable[Column[Row]], number: Callable[[Row], int], order: str = "name") -> None:
        self._columns = {column.field.name: column for column in columns}
        self._fields: Mapping[str, ListField] = {name: column.field for name, column in self._columns.items()}
        self._number = number
        self._order = order

    def parameters(self) -> list[Parameter]:
        """What the operation takes in its query."""
        names = sorted(self._columns)
        condition = f"FIELD OPERATOR VALUE; fields: {', '.join(names)}; operators: == != <= >= =@ !@ =^ =$"
        strings = {"type": "array", "items": {"type": "string"}}
        return [
            Parameter("filterBy", f"Only rows that pass every condition: {condition}.", strings),
            Parameter("sortBy", "The field by which rows are sorted.", {"type": "string", "enum": names}),
            Parameter("sortOrder", "The direction.", {"type": "string", "enum": ["asc", "desc"], "default": "asc"}),
            Parameter("offset", "How many rows to pass over.", whole_schema(0, LARGEST_OFFSET, 0)),
            Parameter("limit", "How many rows to show at most.", whole_schema(1, LARGEST_LIMIT, DEFAULT_LIMIT)),
        ]

    def count_parameters(self) -> list[Parameter]:
        """What a count takes."""
        return self.parameters()[:1]

    def count(self, request: Request, rows: Iterable[Row]) -> int:
        """How many rows pass. Raises BadBody."""
        return len(self._passing(request, rows))

    def page(self, request: Request, rows: Iterable[Row]) -> tuple[list[Row], int | None]:
        """The rows of the page, and the offset of the next; None where it is the last. Raises BadBody."""
        offset = whole(request, "offset", 0, LARGEST_OFFSET, 0)
        limit = whole(request, "limit", 1, LARGEST_LIMIT, DEFAULT_LIMIT)
        column, descending = self._sorting(request)
        found = sorted(
            self._passing(request, rows),
            key=lambda row: (self._columns[column].value(row), self._number(row)),
            reverse=descending,
        )
        end = offset + limit
        return found[offset:end], end if len(found) > end else None

    def _passing(self, request: Request, rows: Iterable[Row]) -> Sequence[Row]:
        try:
            terms = read(request.query_params.getlist("filterBy"), Places(), self._fields)
        except BadFilter as problem:
            raise bad("filterBy", str(problem)) from None
        return [row for row in rows if all(self._passes(term, row) for term in terms)]

    def _passes(self, term: Term, row: Row) -> bool:
        return holds(term, self._columns[term.column].value(row))

    def _sorting(self, request: Request) -> tuple[str, bool]:
        # An old client sends the member of its own enumeration, such as ProjectFilterSortFields.NAME.
        asked = request.query_params.get("sortBy", "")
        by_member = {name.lower(): name for name in self._columns}
        name = asked if asked in self._columns else by_member.get(asked.rpartition(".")[2].replace("_", "").lower(), "")
        if asked and not name:
            said = f"sortBy is {asked[:60]!r}; it is one of {', '.join(sorted(self._columns))}"
            raise bad("sortBy", said)
        return name or self._order, one_of(request, "sortOrder", ["asc", "desc"], "asc") == "desc"
