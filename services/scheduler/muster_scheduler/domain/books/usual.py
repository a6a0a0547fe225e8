"""How long work that ended well has run, by what it was: what an estimate of when others end rests on.

Written when a workload completes, read by answers/estimates.py. It decides nothing, and is no part of the truth: a
rebuild learns from those that have completed and were not deleted since.
Holds: of each kind of work the last `_KEPT` runs count; with fewer than `_FEWEST` nothing is said; of more kinds than
`_KINDS` the one that was met first is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_kernel.lifecycle import Phase
from muster_scheduler.domain.asked.requests import total_charge
from muster_scheduler.domain.asked.workloads import Workload, WorkloadKind
from muster_scheduler.domain.journal import Journal

_KEPT: Final = 16
_FEWEST: Final = 3
_KINDS: Final = 10_000
_OF_TEN: Final = 8  # an estimate that two of ten runs exceed is one that people can plan with

Kind = tuple[str, WorkloadKind, int]
"""Project, kind, and GPUs in 1/7,000: what is alike runs about as long."""
Usual = dict[Kind, tuple[int, ...]]
"""By kind of work how many microseconds its last runs took, the oldest first."""


def learn(usual: Usual, journal: Journal, workload: Workload) -> None:
    """A workload has completed just now."""
    kind = _kind(workload)
    if kind is None:
        return
    if len(usual) >= _KINDS and kind not in usual:
        journal.drop(usual, next(iter(usual)))
    journal.put(usual, kind, _with(usual, kind, workload))


def learned(workloads: Iterable[Workload]) -> Usual:
    """What those say that have completed and are still known."""
    found: Usual = {}
    over = [w for w in workloads if w.phase is Phase.COMPLETED]
    for workload in sorted(over, key=lambda each: (each.finished, each.id)):
        kind = _kind(workload)
        if kind is not None:
            found[kind] = _with(found, kind, workload)
    return dict(list(found.items())[-_KINDS:])


def _with(usual: Usual, kind: Kind, workload: Workload) -> tuple[int, ...]:
    return (*usual.get(kind, ())[1 - _KEPT :], workload.finished - workload.placed + workload.ran)


def usual_end(usual: Usual, workload: Workload, now: int) -> int | None:
    """When a running workload will probably have ended; None where nothing is known of runs as long as this one.

    Of the runs like it that took longer than it has run by now, eight of ten had ended by then.
    """
    kind = _kind(workload)
    took = usual.get(kind, ()) if kind is not None else ()
    ran = now - workload.placed + workload.ran
    longer = sorted(each for each in took if each > ran)
    if len(took) < _FEWEST or not longer:
        return None
    return now + longer[(len(longer) * _OF_TEN - 1) // 10] - ran


def _kind(workload: Workload) -> Kind | None:
    request = workload.request
    if request is None or not workload.placed:
        return None
    return workload.project, request.kind, total_charge(request.roles)
