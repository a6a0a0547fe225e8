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


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """An event that waits for the lane of a project. `tries`: how often it failed alone."""

    id: int
    project: str
    event: CloudEvent
    tries: int
    at: datetime


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

    async def for_types(
        self, types: Iterable[str], *, project: str = "", unit: Unit | None = None
    ) -> Sequence[StoredRule]:
        """The enabled rules whose type is one of these, or a prefix of one, by project and name.

        project: only its rules. unit: reads in this transaction, which must not wait for another connection.
        """
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


class TriggerQueue(Protocol):
    """Events that wait for the lane of a project."""

    async def add(self, unit: Unit, queued: Sequence[tuple[str, CloudEvent]]) -> None:
        """Write events down, each for one project."""
        ...

    async def depths(self, unit: Unit, projects: Iterable[str]) -> dict[str, int]:
        """Return how many events wait for each project."""
        ...

    async def due(self) -> Sequence[str]:
        """Return the projects for which an event waits, at most a thousand."""
        ...

    async def claim(self, project: str, at_most: int) -> Sequence[QueuedEvent]:
        """Return the oldest events of a project; none while another instance has the project's."""
        ...

    async def remove(self, unit: Unit, ids: Sequence[int]) -> frozenset[int]:
        """Remove events; return those that were there."""
        ...

    async def set_aside(self, queued: int, why: str) -> None:
        """Let an event wait, longer each time."""
        ...

    async def aside(self) -> str:
        """Return what is set aside, as a sentence; empty: nothing is."""
        ...


class Expressions(Protocol):
    """CEL. Each question counts against the budgets of a project and of its rule."""

    async def evaluate(self, question: Question, project: str, rule: str) -> Answer:
        """The values of expressions over an event."""
        ...

    async def check(
        self, expressions: Mapping[str, str], schema: Schema | None, project: str, rule: str
    ) -> Mapping[str, str]:
        """What is wrong with expressions, by key, and with a schema under `data_schema`."""
        ...
