"""The typed catalogue of topics: name, owner, partitions, retention and content.

Each service creates its own topics at start and waits for the others. Kafka creates no topics automatically, so a topic
that is not declared here does not exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

PARTITIONS: Final = 12
SEGMENTS: Final = 7
"""Segments per retention. Kafka removes whole segments, so records stay up to 1/SEGMENTS of the retention longer."""
COMPACTED_SEGMENT_MS: Final = 10 * 60 * 1000
"""Kafka never compacts the segment that it writes to, so a topic has this much history in addition to its state."""
TOMBSTONES_MS: Final = 24 * 3600 * 1000
"""A reader that is away for longer finds that a key is missing, but sees no tombstone for it."""
CLUSTERS: Final = "muster.clusters."
"""The prefix of the names of the clusters' topics."""
_CLUSTER_ID: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_CLUSTER_TOPIC: Final = re.compile(r"muster\.clusters\.([a-z]([-a-z0-9]*[a-z0-9])?)\.(assignments|reports)")


class Cleanup(StrEnum):
    """The records that Kafka removes."""

    DELETE = "delete"
    """Records older than the retention."""
    COMPACT = "compact"
    """Records that a newer one of the same key has replaced."""


SERVICES: Final = ("submission", "policy", "scheduler", "telemetry")
AGENTS: Final = "agents"
"""As a writer or reader: the agent of each cluster; for a topic of one cluster, only the agent of that cluster."""
OUTSIDE: Final = "outside"
"""As a writer: programs that are not part of Muster, each with its own identity."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `owner` creates it; `ours`: only Muster's services write to it, so mass rejection means a fault.

    writers, readers: services, AGENTS or OUTSIDE. The broker enforces them (acls.py).
    `versioned`: records may carry the version of their aggregate, and a rejected record holds back its successors. On
    the other topics (reports, samples) a record has its own order and holds nothing back.
    """

    name: str
    owner: str
    meaning: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    cleanup: Cleanup = Cleanup.DELETE
    partitions: int = PARTITIONS
    ours: bool = True
    versioned: bool = True

    @property
    def compacted(self) -> bool:
        """True if versions may be missing on this topic without a loss."""
        return self.cleanup is Cleanup.COMPACT

    def config(self, replicas: int, retention: timedelta) -> dict[str, str]:
        """Return the topic's configuration for Kafka, if each partition has this number of replicas."""
        kept = int(retention.total_seconds() * 1000)
        common = {"max.message.bytes": "2097152", "min.insync.replicas": str(max(1, replicas - 1))}
        if self.compacted:
            compaction = {
                "min.cleanable.dirty.ratio": "0.3",
                "segment.ms": str(min(COMPACTED_SEGMENT_MS, kept)),
                "delete.retention.ms": str(min(TOMBSTONES_MS, kept)),
            }
            return {"cleanup.policy": "compact", **compaction, **common}
        deletion = {"retention.ms": str(kept), "segment.ms": str(kept // SEGMENTS)}
        return {"cleanup.policy": "delete", **deletion, **common}


SUBMISSIONS: Final = Topic(
    "muster.submissions",
    "submission",
    "What users ask for: submissions, changes, intents.",
    writers=("submission",),
    readers=("policy", "scheduler"),
)
TENANCY: Final = Topic(
    "muster.tenancy",
    "submission",
    "Departments, projects, quotas, templates as they are now.",
    writers=("submission",),
    readers=("policy", "scheduler"),
    cleanup=Cleanup.COMPACT,
)
ADMISSIONS: Final = Topic(
    "muster.admissions",
    "policy",
    "Verdicts: admitted with the effective spec, or rejected.",
    writers=("policy",),
    readers=("submission", "scheduler"),
)
DECISIONS: Final = Topic(
    "muster.decisions",
    "scheduler",
    "Everything that the scheduler decides about a workload.",
    writers=("scheduler",),
    readers=("submission",),
)
SAMPLES: Final = Topic(
    "muster.samples",
    "telemetry",
    "Intervals of GPU and inference use, written by agents.",
    writers=(AGENTS,),
    readers=("telemetry",),
    versioned=False,
)
ADVICE: Final = Topic(
    "muster.advice",
    "telemetry",
    "Accounted usage, advice to scale, idleness.",
    writers=("telemetry",),
    readers=("submission", "scheduler"),
)
TRIGGERS: Final = Topic(
    "muster.triggers",
    "submission",
    "CloudEvents from outside that start runs.",
    writers=(OUTSIDE,),
    readers=("submission",),
    ours=False,
    versioned=False,
)
DEAD_LETTERS: Final = Topic(
    "muster.dead-letters",
    "scheduler",
    "What could not be handled, with the reason.",
    writers=(*SERVICES, AGENTS),
    readers=(),
    versioned=False,
)

FIXED: Final = (SUBMISSIONS, TENANCY, ADMISSIONS, DECISIONS, SAMPLES, ADVICE, TRIGGERS, DEAD_LETTERS)
_BY_NAME: Final = {topic.name: topic for topic in FIXED}


def assignments(cluster: str) -> Topic:
    """Return the topic with the desired state of one cluster."""
    return Topic(
        f"{CLUSTERS}{_checked(cluster)}.assignments",
        "scheduler",
        "Exactly what should run on the cluster; a tombstone releases.",
        writers=("scheduler",),
        readers=("scheduler", AGENTS),
        cleanup=Cleanup.COMPACT,
        partitions=1,
    )


def reports(cluster: str) -> Topic:
    """Return the topic with the reports of one cluster's agent."""
    return Topic(
        f"{CLUSTERS}{_checked(cluster)}.reports",
        "scheduler",
        "Inventory, replica status, held assignments, heartbeats.",
        writers=(AGENTS,),
        readers=("scheduler",),
        partitions=1,
        versioned=False,
    )


def owned_by(service: str) -> tuple[Topic, ...]:
    """Return the fixed topics that `service` creates."""
    return tuple(topic for topic in FIXED if topic.owner == service)


def published_by(service: str) -> tuple[Topic, ...]:
    """Return the fixed topics that only `service` writes."""
    return tuple(topic for topic in FIXED if topic.writers == (service,))


def named(name: str) -> Topic:
    """Return the topic called `name`. Raises KeyError if it is not in the catalogue."""
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    match = _CLUSTER_TOPIC.fullmatch(name)
    if match is None:
        raise KeyError(f"{name!r} is not in the catalogue of topics")
    return assignments(match[1]) if match[3] == "assignments" else reports(match[1])


def find(name: str) -> Topic | None:
    """Return the topic called `name`; None if it is not in the catalogue. For names from users or records."""
    try:
        return named(name)
    except KeyError:
        return None


def _checked(cluster: str) -> str:
    if len(cluster) > 63 or _CLUSTER_ID.fullmatch(cluster) is None:  # noqa: PLR2004 - DNS-1035
        raise ValueError(
            f"{cluster!r} is no cluster id: lower-case letters, digits and '-', beginning with a letter, at most 63"
        )
    return cluster
