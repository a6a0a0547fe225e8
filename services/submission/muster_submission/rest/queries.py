"""What stands in the query of a list: deleted, offset, limit, sortBy, sortOrder, filterBy, read into a question.

Called by the routes of workloads' lists. Holds: whatever cannot be read is refused with what can; the scope of the
caller is part of the question, so that no list, count or offset tells of what they may not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request

from muster_chassis.errors import Violation
from muster_submission.adapters.places import Directory
from muster_submission.domain.fields import BY_NAME, ListField
from muster_submission.domain.filtering import BadFilter, read
from muster_submission.domain.listing import (
    LARGEST_OFFSET,
    PAGE_DEFAULT,
    PAGE_LIMIT,
    BadOrder,
    Order,
    Question,
    order_of,
    question,
)
from muster_submission.domain.terms import Points, Term
from muster_submission.rest.errors import BadBody
from muster_submission.rest.operation import Parameter

_TRUTHS: Final[Mapping[str, bool]] = {"true": True, "false": False, "": False}


def parameters(fields: Mapping[str, ListField] = BY_NAME) -> list[Parameter]:
    """What a list takes."""
    sortable = [one.name for one in fields.values() if one.sortable]
    return [
        *count_parameters(fields),
        *stretch_parameters(),
        Parameter("sortBy", "By what rows are sorted; equal ones by id.", {"type": "string", "enum": sortable}),
        Parameter(
            "sortOrder",
            "The direction: asc where sortBy is given, else newest first.",
            {"type": "string", "enum": ["asc", "desc"]},
        ),
    ]


def count_parameters(fields: Mapping[str, ListField] = BY_NAME) -> list[Parameter]:
    """What a count takes."""
    known = "; ".join(f"{one.name} ({one.meaning}) {' '.join(one.operators)}" for one in fields.values())
    said = f"Conditions that all have to hold, each FIELD OPERATOR VALUE, such as name=^train. Fields: {known}"
    texts = {"type": "array", "items": {"type": "string", "maxLength": 1100}, "maxItems": 50}
    return [
        Parameter("deleted", "Deleted workloads instead of those that are there.", {"type": "boolean"}),
        Parameter("filterBy", said, texts),
    ]


def stretch_parameters() -> list[Parameter]:
    """Which part of a list."""
    return [
        Parameter("offset", "How many rows to pass over.", _range(0, LARGEST_OFFSET, 0)),
        Parameter("limit", "How many rows to show at most.", _range(1, PAGE_LIMIT, PAGE_DEFAULT)),
    ]


def list_question(
    request: Request, directory: Directory, scope: frozenset[str] | None, fields: Mapping[str, ListField] = BY_NAME
) -> Question:
    """The question of a list, with one row more than its limit: that row says whether there is a next page."""
    offset, limit = stretch(request)
    return question(
        terms(request, directory, scope, fields),
        _order(request, fields),
        gone=flag(request, "deleted"),
        offset=offset,
        limit=limit + 1,
    )


def count_question(
    request: Request, directory: Directory, scope: frozenset[str] | None, fields: Mapping[str, ListField] = BY_NAME
) -> Question:
    """The question of a count."""
    return question(terms(request, directory, scope, fields), Order(), gone=flag(request, "deleted"))


def terms(
    request: Request, directory: Directory, scope: frozenset[str] | None, fields: Mapping[str, ListField]
) -> tuple[Term, ...]:
    """What filterBy and the caller's scope say."""
    try:
        said = read(request.query_params.getlist("filterBy"), directory.places(), fields)
    except BadFilter as error:
        raise bad("filterBy", str(error)) from None
    return said if scope is None else (*said, Points("project", scope))


def stretch(request: Request) -> tuple[int, int]:
    """How many rows to pass over, and how many to show."""
    return whole(request, "offset", 0, LARGEST_OFFSET, 0), whole(request, "limit", 1, PAGE_LIMIT, PAGE_DEFAULT)


def whole(request: Request, name: str, low: int, high: int, otherwise: int) -> int:
    """A whole number of the query."""
    given = request.query_params.get(name)
    if given is None:
        return otherwise
    if given.isascii() and given.isdigit() and len(given) <= len(str(high)) and low <= int(given) <= high:
        return int(given)
    raise bad(name, f"{name} is {given[:40]!r}; it is a whole number from {low} to {high}")


def flag(request: Request, name: str) -> bool:
    """Whether something is wanted; in any case of the letters, false where nothing is said."""
    given = request.query_params.get(name, "")
    known = _TRUTHS.get(given.lower())
    if known is None:
        raise bad(name, f"{name} is {given[:40]!r}; it is true or false")
    return known


def one_of(request: Request, name: str, words: Sequence[str], otherwise: str = "") -> str:
    """A word of the query, also as `Class.MEMBER`: so the vendor's client sends words of its own enums."""
    given = request.query_params.get(name, otherwise)
    plain = given.rpartition(".")[2]
    found = next((word for word in words if word.lower() in {given.lower(), plain.lower()}), None)
    if found is None:
        raise bad(name, f"{name} is {given[:40]!r}; it is one of {', '.join(word for word in words if word)}")
    return found


def bad(name: str, said: str) -> BadBody:
    """A query that cannot be read."""
    return BadBody(said, violations=[Violation(name, said)])


def _order(request: Request, fields: Mapping[str, ListField]) -> Order:
    sort_by = one_of(request, "sortBy", ["", *(one.name for one in fields.values() if one.sortable)])
    sort_order = one_of(request, "sortOrder", ["", "asc", "desc"])
    try:
        return order_of(sort_by, sort_order, fields)
    except BadOrder as error:
        raise bad("sortBy", str(error)) from None


def _range(low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}
