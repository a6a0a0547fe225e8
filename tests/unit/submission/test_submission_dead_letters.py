"""The dead letters of several services as one list: newest first, as many as were asked for, each exactly once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Self, cast

import pytest

from muster.api.v1 import dead_letters_pb2 as api
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.errors import NotFound
from muster_submission.adapters.owners import Owner
from muster_submission.domain.bindings import State
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Access
from muster_submission.rpc.dead_letters import AllDeadLetters
from tests.support.calls import Call


class _Keeper:
    """One service's dead letters, newest first, as its own servicer pages them."""

    def __init__(self, name: str, times: list[int]) -> None:
        self.name = name
        self.where = ["somewhere"]
        self.letters = [api.DeadLetter(id=f"{name}-{time}", service=name) for time in sorted(times, reverse=True)]
        for letter in self.letters:
            letter.at.seconds = int(letter.id.rpartition("-")[2])

    async def ask(self, _stub: Any, method: str, request: Any, _answer: Any, context: Any) -> Any:
        return await getattr(self, method)(request, context)

    async def ListDeadLetters(self, request: Any, _context: Any) -> api.ListDeadLettersResponse:
        ids = [letter.id for letter in self.letters]
        begin = ids.index(request.page_token) + 1 if request.page_token else 0
        shown = self.letters[begin : begin + request.page_size]
        full = len(shown) == request.page_size
        return api.ListDeadLettersResponse(
            dead_letters=shown, next_page_token=shown[-1].id if full else "", total=len(ids)
        )

    async def DiscardDeadLetters(self, request: Any, _context: Any) -> api.DiscardDeadLettersResponse:
        known = {letter.id for letter in self.letters} & set(request.ids)
        if not known:
            raise NotFound("none of them")
        return api.DiscardDeadLettersResponse(
            discarded=len(known), released=1, missing=[each for each in request.ids if each not in known]
        )


class _NoBooks:
    """Nobody is asked: authentication is switched off."""

    async def state(self) -> State:
        raise AssertionError("local needs no books")


class _Audit:
    """A database that takes in the lines of the audit, and nothing else is written."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def connection(self) -> Self:
        return self

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[Self]:
        yield self

    async def execute(self, statement: str, *_values: object) -> None:
        assert "INSERT INTO audit" in statement


def _all() -> AllDeadLetters:
    own = _Keeper("submission", [1, 9, 5])
    others = [_Keeper("policy", []), _Keeper("scheduler", [2, 3, 4, 6, 7, 8])]
    access = Access(_NoBooks(), everyone_is_admin=True)
    return AllDeadLetters(cast("Database", _Audit()), access, cast("DeadLetters", own), cast("list[Owner]", others))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9, 50])
async def test_every_page_is_full_and_nothing_is_left_out(size: int) -> None:
    shown, token = list[int](), ""
    while True:
        request = api.ListDeadLettersRequest(page_size=size, page_token=token)
        page = await _all().ListDeadLetters(request, Call())
        assert token or page.total == 9
        shown += [letter.at.seconds for letter in page.dead_letters]
        token = page.next_page_token
        if not token:
            break
        assert len(page.dead_letters) == size
    assert shown == [9, 8, 7, 6, 5, 4, 3, 2, 1]


async def test_each_is_given_up_where_it_is() -> None:
    request = api.DiscardDeadLettersRequest(ids=["submission-1", "scheduler-2", "nobody-3"], idempotency_key="k")
    answer = await _all().DiscardDeadLetters(request, Call())
    assert (answer.discarded, answer.released, list(answer.missing)) == (2, 2, ["nobody-3"])
    with pytest.raises(NotFound):
        await _all().DiscardDeadLetters(api.DiscardDeadLettersRequest(ids=["nobody-3"]), Call())
    with pytest.raises(BadQuestion):
        await _all().DiscardDeadLetters(api.DiscardDeadLettersRequest(), Call())
