"""Which topics have stopped because nearly everything on them was rejected (rule 11), also across restarts.

The intake notes each record here; the consumers ask what to pause. An operator resumes by
`muster dead-letters resume SERVICE`: at once, or with a resumption, under which a number of records, or all until the
topic is quiet, pass without stopping it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from muster_chassis import logs, metrics
from muster_chassis.breaker import LEAST, Breaker
from muster_chassis.database import Database
from muster_chassis.topics import Topic

_log = logs.get(__name__)

TRIPPED = metrics.gauge(
    "muster_consumer_stopped",
    unit="1 = stopped",
    meaning="Whether the consumer of a topic has stopped because nearly everything on it was rejected.",
    action="Find the fault (a wrong version deployed?), then `muster dead-letters resume SERVICE`.",
    labels=("topic",),
)


class Tripped(Exception):
    """Too much of a topic was rejected; its consumer stops until someone resumes it."""


_SAVED: Final = 0.5  # seconds between two writes of what has passed
_PROGRESS: Final = """
UPDATE resumptions SET passed = passed + $2, rejected = rejected + $3, last = now(),
       done = done OR $4 OR coalesce(passed + $2 >= allowed, false)
WHERE topic = $1 AND NOT done RETURNING done
"""


@dataclass(slots=True)
class _Resumption:
    """What passed here under a resumption and is not written down yet; `recent` decides when the topic is quiet."""

    until_quiet: bool
    passed: int = 0
    rejected: int = 0
    recent: Breaker = field(default_factory=Breaker)

    def note(self, *, rejected: bool) -> None:
        self.passed += 1
        self.rejected += rejected
        self.recent.note(rejected=rejected)

    @property
    def over(self) -> bool:
        """Whether it is quiet: of enough records, at most half were rejected."""
        return self.until_quiet and self.recent.counts[1] >= LEAST and not self.recent.tripped


class Breakers:
    """One breaker a topic. `stopped`: topics that tripped, with the reason. `resumptions`: topics that may not trip."""

    def __init__(self, database: Database, topics: Mapping[str, Topic]) -> None:
        self.stopped: dict[str, str] = {}
        self.resumptions: dict[str, _Resumption] = {}
        self._saved = 0.0
        self._database = database
        self._topics = topics
        self._breakers: dict[str, Breaker] = {}

    async def look(self) -> None:
        """Learns which topics are stopped: from before a restart, or no longer since someone resumed them."""
        rows = await self._database.pool.fetch(
            "SELECT topic, reason FROM breakers WHERE topic = ANY($1)", list(self._topics)
        )
        stopped = {row["topic"]: row["reason"] for row in rows}
        for topic in self.stopped.keys() - stopped.keys():
            self._breakers.pop(topic, None)
            TRIPPED.labels(topic).set(0)
            _log.info("the consumer was resumed", topic=topic)
        self.stopped = stopped
        await self._find_resumptions()

    async def _find_resumptions(self) -> None:
        rows = await self._database.pool.fetch(
            "SELECT topic, allowed FROM resumptions WHERE topic = ANY($1) AND NOT done", list(self._topics)
        )
        open_now = {row["topic"]: row["allowed"] is None for row in rows}
        for topic in self.resumptions.keys() - open_now.keys():
            self._end(topic)
        for topic in open_now.keys() - self.resumptions.keys():
            self.resumptions[topic] = _Resumption(open_now[topic])

    def note(self, topic: str, *, rejected: bool) -> None:
        """One more record that was done or rejected."""
        if not self._topics[topic].ours:
            return
        self._breakers.setdefault(topic, Breaker()).note(rejected=rejected)
        if (resumption := self.resumptions.get(topic)) is not None:
            resumption.note(rejected=rejected)

    async def progress(self) -> None:
        """Write down what has passed under resumptions; what is over ends. Raises what PostgreSQL does."""
        now = time.monotonic()
        if not self.resumptions or now - self._saved < _SAVED:
            return
        self._saved = now
        for topic, resumption in list(self.resumptions.items()):
            if not resumption.passed:
                continue
            passed, rejected = resumption.passed, resumption.rejected
            done = await self._database.pool.fetchval(_PROGRESS, topic, passed, rejected, resumption.over)
            resumption.passed, resumption.rejected = resumption.passed - passed, resumption.rejected - rejected
            if done is not False:  # True: it is over; None: another instance, or the caller, ended it
                self._end(topic)

    def _end(self, topic: str) -> None:
        """Judges the topic by what comes from now on."""
        self.resumptions.pop(topic, None)
        self._breakers.pop(topic, None)
        _log.info("the resumption of a topic is over", topic=topic)

    def check(self) -> None:
        """Raises Tripped for a topic whose consumer has to stop now."""
        for topic, breaker in self._breakers.items():
            if breaker.tripped and topic not in self.stopped and topic not in self.resumptions:
                rejected, of = breaker.counts
                self.stopped[topic] = f"{rejected} of the last {of} records were rejected"
                TRIPPED.labels(topic).set(1)
                raise Tripped(topic)

    async def remember(self, topic: str) -> None:
        """Makes a stop survive a restart."""
        async with self._database.unit() as unit:
            await unit.connection.execute(
                "INSERT INTO breakers (topic, reason, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                topic,
                self.stopped[topic],
                unit.now,
            )
