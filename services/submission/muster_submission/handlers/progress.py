"""Taking in what policy and the scheduler say: a batch of facts folded into the rows that they are about.

Called by the stream with facts as domain values, in the order of their topics. One batch costs the same few statements
whether it holds one fact or five hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster_chassis import metrics
from muster_chassis.unit import Unit
from muster_kernel.lifecycle import Phase
from muster_submission.domain import phases
from muster_submission.domain.phases import ENDED
from muster_submission.domain.progress import Admitted, Fact, PhaseMoved, Progress, Rejected, Stale, apply
from muster_submission.ports import Archive, Batch, Brought, Line, Waker, WorkloadBooks

_TEXT: Final = 2000  # characters of one sentence in the log of changes

UNKNOWN = metrics.counter(
    "muster_facts_unknown_total",
    unit="events",
    meaning="Events about workloads that submission has no row of.",
    action="Should stay 0: was submission's database restored from a copy that is older than Kafka's records?",
)


@dataclass(frozen=True, slots=True)
class News:
    """One event: what it says, and the bytes that it brings for the rows (status, effective spec)."""

    workload_id: str
    event: str
    version: int
    at: datetime
    """When it happened, as far as the writer says; else when it was written."""
    fact: Fact
    status: bytes | None = None
    pods: int = 0
    """How many replicas the status names."""
    bare: bool = False
    """The status names no replica and no address."""
    effective_spec: bytes | None = None


class Follow:
    """Keeps the read model. `judged` is told, after the commit, of every workload that got a verdict."""

    def __init__(
        self, books: WorkloadBooks, archive: Archive, waker: Waker, judged: Callable[[Iterable[str]], None]
    ) -> None:
        self._books = books
        self._archive = archive
        self._waker = waker
        self._judged = judged

    async def take(self, unit: Unit, news: Sequence[News]) -> None:
        """Takes in a batch."""
        if not news:
            return
        asked = sorted({one.workload_id for one in news})
        before = await self._books.lock(unit, asked)
        if len(before) < len(asked):
            news = await self._without_archived(unit, news, [one for one in asked if one not in before])
        batch = fold(before, news)
        await self._books.keep(unit, batch)
        verdicts = [one.workload_id for one in news if isinstance(one.fact, Admitted | Rejected)]
        unit.after_commit(self._waker.poke)
        if verdicts:
            unit.after_commit(lambda: self._judged(verdicts))

    async def _without_archived(self, unit: Unit, news: Sequence[News], missing: Sequence[str]) -> Sequence[News]:
        """What is about others. An archived workload is over; all that can still come is that it is deleted."""
        archived = await self._archive.known(unit, missing)
        deleted = {
            one.workload_id for one in news if isinstance(one.fact, PhaseMoved) and one.fact.phase is Phase.DELETED
        }
        if gone := sorted(archived & deleted):
            await self._archive.delete(unit, gone)
        return [one for one in news if one.workload_id not in archived]


def fold(before: dict[str, Progress], news: Sequence[News]) -> Batch:
    """What a batch makes of the workloads. `before`: the progress of those that exist."""
    batch = Batch()
    for one in news:
        known = batch.progress.get(one.workload_id) or before.get(one.workload_id)
        if known is None:
            UNKNOWN.inc()
            continue
        outcome = apply(known, one.fact, one.version)
        if isinstance(outcome, Stale):
            continue
        batch.progress[one.workload_id] = outcome.progress
        if outcome.text:
            other = getattr(getattr(one.fact, "why", None), "other", "")
            text, was = outcome.text[:_TEXT], phases.number(known.phase)
            line = Line(one.workload_id, one.event, text, was, outcome.progress, one.at, other)
            batch.lines.append(line)
            _bring(batch, one)
    return batch


def _bring(batch: Batch, one: News) -> None:
    match one.fact:
        case PhaseMoved(phase=phase) if one.status is not None and not (one.bare and phase in ENDED):
            # What has ended keeps its last replicas: people ask how they ended.
            batch.status[one.workload_id] = one.status
            batch.pods[one.workload_id] = one.pods
        case Admitted():
            batch.brought[one.workload_id] = Brought(one.workload_id, one.effective_spec, ())
        case Rejected(issues=issues):
            earlier = batch.brought.get(one.workload_id)  # the generation that was admitted last keeps its spec
            effective = None if earlier is None else earlier.effective_spec
            batch.brought[one.workload_id] = Brought(one.workload_id, effective, issues)
