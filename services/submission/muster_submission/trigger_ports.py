"""What the handlers of triggers need of the world: rules, firings, and CEL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from muster.workload.v1.workload_pb2 import Owner
from muster_chassis.unit import Unit
from muster_submission.domain.cloudevents import CloudEvent
from muster_submission.domain.expressions import Answer, Question, Schema
from muster_submission.domain.firings import Before, Load, Outcome
from muster_submission.domain.triggers import Rule


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A trigger in the books: the rule, for whom it acts, what became of it. `stopped`: why Muster switched it off."""

    rule: Rule
    owner: Owner
    fired: int
    version: int
    runaways: int = 0
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class StoredFiring:
    """A firing in the books. `until`: the event is remembered; `deadline`: it waits."""

    id: str
    project: str
    trigger: str
    event: CloudEvent
    number: int
    outcome: Outcome
    at: datetime
    until: datetime
    why: str = ""
    name: str = ""
    workload_id: str | None = None
    deadline: datetime | None = None
    started_at: datetime | None = None


class Triggers(Protocol):
    """Rules."""

    async def save(self, unit: Unit, rule: Rule, owner: Owner) -> StoredRule:
        """Makes a rule or replaces it; one that was switched off by itself is on again if it says so."""
        ...

    async def delete(self, unit: Unit, project: str, name: str) -> bool:
        """Removes a rule; False where there is none."""
        ...

    async def find(self, project: str, name: str) -> StoredRule | None:
        """A rule."""
        ...

    async def for_types(self, types: Iterable[str]) -> Sequence[StoredRule]:
        """The enabled rules whose type is one of these, or a prefix of one, by project and name."""
        ...

    async def lock(self, unit: Unit, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], StoredRule]:
        """Those (project, name) that are there, locked until the transaction ends, always in one order."""
        ...

    async def ran_away(self, unit: Unit, rule: Rule, times: int, stopped: str) -> None:
        """Writes how many times in a row a locked rule's expressions ran away; with a reason it is switched off."""
        ...


class Firings(Protocol):
    """What events made rules do. Everything that takes a Unit needs the rule's lock."""

    async def before(self, unit: Unit, rule: Rule, event: CloudEvent) -> Before | None:
        """The last firing of a rule by an event."""
        ...

    async def load(self, unit: Unit, rule: Rule) -> Load:
        """What the rule has under way."""
        ...

    async def add(self, unit: Unit, firing: StoredFiring) -> None:
        """Writes a new firing, and counts it where it started a run."""
        ...

    async def settle(self, unit: Unit, firing: StoredFiring) -> None:
        """Writes what became of one that waited."""
        ...

    async def find(self, project: str, firing_id: str) -> StoredFiring | None:
        """A firing."""
        ...

    async def waiting(self, unit: Unit, project: str, trigger: str, at_most: int) -> Sequence[StoredFiring]:
        """Those of a rule that wait, the oldest first."""
        ...

    async def expire(self, unit: Unit, project: str, trigger: str) -> int:
        """Ends those of a rule that wait past their deadline; how many."""
        ...

    async def drop(self, unit: Unit, project: str, trigger: str, why: str) -> int:
        """Drops all of a rule that wait; how many."""
        ...

    async def with_waiting(self) -> Sequence[tuple[str, str]]:
        """The (project, trigger) for which something waits, the longest waiting first; at most a thousand."""
        ...


class Expressions(Protocol):
    """CEL."""

    async def evaluate(self, question: Question) -> Answer:
        """The values of expressions over an event."""
        ...

    async def check(self, expressions: Mapping[str, str], schema: Schema | None) -> Mapping[str, str]:
        """What is wrong with expressions, by key, and with a schema under `data_schema`."""
        ...
