"""DeadLettersService for everyone: submission's own dead letters and those of the services behind it.

Each service keeps and serves its own; a call that names one goes there, a call that names none goes to all, and says
who did not answer. A page token holds where each service's list goes on.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from muster.api.v1 import dead_letters_pb2 as api
from muster.api.v1 import dead_letters_pb2_grpc
from muster_chassis.database import Database
from muster_chassis.dead_letters import DeadLetters
from muster_chassis.errors import NotFound, ServiceError
from muster_chassis.gaps import owner_of
from muster_chassis.rpc import caller
from muster_chassis.text import clean
from muster_submission.adapters.owners import Owner
from muster_submission.audit import Entry, passed_on
from muster_submission.domain.access import Verb
from muster_submission.errors import BadQuestion
from muster_submission.handlers.access import Access

OWN: Final = "submission"
_STUB: Final = dead_letters_pb2_grpc.DeadLettersServiceStub
_PAGE: Final = 50
_LARGEST: Final = 500
_Answer = TypeVar("_Answer")


class AllDeadLetters(dead_letters_pb2_grpc.DeadLettersServiceServicer):
    """The servicer."""

    def __init__(self, database: Database, access: Access, own: DeadLetters, owners: Sequence[Owner]) -> None:
        self._database = database
        self._access = access
        self._own = own
        self._owners = {owner.name: owner for owner in owners if owner.where}

    async def ListDeadLetters(self, request: api.ListDeadLettersRequest, context: Any) -> api.ListDeadLettersResponse:
        """The dead letters of one service or of all, newest first within a page."""
        (await self._access.rights(caller())).require(Verb.DEAD_LETTERS_READ)
        size = request.page_size or _PAGE
        if size > _LARGEST:
            raise BadQuestion(f"page_size is {size}; 1 to {_LARGEST} are allowed, 0 means {_PAGE}")
        begun = _read_token(request.page_token)
        names = [name for name in self._names(request.service) if begun is None or name in begun]

        async def ask(name: str) -> api.ListDeadLettersResponse:
            # A whole page of each: any of them may have all of the newest.
            asked = api.ListDeadLettersRequest(
                service=name,
                page_size=size,
                page_token="" if begun is None else begun[name],
                include_done=request.include_done,
            )
            if name == OWN:
                return await self._own.ListDeadLetters(asked, context)
            return await self._owners[name].ask(_STUB, "ListDeadLetters", asked, api.ListDeadLettersResponse, context)

        return _merged(await _all(names, ask), begun or {}, size)

    async def RedriveDeadLetters(
        self, request: api.RedriveDeadLettersRequest, context: Any
    ) -> api.RedriveDeadLettersResponse:
        """Hands dead letters to their handlers again; without a service, whichever has them."""
        return await self._change(request, "RedriveDeadLetters", lambda: self._redrive(request, context))

    async def _redrive(self, request: api.RedriveDeadLettersRequest, context: Any) -> api.RedriveDeadLettersResponse:

        async def ask(name: str) -> api.RedriveDeadLettersResponse:
            asked = api.RedriveDeadLettersRequest(
                service=name, ids=request.ids, idempotency_key=request.idempotency_key
            )
            if name == OWN:
                return await self._own.RedriveDeadLetters(asked, context)
            return await self._owners[name].ask(
                _STUB, "RedriveDeadLetters", asked, api.RedriveDeadLettersResponse, context
            )

        merged = api.RedriveDeadLettersResponse()
        missing = list[NotFound]()
        answers = await _all(self._names(request.service), ask, missing)
        for name, answer in answers.items():
            if isinstance(answer, ServiceError):
                merged.reasons.append(f"{name}: {answer.message}")
                continue
            merged.handled += answer.handled
            merged.failed += answer.failed
            merged.reasons.extend(answer.reasons)
        if missing and not answers:
            raise missing[0]
        return merged

    async def DiscardDeadLetters(
        self, request: api.DiscardDeadLettersRequest, context: Any
    ) -> api.DiscardDeadLettersResponse:
        """Gives dead letters up; without a service, each goes to the one that has it. NOT_FOUND where none has any."""
        if not request.ids:
            raise BadQuestion("ids is empty: name the dead letters to give up, as ListDeadLetters shows them")
        return await self._change(request, "DiscardDeadLetters", lambda: self._discard(request, context))

    async def _discard(self, request: api.DiscardDeadLettersRequest, context: Any) -> api.DiscardDeadLettersResponse:
        async def ask(name: str) -> api.DiscardDeadLettersResponse:
            asked = api.DiscardDeadLettersRequest(
                service=name, ids=request.ids, idempotency_key=request.idempotency_key
            )
            if name == OWN:
                return await self._own.DiscardDeadLetters(asked, context)
            return await self._owners[name].ask(
                _STUB, "DiscardDeadLetters", asked, api.DiscardDeadLettersResponse, context
            )

        none = list[NotFound]()
        answers = await _all(self._names(request.service), ask, none)
        if none and not answers:
            raise none[0]
        merged = api.DiscardDeadLettersResponse()
        missing = set(request.ids)
        for name, answer in answers.items():
            if isinstance(answer, ServiceError):
                merged.reasons.append(f"{name}: {answer.message}")
                continue
            missing &= set(answer.missing)
            merged.discarded += answer.discarded
            merged.released += answer.released
            merged.reasons.extend(answer.reasons)
        merged.missing.extend(sorted(missing))
        return merged

    async def ResumeConsumer(self, request: api.ResumeConsumerRequest, context: Any) -> api.ResumeConsumerResponse:
        """Lets a stopped consumer go on."""
        return await self._change(request, "ResumeConsumer", lambda: self._resume(request, context))

    async def _resume(self, request: api.ResumeConsumerRequest, context: Any) -> api.ResumeConsumerResponse:
        name = next(iter(self._names(request.service)))
        if not request.service or name == OWN:
            return await self._own.ResumeConsumer(request, context)
        return await self._owners[name].ask(_STUB, "ResumeConsumer", request, api.ResumeConsumerResponse, context)

    async def ListGaps(self, request: api.ListGapsRequest, context: Any) -> api.ListGapsResponse:
        """Where versions are missing, of one service or of all, oldest first."""
        (await self._access.rights(caller())).require(Verb.DEAD_LETTERS_READ)

        async def ask(name: str) -> api.ListGapsResponse:
            asked = api.ListGapsRequest(service=name)
            if name == OWN:
                return await self._own.ListGaps(asked, context)
            return await self._owners[name].ask(_STUB, "ListGaps", asked, api.ListGapsResponse, context)

        merged = api.ListGapsResponse()
        for name, answer in (await _all(self._names(request.service), ask)).items():
            if isinstance(answer, ServiceError):
                merged.unanswered.append(name)
                continue
            merged.gaps.extend(answer.gaps)
            merged.total += answer.total
        merged.gaps.sort(key=lambda gap: (gap.since.seconds, gap.since.nanos))
        return merged

    async def Republish(self, request: api.RepublishRequest, context: Any) -> api.RepublishResponse:
        """Publishes a topic again, or what its owner has of one aggregate."""
        (await self._access.rights(caller())).require(Verb.DEAD_LETTERS_WRITE)
        (name,) = self._names(owner_of(request.topic))

        async def work() -> api.RepublishResponse:
            if name == OWN:
                return await self._own.Republish(request, context)
            return await self._owners[name].ask(_STUB, "Republish", request, api.RepublishResponse, context)

        entry = Entry(Verb.DEAD_LETTERS_WRITE, f"topics/{request.topic}", detail="Republish")
        return await passed_on(self._database, entry, work)

    async def _change(self, request: Any, method: str, work: Callable[[], Awaitable[_Answer]]) -> _Answer:
        (await self._access.rights(caller())).require(Verb.DEAD_LETTERS_WRITE)
        target = f"dead-letters/{request.service or 'all'}"
        return await passed_on(self._database, Entry(Verb.DEAD_LETTERS_WRITE, target, detail=method), work)

    def _names(self, service: str) -> list[str]:
        known = [OWN, *self._owners]
        if not service:
            return known
        if service not in known:
            raise BadQuestion(f"service {clean(service, 60)!r} is none of {', '.join(known)}")
        return [service]


async def _all(
    names: Sequence[str], ask: Callable[[str], Awaitable[Any]], missing: list[NotFound] | None = None
) -> dict[str, Any]:
    """Each service's answer, or its error; those that have nothing of it go to `missing`. One named alone raises."""
    found = await asyncio.gather(*(ask(name) for name in names), return_exceptions=True)
    answers: dict[str, Any] = {}
    for name, answer in zip(names, found, strict=True):
        if isinstance(answer, NotFound) and missing is not None:
            missing.append(answer)
        elif isinstance(answer, BaseException) and (len(names) == 1 or not isinstance(answer, ServiceError)):
            raise answer
        else:
            answers[name] = answer
    return answers


