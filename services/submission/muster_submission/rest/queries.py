"""What stands in the query of a list: deleted, offset, limit, sortBy, sortOrder, filterBy, read into a question.

Called by the routes of workloads' lists. Holds: whatever cannot be read is refused with what can; the scope of the
caller is part of the question, so that no list, count or offset tells of what they may not see.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

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
from muster_submission.rest.operation import Parameter
from muster_submission.rest.requests import bad, flag, one_of, whole, whole_schema


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
        Parameter("offset", "How many rows to pass over.", whole_schema(0, LARGEST_OFFSET, 0)),
        Parameter("limit", "How many rows to show at most.", whole_schema(1, PAGE_LIMIT, PAGE_DEFAULT)),
    ]


def list_question(
    request: Request, directory: Directory, scope: frozenset[str] | None, fields: Mapping[str, ListField] = BY_NAME
) -> Question:
    """The question of a list, with one row more than its limit: that row says whether there is a next page."""
    offset, limit = stretch(request)
    return question(
        terms(request, directory, scope, fields),
        _order(request, directory, fields),
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


def _order(request: Request, directory: Directory, fields: Mapping[str, ListField]) -> Order:
    sort_by = one_of(request, "sortBy", ["", *(one.name for one in fields.values() if one.sortable)])
    sort_order = one_of(request, "sortOrder", ["", "asc", "desc"])
    try:
        return order_of(sort_by, sort_order, directory.places(), fields)
    except BadOrder as error:
        raise bad("sortBy", str(error)) from None
