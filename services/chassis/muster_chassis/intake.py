"""The handling of records after they are read: each is handled exactly once, or waits where operators can see it.

The consumer loops call `process` with the records of one poll, and `sweep` from time to time for waiting records. One
batch is one transaction: inbox, handler, outbox, offsets. When a batch fails, its records are handled one by one. A
record that fails again after a limited number of tries becomes a dead letter, and the later records of its aggregate
are parked behind it. Only a record with one of Muster's own identities and a version holds back others, because anyone
may write an invalid record that names a workload. Records that wait for a slow or locked PostgreSQL are tried until
they succeed; health names them meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from google.protobuf.message import Message

from muster_chassis import logs, metrics, parking, tracing
from muster_chassis.admission import Admission, Entry
from muster_chassis.attempts import Told, bounded, patiently
from muster_chassis.breakers import Breakers, Tripped
from muster_chassis.codec import Decoder, aggregate_of, inbox_key, is_snapshot, place_key, version_of
from muster_chassis.database import PASSING, Database, OutcomeUnknown
from muster_chassis.events import Event, Origin, Reject
from muster_chassis.health import Health
from muster_chassis.lease import Deposed
from muster_chassis.parking import BEHIND, GAP, REJECTED, Waiting
from muster_chassis.topics import Topic
from muster_chassis.unit import Settlement, Unit

_log = logs.get(__name__)
_SLOW_TRIES: Final = 3  # of a whole batch; then its records are tried alone, each until it succeeds

Handler = Callable[[Unit, Sequence[Event]], Awaitable[None]]
Place = tuple[str, int]
"""(topic, partition)."""

HANDLED = metrics.counter(
    "muster_records_total",
    unit="records",
    meaning="Records taken in, by topic and outcome: done, duplicate, parked, rejected.",
    action="rejected or parked grow: `muster dead-letters list` shows why.",
    labels=("topic", "outcome"),
)
BATCH = metrics.histogram(
    "muster_batch_records",
    unit="records",
    meaning="Records handled in one transaction.",
    action="Always at the limit: the service is behind; look at muster_batch_seconds.",
    buckets=metrics.SIZES,
)
BATCH_SECONDS = metrics.histogram(
    "muster_batch_seconds",
    unit="seconds",
    meaning="One batch, from the first statement to the answer of the commit.",
    action="Slow: look at PostgreSQL.",
)


class Intake:
    """The handling of the records of one consumer.

    begin: first statement of every transaction (a leader's fence). decoders: for topics with records that Muster does
    not write. unparked: types that never wait behind a rejected record (inventory, heartbeats). consumer: the name
    under which the transaction stores the offsets. health: shows which records are tried repeatedly.
    """

    def __init__(  # noqa: PLR0913 - all but four by name, with a default
        self,
        database: Database,
        handler: Handler,
        topics: Iterable[Topic],
        decoder: Decoder,
        *,
        decoders: Mapping[str, Decoder] | None = None,
        unparked: Iterable[type[Message]] = (),
        begin: Callable[[Unit], Awaitable[None]] | None = None,
        consumer: str = "",
        health: Health | None = None,
    ) -> None:
        self.database = database
        self.topics = {topic.name: topic for topic in topics}
        self.breakers = Breakers(database, self.topics)
        self.bus = ""
        self.cut: frozenset[Place] = frozenset()
        """Partitions whose oldest records were removed by retention: a first version above 1 is not a gap there."""
        self._handler = handler
        self._decoder = decoder
        self._decoders = dict(decoders or {})
        self._unparked = frozenset(cls.DESCRIPTOR.full_name for cls in unparked)
        self._begin = begin
        self._consumer = consumer
        self._health = health or Health()
        self._condition = f"records {next(iter(self.topics))}"  # a consumer is known by its first topic

    async def process(self, origins: Sequence[Origin], done: dict[Place, int]) -> None:
        """Handle records in their order. `done` gets the next offset of each partition once it is durable.

        Returns when every record is done, waiting, or a dead letter. Raises Tripped if the consumer of a topic must
        stop, and Deposed and OutcomeUnknown for a leader; nothing else.
        """
        await self._process(origins, done)
        with suppress(*PASSING, TimeoutError):
            await self.breakers.progress()  # only a report for operators: the next batch writes it

    async def _process(self, origins: Sequence[Origin], done: dict[Place, int]) -> None:
        entries = [self._decode(origin) for origin in origins]
        try:
            await patiently(lambda: self._once(entries), told=self._told(entries), slow_tries=_SLOW_TRIES)
        except (Tripped, Deposed, OutcomeUnknown):
            raise
        except Exception as error:  # noqa: BLE001 - what a handler raises is judged record by record
            _log.warning("a batch failed, its records are handled one by one", records=len(entries), error=repr(error))
        else:
            done.update(_next_offsets(origins))
            self.breakers.check()
            return
        for entry in entries:
            await self._alone(entry)
            done.update(_next_offsets([entry.origin]))
            self.breakers.check()

    async def sweep(self, mine: Callable[[Place], bool] = lambda _: True) -> int:
        """Handle waiting records that may go on now: requested redrives, closed gaps, and the records behind them.

        mine: whether this consumer has the partition. Returns the number of settled rows.
        """
        settled = 0
        while True:
            async with self.database.acquired() as connection:
                rows = await parking.heads(connection, list(self.topics.values()))
            rows = [row for row in rows if mine((row.origin.topic, row.origin.partition))]
            if not rows:
                return settled
            for row in rows:
                await self._waiting(row)
                settled += 1

    def _told(self, entries: Sequence[Entry]) -> Told:
        """Return a callback that shows in health that these records are tried repeatedly, and clears it at the end."""

        def tell(why: str) -> None:
            if not why:
                self._health.good(self._condition)
                return
            first = entries[0].origin
            place = f"{len(entries)} from {first.topic}, partition {first.partition}, offset {first.offset}"
            self._health.degraded(self._condition, f"{place}: {why}")

        return tell

    def _decode(self, origin: Origin) -> Entry:
        entry = self._read(origin)
        return entry if self.topics[origin.topic].versioned else replace(entry, version=0)

    def _read(self, origin: Origin) -> Entry:
        decoder = self._decoders.get(origin.topic, self._decoder)
        try:
            event = decoder(origin)
        except Reject as poison:
            reason = poison.reason
        except Exception as error:  # noqa: BLE001 - a decoder that fails is one more reason
            reason = f"{type(error).__name__}: {error}"
        else:
            return Entry(inbox_key(event, self.bus), origin, event.aggregate, event.version, event)
        key = place_key(origin, self.bus)
        return Entry(key, origin, aggregate_of(origin), version_of(origin), None, reason)

    async def _once(self, entries: Sequence[Entry]) -> None:
        """Handle one batch in one transaction."""
        with BATCH_SECONDS.time():
            async with self.database.unit(begin=self._begin) as unit:
                admission = await self._admit(unit, entries)
                await self._handle(unit, admission.accepted)
                for record in admission.parked:
                    await parking.park(unit, record)
                unit.settlement = Settlement(
                    admission.seen, self._consumer, self.bus, self._stored(entry.origin for entry in entries)
                )
        self._count(admission)

    async def _handle(self, unit: Unit, events: Sequence[Event]) -> None:
        if not events:
            return
        BATCH.observe(len(events))
        unit.traces = {event.aggregate: event.traceparent for event in events if event.traceparent}
        with tracing.span(f"handle {events[0].origin.topic}", events[0].traceparent):
            await self._handler(unit, events)

    async def _admit(self, unit: Unit, entries: Sequence[Entry]) -> Admission:
        lines = {entry.line for entry in entries if entry.aggregate}
        rows = await unit.connection.fetch(
            "SELECT * FROM admit($1, $2, $3, $4)",
            [entry.key for entry in entries],
            [topic for topic, _ in lines],
            [aggregate for _, aggregate in lines],
            unit.now,
        )
        new = {str(row[1]) for row in rows if row[0] == "new"}
        known = {(row[2], row[3]): row[4] for row in rows if row[0] == "seen"}
        blocked = {(row[2], row[3]) for row in rows if row[0] in (REJECTED, BEHIND)}
        admission = Admission()
        for entry in entries:
            if entry.key not in new:
                admission.duplicates += 1
                continue
            new.discard(entry.key)
            self._place(entry, known, blocked, admission)
        return admission

    def _place(
        self,
        entry: Entry,
        known: dict[tuple[str, str], int],
        blocked: set[tuple[str, str]],
        admission: Admission,
    ) -> None:
        """Decide about one new record: handle it, park it, or drop it because its version was already seen."""
        line, last = entry.line, known.get(entry.line, 0)
        if entry.event is None:
            admission.parked.append(entry.parked(REJECTED, entry.reason, 1))
            if entry.holds:
                blocked.add(line)
        elif line in blocked and entry.event.type not in self._unparked:
            admission.parked.append(entry.parked(BEHIND, "behind a rejected record of the same aggregate", 0))
        elif entry.version == 0:
            admission.accepted.append(entry.event)
        elif entry.version <= last:
            admission.duplicates += 1
        elif self._follows(entry, last):
            known[line] = admission.seen[line] = entry.version
            admission.accepted.append(entry.event)
        else:
            why = f"version {entry.version} came before version {last + 1}"
            admission.parked.append(entry.parked(GAP, why, 0))

    def _follows(self, entry: Entry, last: int) -> bool:
        if entry.version == last + 1 or self.topics[entry.origin.topic].compacted or is_snapshot(entry.origin):
            return True
        return last == 0 and (entry.origin.topic, entry.origin.partition) in self.cut

    async def _alone(self, entry: Entry) -> None:
        """Handle one record in its own transaction; make it a dead letter when it fails for good."""
        told = self._told([entry])
        reason, attempts = await bounded(lambda: self._once([entry]), told=told)
        if not reason:
            return

        async def give_up() -> None:
            async with self.database.unit(begin=self._begin) as unit:
                admission = await self._admit(unit, [entry])
                if admission.accepted:
                    await parking.park(unit, entry.parked(REJECTED, reason, attempts))
                unit.settlement = Settlement({}, self._consumer, self.bus, self._stored([entry.origin]))

        await patiently(give_up, told=told)
        self._note(entry.origin.topic, "rejected")
        _log.warning("a record goes to the dead letters", topic=entry.origin.topic, key=entry.key, reason=reason)

    async def _waiting(self, row: Waiting) -> None:
        """Handle the head of one line under its first event id. It stays there if it fails again."""
        entry = self._decode(row.origin)

        async def handle() -> None:
            if entry.event is None:
                raise Reject(entry.reason)
            async with self.database.unit(begin=self._begin) as unit:
                if not await parking.release(unit, row):
                    return
                version, seen = await self._counted(unit, row, entry)
                if version == 0 or version > seen:
                    await self._handle(unit, [entry.event])
                if version > seen:
                    unit.settlement = Settlement({entry.line: version})

        told = self._told([entry])
        reason, attempts = await bounded(handle, told=told)
        if not reason:
            HANDLED.labels(row.origin.topic, "done").inc()
            return

        async def keep() -> None:
            async with self.database.unit(begin=self._begin) as unit:
                await parking.refuse(unit, row, reason)

        await patiently(keep, told=told)
        _log.warning("a waiting record failed", topic=row.origin.topic, reason=reason, attempts=row.attempts + attempts)

    async def _counted(self, unit: Unit, row: Waiting, entry: Entry) -> tuple[int, int]:
        """Return the version of a waiting record and the last version of its line that was taken in.

        A record that held back nothing is in no line. If it can be read now (its type was unknown before), it takes
        its place in the line. Raises Reject if an earlier version is still missing.
        """
        if row.aggregate or not entry.version:
            return row.version, row.seen
        seen = await parking.seen_version(unit, *entry.line)
        if entry.version > seen and not self._follows(entry, seen):
            raise Reject(f"version {entry.version} came before version {seen + 1}")
        return entry.version, seen

    def _stored(self, origins: Iterable[Origin]) -> dict[Place, int]:
        return _next_offsets(origins) if self._consumer else {}

    def _count(self, admission: Admission) -> None:
        for event in admission.accepted:
            self._note(event.origin.topic, "done")
        for record in admission.parked:
            self._note(record.origin.topic, "rejected" if record.why == REJECTED else "parked")

    def _note(self, topic: str, outcome: str) -> None:
        HANDLED.labels(topic, outcome).inc()
        if outcome != "parked":
            self.breakers.note(topic, rejected=outcome == "rejected")


def _next_offsets(origins: Iterable[Origin]) -> dict[Place, int]:
    return {(origin.topic, origin.partition): origin.offset + 1 for origin in origins}