def _merged(answers: Mapping[str, Any], begun: Mapping[str, str], size: int) -> api.ListDeadLettersResponse:
    """The newest `size` of all. Each list keeps its own order, so that its part of the page is where it began."""
    page = api.ListDeadLettersResponse()
    lists: dict[str, Any] = {}
    for name, answer in answers.items():
        if isinstance(answer, ServiceError):
            page.unanswered.append(name)
            continue
        lists[name] = answer
        page.unanswered.extend(answer.unanswered)
        page.total += answer.total
    named = [[(name, letter) for letter in answer.dead_letters] for name, answer in lists.items()]
    newest = heapq.merge(*named, key=lambda one: (one[1].at.seconds, one[1].at.nanos), reverse=True)
    shown = list(islice(newest, size))
    page.dead_letters.extend(letter for _, letter in shown)
    last = {name: letter.id for name, letter in shown}
    count = Counter(name for name, _ in shown)
    tokens = {
        name: last.get(name, begun.get(name, ""))
        for name, answer in lists.items()
        if answer.next_page_token or count[name] < len(answer.dead_letters)
    }
    if tokens:
        page.next_page_token = base64.urlsafe_b64encode(json.dumps(tokens).encode()).decode()
    return page


def _read_token(token: str) -> dict[str, str] | None:
    if not token:
        return None
    try:
        read = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or not all(isinstance(one, str) for one in read.values()):
        raise BadQuestion("page_token is not one that this service gave out: begin with an empty one")
    return read
