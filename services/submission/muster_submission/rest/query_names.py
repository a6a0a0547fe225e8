"""Which names may stand in a query: those of the operation, each once unless it takes several.

Called by the edge before a handler runs. Holds: a misspelt filter is refused instead of answering with everything, and
of a name that stands twice none is taken silently. Kubernetes' clients send names of their own and are let through, as
an API server does.
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches

from starlette.requests import Request

from muster_chassis.errors import Violation
from muster_chassis.text import clean
from muster_submission.rest.errors import BadBody
from muster_submission.rest.operation import Operation

_SHOWN = 40  # characters of a name that an error repeats
_MOST = 10  # names that an error repeats


def check_query(request: Request, operation: Operation) -> None:
    """Raises BadBody with every name that the operation does not know, or that stands more often than it may."""
    if not request.url.query:
        return
    known = {one.name: one.schema.get("type") == "array" for one in operation.parameters if one.place == "query"}
    times = Counter(name for name, _ in request.query_params.multi_items())
    found = [
        Violation(clean(name, _SHOWN), _unknown(name, list(known)) if name not in known else _repeated(name, count))
        for name, count in times.items()
        if name not in known or (count > 1 and not known[name])
    ][:_MOST]
    if found:
        raise BadBody("; ".join(one.description for one in found), violations=found)


def _unknown(name: str, known: list[str]) -> str:
    near = get_close_matches(name[:_SHOWN], known, n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    there = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
    return f"the query has {clean(name, _SHOWN)!r}, which this route does not know{hint} ({there})"


def _repeated(name: str, count: int) -> str:
    return f"{name} stands {count} times in the query: once is allowed"
