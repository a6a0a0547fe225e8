"""How a workload is doing, as submission shows it: facts of policy and of the scheduler folded into one value.

Called by the stream for each batch: the rows are loaded and locked, every fact is applied in order, and the last
values are written back with one line of the change log per fact that people can see.
Holds: facts of one topic are applied in their versions' order and each once; policy's and the scheduler's touch
different members (but for a refusal, which fails what still is in Creating), so any interleaving ends in one state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from muster_kernel.lifecycle import ACTIVE, WAITING, DesiredPhase, Phase
from muster_submission.domain.phases import ENDED

NOT_JUDGED: Final = 0
ADMITTED: Final = 1
REFUSED: Final = 2


@dataclass(frozen=True, slots=True)
class Why:
    """A code for programs and a sentence for people; both empty where there is nothing to say.

    other: the id of the workload that the sentence calls "another workload"; its name is filled in for each reader.
    """

    code: str = ""
    message: str = ""
    other: str = ""


NO_REASON: Final = Why()


@dataclass(frozen=True, slots=True)
class Progress:
    """What changes about a workload. `admissions` and `decisions` are the last versions taken in from each topic."""

    phase: Phase = Phase.CREATING
    desired: DesiredPhase = DesiredPhase.RUNNING
    why: Why = NO_REASON
    generation: int = 1
    attempt: int = 0
    cluster: str = ""
    node_pool: str = ""
    gpu_charge: int = 0
    held: bool = True
    verdict: int = NOT_JUDGED
    judged: int = 0
    admissions: int = 0
    decisions: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def check(self) -> None:
        """Raises ValueError where the value contradicts itself."""
        laws = {
            "a deleted workload holds no name": self.phase is not Phase.DELETED or not self.held,
            "a refused one holds no name": (self.verdict, self.judged) != (REFUSED, 1) or not self.held,
            "a verdict is about a generation": (self.judged == 0) == (self.verdict == NOT_JUDGED),
            "only what has ended was finished": self.finished_at is None or self.phase in ENDED | {Phase.DELETING},
        }
        broken = [law for law, kept in laws.items() if not kept]
        if broken:
            raise ValueError(f"{'; '.join(broken)}: {self}")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Policy lets a generation run. `gpu_charge`: what a place for it costs, in 1/7,000 GPU."""

    generation: int
    gpu_charge: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """Policy refuses a generation; `issues` for people."""

    generation: int
    issues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """It stands in the queue of a node pool."""

    node_pool: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """Capacity that others still hold is kept for it."""

    cluster: str
    waits_for: int


@dataclass(frozen=True, slots=True)
class Placed:
    """It has its place."""

    attempt: int
    cluster: str
    node_pool: str
    replicas: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """It waits, and this is the dominant reason."""

    why: Why


@dataclass(frozen=True, slots=True)
class Preempted:
    """It gives its place up."""

    why: Why


@dataclass(frozen=True, slots=True)
class Scaled:
    """It has another number of replicas."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PhaseMoved:
    """The scheduler says what phase it is in; `before` and `phase` are the same where only its replicas changed."""

    before: Phase | None
    phase: Phase
    attempt: int
    why: Why
    at: datetime
    desired: DesiredPhase | None


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """What somebody asked for could not be done."""

    why: Why


Verdict = Admitted | Rejected
Decision = Queued | Claimed | Placed | Waiting | Preempted | Scaled | PhaseMoved | RequestRefused
Fact = Verdict | Decision


@dataclass(frozen=True, slots=True)
class Stale:
    """The fact was taken in before; nothing changes."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The workload after a fact, and one sentence about it."""

    progress: Progress
    text: str


STALE: Final = Stale()


def apply(progress: Progress, fact: Fact, version: int) -> Changed | Stale:
    """What `fact` makes of a workload. `version`: of the workload on the fact's topic; 0 is not versioned."""
    if isinstance(fact, Admitted | Rejected):
        if 0 < version <= progress.admissions:
            return STALE
        changes, text = _verdict(progress, fact)
        return Changed(replace(progress, admissions=max(version, progress.admissions), **changes), text)
    if 0 < version <= progress.decisions:
        return STALE
    changes, text = _decision(progress, fact)
    return Changed(replace(progress, decisions=max(version, progress.decisions), **changes), text)


_Changes = tuple[dict[str, Any], str]
"""The members of Progress that a fact changes, and the sentence about it. One copy a fact is made, not one a member."""


def _verdict(before: Progress, fact: Verdict) -> _Changes:
    if fact.generation < before.judged:
        return {}, ""
    changes: dict[str, Any]
    if isinstance(fact, Admitted):
        changes = {"verdict": ADMITTED, "judged": fact.generation, "gpu_charge": fact.gpu_charge}
        return changes, "policy admits it"
    changes = {"verdict": REFUSED, "judged": fact.generation}
    said = "; ".join(fact.issues)
    if fact.generation > 1:
        # The generation that was admitted last keeps running.
        return changes, f"policy refuses generation {fact.generation}: {said}"
    text = f"policy refuses it: {said}"
    changes["held"] = False
    if before.phase is Phase.CREATING:
        changes |= {"phase": Phase.FAILED, "why": Why("PolicyRefused", text)}
    return changes, text


def _decision(before: Progress, fact: Decision) -> _Changes:
    match fact:
        case PhaseMoved():
            return _moved(before, fact)
        case Queued(node_pool=pool):
            phase = Phase.PENDING if before.phase is Phase.CREATING else before.phase
            return {"phase": phase}, f"queued in node pool {pool or 'default'}"
        case Claimed(cluster=cluster, waits_for=others):
            return {}, f"has a claim in cluster {cluster} and waits for {_count(others, 'workload')} to end"
        case Placed():
            return _placed(before, fact)
        case Waiting(why=why):
            return {"why": why}, f"waits: {why.message or why.code}"
        case Preempted(why=why):
            return {"why": why}, why.message or why.code
        case Scaled(before=few, after=many):
            return {}, f"has {_count(many, 'replica')} instead of {few}"
        case RequestRefused(why=why):
            return {}, f"a request was refused: {why.message or why.code}"


def _placed(before: Progress, fact: Placed) -> _Changes:
    changes: dict[str, Any] = {"attempt": fact.attempt, "cluster": fact.cluster, "node_pool": fact.node_pool}
    if before.phase is Phase.CREATING or before.phase in WAITING:
        changes |= {"phase": Phase.INITIALIZING, "why": NO_REASON}
    where = f"cluster {fact.cluster}, node pool {fact.node_pool or 'default'}"
    return changes, f"placed in {where}: {_count(fact.replicas, 'replica')}"


def _moved(before: Progress, fact: PhaseMoved) -> _Changes:
    phase = fact.phase
    changes: dict[str, Any] = {
        "phase": phase,
        "desired": fact.desired or before.desired,
        "why": fact.why,
        "attempt": max(fact.attempt, before.attempt),
        "held": before.held and phase is not Phase.DELETED,
        "started_at": before.started_at or (fact.at if phase in _RAN else None),
        "finished_at": _finished(before, phase, fact.at),
    }
    said = fact.why.message or fact.why.code
    if before.phase is phase:
        return changes, said or "its replicas have changed"
    return changes, f"{before.phase} -> {phase}{f': {said}' if said else ''}"


_RAN: Final = frozenset({*ACTIVE, Phase.COMPLETED} - {Phase.INITIALIZING})


def _finished(before: Progress, phase: Phase, at: datetime) -> datetime | None:
    if phase in ENDED or phase is Phase.DELETING:
        return before.finished_at or (None if phase is Phase.DELETING else at)
    return None


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
