"""Which topics have stopped because nearly everything on them was rejected (rule 11), also across restarts.

The intake notes each record here; the consumers ask what to pause. People resume by `muster dead-letters resume`.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster_chassis import logs, metrics
from muster_chassis.breaker import Breaker
from muster_chassis.database import Database
from muster_chassis.topics import Topic

_log = logs.get(__name__)

TRIPPED = metrics.gauge(
    "muster_consumer_stopped",
    unit="1 = stopped",
    meaning="Whether the consumer of a topic has stopped because nearly everything on it was rejected.",
    action="Find the fault (a wrong version deployed?), then `muster dead-letters resume`.",
    labels=("topic",),
)


class Tripped(Exception):
    """Too much of a topic was rejected; its consumer stops until someone resumes it."""


class Breakers:
    """One breaker a topic. `stopped`: topics that tripped, with the reason."""

    def __init__(self, database: Database, topics: Mapping[str, Topic]) -> None:
        self.stopped: dict[str, str] = {}
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

    def note(self, topic: str, *, rejected: bool) -> None:
        """One more record that was done or rejected."""
        if self._topics[topic].ours:
            self._breakers.setdefault(topic, Breaker()).note(rejected=rejected)

    def check(self) -> None:
        """Raises Tripped for a topic whose consumer has to stop now."""
        for topic, breaker in self._breakers.items():
            if breaker.tripped and topic not in self.stopped:
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
