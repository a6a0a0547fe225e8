"""Judges a chaos run from the outside: supervisors' journals, what /proc still shows, and the client's own log.

Called by `run.py` after the stack is down, and by its own tests on histories with planted faults.
Pure: values in, a verdict out.
Nothing that a service of Muster says about itself is believed here; a phase counts only as what the client was told.

What is judged (the five must be 0):
  lost              an acknowledged workload that the client never saw end, or was told to be Completed without a
                    journal's exit 0
  double_allocated  moments at which the intervals [start, gone] of replicas ask more of a device than it has
  duplicate_starts  two process starts of one (workload, generation, attempt, replica), or two attempts of a workload
                    alive at once
  complaints        tracebacks and the like in the logs of Muster's own services
  left_over         replicas with a start and no gone, and processes that still carry a replica's mark
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WHOLE: Final = 1000
"""Milli-GPU that a device has."""

TERMINAL: Final = frozenset({"Completed", "Failed", "Deleted"})


@dataclass(frozen=True, slots=True)
class Held:
    """What a replica holds of one device: `milli` of WHOLE, or `memory_bytes` of its memory (then `milli` is 0)."""

    device: str
    milli: int = WHOLE
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a supervisor's journal. `at_ns` is CLOCK_MONOTONIC, one clock for all processes of the machine."""

    event: Literal["start", "exit", "gone"]
    at_ns: int
    replica: str
    workload: str
    generation: int
    attempt: int
    held: tuple[Held, ...] = ()
    code: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Everything that a verdict is made of."""

    journal: Sequence[Entry]
    acknowledged: frozenset[str]
    last_phase: Mapping[str, str]
    """The last phase that the client was told, by workload id."""
    marked_processes: Sequence[str] = ()
    """Processes that still run and carry a replica's mark, for people."""
    complaints: Sequence[str] = ()
    """What the services' logs must not hold, as `complaints.read` found it."""
    device_memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes by device; memory requests on a device that is not listed cannot be judged and count as double."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings, each a sentence for people; the counts are their lengths."""

    acknowledged: int
    terminal: int
    lost: tuple[str, ...]
    double_allocated: tuple[str, ...]
    duplicate_starts: tuple[str, ...]
    left_over: tuple[str, ...]
    complaints: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was found and everything acknowledged has ended."""
        found = self.lost or self.double_allocated or self.duplicate_starts or self.left_over or self.complaints
        return not found and self.terminal == self.acknowledged


@dataclass(frozen=True, slots=True)
class Life:
    """A replica's time on its devices, from the process start to the proof that nothing of it is left."""

    replica: str
    workload: str
    generation: int
    attempt: int
    start_ns: int
    gone_ns: int | None
    held: tuple[Held, ...]


def judge(history: History) -> Verdict:
    """The verdict on a whole history."""
    lives = lives_of(history.journal)
    ended = {w for w in history.acknowledged if history.last_phase.get(w) in TERMINAL}
    return Verdict(
        acknowledged=len(history.acknowledged),
        terminal=len(ended),
        lost=tuple(_lost(history)),
        double_allocated=tuple(_double_allocated(lives, history.device_memory)),
        duplicate_starts=(*_started_twice(history.journal), *_attempts_overlap(lives)),
        left_over=(*_never_gone(lives), *history.marked_processes),
        complaints=tuple(history.complaints),
    )


def lives_of(journal: Iterable[Entry]) -> list[Life]:
    """One life a start, in order of the starts; a replica's gone closes all starts of its name before it."""
    lives: list[Life] = []
    open_by_replica: dict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(journal, key=lambda e: e.at_ns):
        if entry.event == "start":
            open_by_replica[entry.replica].append(entry)
        elif entry.event == "gone":
            lives.extend(_life(start, entry.at_ns) for start in open_by_replica.pop(entry.replica, []))
    lives.extend(_life(start, None) for starts in open_by_replica.values() for start in starts)
    return sorted(lives, key=lambda life: (life.start_ns, life.replica))


def _life(start: Entry, gone_ns: int | None) -> Life:
    return Life(start.replica, start.workload, start.generation, start.attempt, start.at_ns, gone_ns, start.held)


def _lost(history: History) -> Iterable[str]:
    ended_well = {e.workload for e in history.journal if e.event == "exit" and e.code == 0}
    for workload in sorted(history.acknowledged):
        phase = history.last_phase.get(workload)
        if phase is None:
            yield f"{workload} was acknowledged and never heard of again"
        elif phase not in TERMINAL:
            yield f"{workload} was acknowledged and is still {phase}"
        elif phase == "Completed" and workload not in ended_well:
            yield f"{workload} is called Completed, but no journal holds an exit 0 of it"


def _started_twice(journal: Iterable[Entry]) -> Iterable[str]:
    starts: dict[tuple[str, int, int, str], int] = defaultdict(int)
    for entry in journal:
        if entry.event == "start":
            starts[(entry.workload, entry.generation, entry.attempt, entry.replica)] += 1
    for (workload, generation, attempt, replica), count in sorted(starts.items()):
        if count > 1:
            yield f"{replica} of {workload} generation {generation} attempt {attempt} was started {count} times"


def _attempts_overlap(lives: Sequence[Life]) -> Iterable[str]:
    """Two attempts of a workload alive at once. Two generations alive are legal: an inference service rolls over."""
    by_workload: dict[tuple[str, int], dict[int, list[Life]]] = defaultdict(lambda: defaultdict(list))
    for life in lives:
        by_workload[(life.workload, life.generation)][life.attempt].append(life)
    for (workload, _), attempts in sorted(by_workload.items()):
        spans = sorted((min(x.start_ns for x in ls), _last_moment(ls), attempt) for attempt, ls in attempts.items())
        for (_, end, before), (start, _, after) in pairwise(spans):
            if end is None or start < end:
                yield f"attempts {before} and {after} of {workload} were alive at once"


def _last_moment(lives: Sequence[Life]) -> int | None:
    return None if any(x.gone_ns is None for x in lives) else max(x.gone_ns or 0 for x in lives)


def _double_allocated(lives: Sequence[Life], memory: Mapping[str, int]) -> Iterable[str]:
    changes: dict[str, list[tuple[int, int, int, int, str]]] = defaultdict(list)
    for life in lives:
        for held in life.held:
            # A release sorts before a start of the same nanosecond: handing over at once is legal.
            changes[held.device].append((life.start_ns, 1, held.milli, held.memory_bytes, life.replica))
            if life.gone_ns is not None:
                changes[held.device].append((life.gone_ns, 0, -held.milli, -held.memory_bytes, life.replica))
    for device, moments in sorted(changes.items()):
        yield from _overdrawn(device, sorted(moments), memory.get(device, 0))


def _overdrawn(device: str, moments: Sequence[tuple[int, int, int, int, str]], memory: int) -> Iterable[str]:
    milli = used = 0
    for _, starts, milli_change, memory_change, replica in moments:
        milli += milli_change
        used += memory_change
        shared_by_memory = used > 0
        over = milli > WHOLE or used > memory or (shared_by_memory and milli >= WHOLE)
        if starts and over:
            given = f"{milli} of {WHOLE} milli-GPU, {used} of {memory} bytes"
            yield f"{device} was over-given when {replica} started: {given}"


def _never_gone(lives: Iterable[Life]) -> Iterable[str]:
    for life in lives:
        if life.gone_ns is None:
            yield f"{life.replica} of {life.workload} started and was never seen gone"
