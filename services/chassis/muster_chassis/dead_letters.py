"""DeadLettersService: what this service could not handle, shown, tried again or given up; stopped consumers resumed.

Every service mounts one. Redriving only marks rows; the consumer loop handles them in its own order, under the first
event id, so that memory and database stay with one writer. The call waits for what comes of it. Discarding handles
nothing: it takes a row out of its line, and the loop goes on with what stood behind it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Final

from muster.api.v1 import dead_letters_pb2 as pb
from muster.api.v1 import dead_letters_pb2_grpc
from muster_chassis import logs, parking
from muster_chassis.codec import aggregate_of
from muster_chassis.database import Database
from muster_chassis.errors import InvalidArgument, NotFound, Violation
from muster_chassis.events import Origin
from muster_chassis.gaps import Snapshot, gaps_of, owner_of, republish
from muster_chassis.rpc.idempotency import once
from muster_chassis.rpc.interceptor import remaining
from muster_chassis.rpc.server import Service, service
from muster_chassis.text import clean
from muster_chassis.topics import find
from muster_chassis.unit import Unit

_log = logs.get(__name__)
_PAGE: Final = 50
_LARGEST_PAGE: Final = 500
_MOST: Final = 1000
_MOST_PASSED: Final = 1_000_000_000
_WAIT: Final = 20.0
_PAUSE: Final = 0.05
_LIST: Final = """
SELECT p.id, p.event_id::text AS event_id, p.topic, p.partition, p.record_offset, p.reason, p.aggregate, p.attempts,
       p.headers, p.at, p.done_at, (SELECT count(*) FROM parked b WHERE p.aggregate <> '' AND b.topic = p.topic
                         AND b.aggregate = p.aggregate AND b.why <> 'rejected' AND b.done_at IS NULL) AS behind
FROM parked p WHERE p.why = 'rejected' AND ($1::uuid IS NULL OR p.id < (SELECT id FROM parked WHERE event_id = $1))
AND ($2 OR p.done_at IS NULL) ORDER BY p.id DESC LIMIT $3
"""
_TOTAL: Final = "SELECT count(*) FROM parked WHERE why = 'rejected' AND ($1 OR done_at IS NULL)"
_ASK: Final = """
UPDATE parked SET asked = true WHERE why = 'rejected' AND done_at IS NULL AND id IN (
    SELECT id FROM parked WHERE why = 'rejected' AND done_at IS NULL
    AND (cardinality($1::uuid[]) = 0 OR event_id = ANY($1)) ORDER BY id LIMIT $2)
RETURNING event_id::text
"""
_TAKE: Final = """
SELECT id, event_id::text AS event_id, topic, aggregate, version FROM parked
WHERE why = 'rejected' AND done_at IS NULL AND event_id = ANY($1::uuid[]) ORDER BY version, id FOR UPDATE
"""
_RESUME: Final = """
INSERT INTO resumptions AS r (topic, allowed, began, last) SELECT t, $2::bigint, $3, $3 FROM unnest($1::text[]) AS u(t)
ON CONFLICT (topic) DO UPDATE SET allowed = excluded.allowed, passed = 0, rejected = 0, done = false,
    began = excluded.began, last = excluded.last
