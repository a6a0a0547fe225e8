"""Who may do what on Kafka: the access rules of each identity, derived from the catalogue of topics.

Called by the embedded stack, which gives them to its broker, and by `muster bus acls` for other brokers.
Holds: an identity may read and write exactly the topics that name it as reader or writer, and nothing that is not
listed is allowed; a service also reads the topics that only it writes. The one exception is the scheduler: its clusters
are registered while it runs, so that it may use every topic below `muster.clusters.`, the reports too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from muster_chassis.topics import (
    AGENTS,
    CLUSTERS,
    FIXED,
    OUTSIDE,
    SERVICES,
    Topic,
    assignments,
    owned_by,
    published_by,
    reports,
)

SCHEDULER: Final = "scheduler"
TRANSACTIONAL_ID: Final = "muster-assignments"
"""Of the leader's producer, by which a new leader fences the old one (rule 5)."""


class Resource(IntEnum):
    """What a rule is about; the numbers are those of Kafka's protocol."""

    TOPIC = 2
    GROUP = 3
    TRANSACTIONAL_ID = 5


class Pattern(IntEnum):
    """How the name of a rule is matched."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is allowed. READ and WRITE allow DESCRIBE too."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule: `user` may do `operation` on what `name` matches, from any address."""

    user: str
    resource: Resource
    name: str
    pattern: Pattern
    operation: Operation


def agent(cluster: str) -> str:
    """The Kafka user of a cluster's agent."""
    return f"agent-{cluster}"


def of_service(service: str) -> list[Acl]:
    """The rules of submission, policy, scheduler or telemetry. Raises ValueError for another name."""
    if service not in SERVICES:
        raise ValueError(f"{service!r} is not a service; there are {', '.join(SERVICES)}")
    rules = [*_topics(service, service, FIXED)]
    rules += [_literal(service, topic, operation) for topic in owned_by(service) for operation in _OWNING]
    # At its start a service compares its database with what it has published (restored.py).
    rules += [_literal(service, topic, Operation.READ) for topic in published_by(service)]
    # Consumer groups begin with the name of their service; the id of the bus follows.
    rules.append(Acl(service, Resource.GROUP, service, Pattern.PREFIXED, Operation.READ))
    if service == SCHEDULER:
        everything = (Operation.READ, Operation.WRITE, *_OWNING)
        rules += [Acl(service, Resource.TOPIC, CLUSTERS, Pattern.PREFIXED, operation) for operation in everything]
        rules += [
            Acl(service, Resource.TRANSACTIONAL_ID, TRANSACTIONAL_ID, Pattern.PREFIXED, operation)
            for operation in (Operation.WRITE, Operation.DESCRIBE)
        ]
    return sorted(set(rules))


def of_agent(cluster: str) -> list[Acl]:
    """The rules of one cluster's agent. Raises ValueError for a cluster id that cannot be one."""
    return sorted(set(_topics(agent(cluster), AGENTS, (*FIXED, assignments(cluster), reports(cluster)))))


def of_producer(user: str, topic: Topic) -> list[Acl]:
    """The rules of a program outside of Muster. Raises ValueError for a topic that such programs may not write."""
    if OUTSIDE not in topic.writers:
        open_ones = ", ".join(each.name for each in FIXED if OUTSIDE in each.writers)
        raise ValueError(f"only Muster writes {topic.name}; programs outside may write {open_ones}")
    return [_literal(user, topic, Operation.WRITE)]


_OWNING: Final = (Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)


def _topics(user: str, role: str, topics: Iterable[Topic]) -> list[Acl]:
    topics = list(topics)
    reading = [_literal(user, topic, Operation.READ) for topic in topics if role in topic.readers]
    return reading + [_literal(user, topic, Operation.WRITE) for topic in topics if role in topic.writers]


def _literal(user: str, topic: Topic, operation: Operation) -> Acl:
    return Acl(user, Resource.TOPIC, topic.name, Pattern.LITERAL, operation)
