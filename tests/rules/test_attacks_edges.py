"""The attacks on the edges, with the part taken out that prevents them: here each of them works.

The tests substitute that part themselves; the product has no switch for it. Rows A7, B1, B4, B5, B6, B7 and B11.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from muster_chassis.rpc import everyone_is_local
from muster_kernel import quantities
from muster_submission.rest.answers import answer
from muster_submission.rest.edge import Edge
from muster_submission.rest.operation import Answer, Body, Operation, Shape
from muster_submission.rest.origins import Origins

_MOST_DIGITS = 10_000


def _unbounded(text: str) -> Fraction:
    """The reader of GPU requests as it was: a Fraction of whatever Decimal reads."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        raise OverflowError(f"{text} would be written out in {abs(number.adjusted())} digits")
    return Fraction(number)


def test_a_number_that_is_not_bounded_is_written_out_in_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="is not a GPU request"):
        quantities.parse_gpu("1e999999999")
    monkeypatch.setattr(quantities, "exact", _unbounded)
    with pytest.raises(OverflowError, match="999999999 digits"):
        quantities.parse_gpu("1e999999999")


class _NoLook(Origins):
    """Takes the look at Host, Origin and media type out."""

    def check(self, request: Request) -> None:
        """Anything goes."""


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain", "origin": "http://evil.example"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "host": "evil.example", "origin": "http://evil.example"},
        {"content-type": "application/json", "origin": "http://127.0.0.1:9"},
    ],
)
async def test_without_the_look_at_origins_a_foreign_page_starts_a_command(headers: dict[str, str]) -> None:
    started: list[bytes] = []

    async def create(request: Request) -> Response:
        started.append(await request.body())
        return answer({})

    thing = Shape("Thing", {"type": "object"})
    served = [Operation("POST", "/x", "x", "t", "X", create, {200: Answer("It.", thing)}, body=Body(thing))]
    for origins, made in ((Origins(), 0), (_NoLook(), 1)):
        edge = Edge(served, everyone_is_local, origins=origins)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=edge), base_url="http://127.0.0.1") as http:
            await http.post("/x", content=b'{"command": "x"}', headers=headers)
        assert len(started) == made