"""
_IDLE: Final = """
UPDATE resumptions SET done = true WHERE NOT done
AND last < now() - CASE WHEN passed > 0 THEN interval '3 seconds' ELSE interval '15 seconds' END
"""
_PASSED: Final = """
SELECT topic, passed, rejected, done FROM resumptions
WHERE topic = ANY($1::text[]) OR ((NOT done OR last > now() - interval '1 minute') AND ($2 = '' OR topic = $2))
"""
"""The resumptions of a call: those that it began, and for one that waits on, those under way or just over."""
_STATE: Final = "SELECT asked, done_at, reason FROM parked WHERE event_id = ANY($1::uuid[])"


class DeadLetters(dead_letters_pb2_grpc.DeadLettersServiceServicer):
    """The servicer of one service."""

    def __init__(self, database: Database, snapshot: Snapshot | None = None) -> None:
        """snapshot: publishes the state of an aggregate whose events are not kept any more."""
        self._database = database
        self._snapshot = snapshot

    async def ListDeadLetters(self, request: pb.ListDeadLettersRequest, context: Any) -> pb.ListDeadLettersResponse:
        """The dead letters, newest first."""
        if self._elsewhere(request.service):
            return pb.ListDeadLettersResponse()
        size = min(request.page_size or _PAGE, _LARGEST_PAGE)
        rows = await self._database.pool.fetch(_LIST, _before(request.page_token), request.include_done, size)
        return pb.ListDeadLettersResponse(
            dead_letters=[self._letter(row) for row in rows],
            # The last letter's own id: whoever merges several lists can go on after any letter of a page.
            next_page_token=rows[-1]["event_id"] if len(rows) == size else "",
            total=await self._database.pool.fetchval(_TOTAL, request.include_done),
        )

    async def RedriveDeadLetters(
        self, request: pb.RedriveDeadLettersRequest, context: Any
    ) -> pb.RedriveDeadLettersResponse:
        """Tries them again, in order, and waits for the outcome as long as the caller does (20 s at most)."""
        if self._elsewhere(request.service):
            return pb.RedriveDeadLettersResponse()
        wanted = [_uuid(text) for text in request.ids]

        async def ask(unit: Unit) -> pb.RedriveDeadLettersRequest:
            rows = await unit.connection.fetch(_ASK, wanted, _MOST)
            found = [row["event_id"] for row in rows]
            if missing := [text for text in wanted if text not in found]:
                raise NotFound(f"no dead letter of {self._database.source} waits under {', '.join(missing[:5])}")
            return pb.RedriveDeadLettersRequest(ids=found)

        asked = await once(self._database, "RedriveDeadLetters", request, pb.RedriveDeadLettersRequest, ask)
        return await self._outcome(list(asked.ids), remaining(context, _WAIT))

    async def DiscardDeadLetters(
        self, request: pb.DiscardDeadLettersRequest, context: Any
    ) -> pb.DiscardDeadLettersResponse:
        """Gives them up for good, the lowest version first; their consumers go on with what waits behind them."""
        if self._elsewhere(request.service):
            return pb.DiscardDeadLettersResponse()
        wanted = list(dict.fromkeys(_uuid(text) for text in request.ids))
        if not 1 <= len(wanted) <= _MOST:
            raise InvalidArgument(
                f"ids names {len(wanted)} dead letters; 1 to {_MOST} can be given up at once",
                violations=[Violation("ids", f"1 to {_MOST} ids, as `muster dead-letters list` shows them")],
            )

        async def discard(unit: Unit) -> pb.DiscardDeadLettersResponse:
            return await self._given_up(unit, wanted)

        answer = await once(self._database, "DiscardDeadLetters", request, pb.DiscardDeadLettersResponse, discard)
        _log.warning("dead letters were given up", ids=wanted[:20], discarded=answer.discarded)
        return answer

    async def ResumeConsumer(self, request: pb.ResumeConsumerRequest, context: Any) -> pb.ResumeConsumerResponse:
        """Lets a consumer go on that stopped because too much was rejected, and says how much it passed."""
        if self._elsewhere(request.service):
            return pb.ResumeConsumerResponse()
        _check_resumption(request)
        asked = request.until_quiet or request.count

        async def resume(unit: Unit) -> pb.ResumeConsumerResponse:
            rows = await unit.connection.fetch(
                "DELETE FROM breakers WHERE $1 = '' OR topic = $1 RETURNING topic", clean(request.topic, 300)
            )
            topics = sorted(row["topic"] for row in rows)
            if asked:
                await unit.connection.execute(_RESUME, topics, request.count or None, unit.now)
            return pb.ResumeConsumerResponse(topics=topics)

        answer = await once(self._database, "ResumeConsumer", request, pb.ResumeConsumerResponse, resume)
        return await self._passed(request, answer, min(_WAIT / 2, remaining(context, _WAIT))) if asked else answer

    async def ListGaps(self, request: pb.ListGapsRequest, context: Any) -> pb.ListGapsResponse:
        """Where versions are missing here, oldest first."""
        if self._elsewhere(request.service):
            return pb.ListGapsResponse()
        async with self._database.acquired() as connection:
            return await gaps_of(connection, self._database.source)

    async def Republish(self, request: pb.RepublishRequest, context: Any) -> pb.RepublishResponse:
        """Publishes a topic of this service again, or what it has of one aggregate."""
        owner = owner_of(request.topic)
        if self._elsewhere(owner):
            raise NotFound(f"{owner} publishes {request.topic}, and not {self._database.source}")
        return await republish(self._database, request, min(_WAIT / 2, remaining(context, _WAIT)), self._snapshot)

    async def _passed(
        self, request: pb.ResumeConsumerRequest, answer: pb.ResumeConsumerResponse, seconds: float
    ) -> pb.ResumeConsumerResponse:
        """Waits until every resumption that was asked for is over, or for so many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            await self._database.pool.execute(_IDLE)
            rows = await self._database.pool.fetch(_PASSED, list(answer.topics), clean(request.topic, 300))
            finished = all(row["done"] for row in rows)
            if finished or loop.time() >= deadline:
                break
            await asyncio.sleep(4 * _PAUSE)
        return pb.ResumeConsumerResponse(
            topics=sorted(row["topic"] for row in rows),
            passed=sum(row["passed"] for row in rows),
            rejected=sum(row["rejected"] for row in rows),
            finished=finished,
        )

    async def _given_up(self, unit: Unit, wanted: list[str]) -> pb.DiscardDeadLettersResponse:
        rows = await unit.connection.fetch(_TAKE, wanted)
        missing = sorted(set(wanted) - {row["event_id"] for row in rows})
        if not rows:
            raise NotFound(f"no dead letter of {self._database.source} waits under {', '.join(missing[:5])}")
        answer = pb.DiscardDeadLettersResponse(missing=missing)
        for row in rows:
            refused, behind = await parking.discard(unit, row, find(row["topic"]))
            if refused:
                answer.reasons.append(f"{row['event_id']}: {refused}")
                continue
            answer.discarded += 1
            answer.released += behind
        return answer

    def _elsewhere(self, name: str) -> bool:
        return bool(name) and name != self._database.source

    def _letter(self, row: Any) -> pb.DeadLetter:
        letter = pb.DeadLetter(
            id=row["event_id"],
            service=self._database.source,
            topic=row["topic"],
            partition=row["partition"],
            offset=row["record_offset"],
            reason=row["reason"],
            aggregate=row["aggregate"] or aggregate_of(_origin(row)),
            attempts=row["attempts"],
            parked=row["behind"],
            done=row["done_at"] is not None,
        )
        letter.at.FromDatetime(row["at"])
        return letter

    async def _outcome(self, ids: list[str], seconds: float) -> pb.RedriveDeadLettersResponse:
        """Waits until none of them is under way; what still is when the time is over counts as failed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            rows = await self._database.pool.fetch(_STATE, ids)
            waiting = [row for row in rows if row["asked"]]
            if not waiting or loop.time() >= deadline:
                break
            await asyncio.sleep(_PAUSE)
        failed = [row for row in rows if row["done_at"] is None and not row["asked"]]
        reasons = [row["reason"] for row in failed]
        if waiting:
            reasons.append(f"{len(waiting)} still wait for their consumer")
        return pb.RedriveDeadLettersResponse(
            handled=len(ids) - len(failed) - len(waiting), failed=len(failed) + len(waiting), reasons=reasons[:20]
        )


def dead_letters_service(database: Database, snapshot: Snapshot | None = None) -> Service:
    """What a composition root mounts."""
    return service(
        pb.DESCRIPTOR.services_by_name["DeadLettersService"],
        dead_letters_pb2_grpc.add_DeadLettersServiceServicer_to_server,
        DeadLetters(database, snapshot),
    )


def _check_resumption(request: pb.ResumeConsumerRequest) -> None:
    if request.count and request.until_quiet:
        raise InvalidArgument(
            f"count is {request.count} and until_quiet is set: give one of them",
            violations=[Violation("until_quiet", "not with count")],
        )
    if request.count > _MOST_PASSED:
        raise InvalidArgument(
            f"count is {request.count}: 1 to {_MOST_PASSED:,} are allowed, 0 means no number",
            violations=[Violation("count", f"0 to {_MOST_PASSED}")],
        )


def _origin(row: Any) -> Origin:
    return Origin(row["topic"], row["partition"], row["record_offset"], None, None, parking.headers_of(row["headers"]))


def _before(token: str) -> str | None:
    if not token:
        return None
    try:
        return str(uuid.UUID(token))
    except ValueError as error:
        raise InvalidArgument(
            f"page_token {clean(token, 40)!r} is none of ours; leave it empty for the first page",
            violations=[Violation("page_token", "the next_page_token of the page before")],
        ) from error


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        raise InvalidArgument(
            f"{clean(text, 60)!r} is no id of a dead letter: expected a UUID as `muster dead-letters list` shows it",
            violations=[Violation("ids", "UUIDs")],
        ) from error


__all__ = ["DeadLetters", "dead_letters_service"]
