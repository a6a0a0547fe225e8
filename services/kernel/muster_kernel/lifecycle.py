"""The life of a workload: every phase, every event, and the one table that says what follows what.

The scheduler owns the lifecycle and calls `step`; submission, agents and the client only read phases.
Holds: the table is total (a test visits each cell), final phases are reopened by nothing but deletion, and a request
that cannot act yet is kept in the desired phase, from where `step` picks it up as soon as the phase allows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Final


class Phase(StrEnum):
    """What people read. Capacity does not follow it: devices return when the last process is GONE.

    Creating --> Pending --> Initializing --> Running <--> Degraded, Updating        Creating --> Failed (refused)
                    ^  ^          |               |                  |
                    |  |          +---------------+------------------+--> Completed | Failed
                    |  |          |               |                  |
                    |  +-------- Terminating <----+------------------+    preempted, restarted, refused by the agent
                    |            Stopping    <----+------------------+    suspended, limit reached
                    |               |             |
                    +- Resuming <- Stopped        +--> Unknown (its cluster is silent) --> what its replicas say

    Every phase --> Deleting --> Deleted (Unknown remembers the wish first).
    """

    CREATING = "Creating"
    PENDING = "Pending"
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    UPDATING = "Updating"
    TERMINATING = "Terminating"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    RESUMING = "Resuming"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"
    FAILED = "Failed"
    DELETING = "Deleting"
    DELETED = "Deleted"


class DesiredPhase(StrEnum):
    """What the owner wants; the actual phase catches up with it."""

    RUNNING = "Running"
    STOPPED = "Stopped"
    DELETED = "Deleted"


class LifecycleEvent(StrEnum):
    """What may move a phase. SUSPEND, RESUME and DELETE are requests, which can be refused; all others are facts.

    The table (rows: phases, columns: events; `.` ignored, `x` refused, `=` stays, `=*` stays and is remembered):

                    Admitted Refused Placed AssignRef AllReady SomeReady NoneReady SomeLost RevStarted AllSucceeded
      Creating      Pending  Failed  .      .         .        .         .         .        .          .
      Pending       .        .       Init   .         .        .         .         .        .          .
      Resuming      .        .       Init   .         .        .         .         .        .          .
      Initializing  .        .       .      Termin    Running  Degraded  .         .        .          Completed
      Running       .        .       .      .         .        .         .         Degraded Updating   Completed
      Degraded      .        .       .      .         Running  .         .         .        Updating   Completed
      Updating      .        .       .      .         Running  .         .         .        .          Completed
      Terminating   .        .       .      .         .        .         .         .        .          .
      Stopping      .        .       .      .         .        .         .         .        .          Completed
      Unknown       .        .       .      Termin    Running  Degraded  Init      Degraded .          Completed
      Stopped, Completed, Failed, Deleting, Deleted: all of these are ignored

                    Preempted Restart Budget Limit  Silent  AllGone  Same  Final  GivenUp GivenUpF AutoDel
      Initializing  Termin    Termin  Failed Stopp  Unknown .        .     .      .       .        .
      Running       Termin    Termin  Failed Stopp  Unknown .        .     .      .       .        .
      Degraded      Termin    Termin  Failed Stopp  Unknown .        .     .      .       .        .
      Updating      Termin    Termin  Failed Stopp  Unknown .        .     .      .       .        .
      Terminating   .         .       .      .      .       Pending  Init  Failed Pending Failed   .
      Stopping      .         .       .      .      .       Stopped  .     .      Stopped Stopped  .
      Unknown       .         Termin  Failed .      .       .        .     .      Pending Failed   .
      Completed     .         .       .      .      .       .        .     .      .       .        Deleting
      Failed        .         .       .      .      .       .        .     .      .       .        Deleting
      Deleting      .         .       .      .      .       Deleted  .     .      Deleted Deleted  .
      Creating, Pending, Resuming, Stopped, Deleted: all of these are ignored

                    Suspend   Resume   Delete
      Creating      =*        =        Deleting
      Pending       Stopped   =        Deleting
      Resuming      Stopped   =        Deleting
      Initializing  Stopping  =        Deleting
      Running       Stopping  =        Deleting
      Degraded      Stopping  =        Deleting
      Updating      Stopping  =        Deleting
      Terminating   Stopping  =        Deleting
      Stopping      =         =*       Deleting
      Stopped       =         Resuming Deleting
      Unknown       =*        =        =*
      Completed     x         x        Deleting
      Failed        x         x        Deleting
      Deleting      x         x        =
      Deleted       x         x        =
    """

    ADMITTED = "Admitted"
    REFUSED = "Refused"
    PLACED = "Placed"
    ASSIGNMENT_REFUSED = "AssignmentRefused"
    ALL_READY = "AllReady"
    SOME_READY = "SomeReady"
    NONE_READY = "NoneReady"
    SOME_LOST = "SomeLost"
    REVISION_STARTED = "RevisionStarted"
    ALL_SUCCEEDED = "AllSucceeded"
    PREEMPTED = "Preempted"
    GANG_RESTART = "GangRestart"
    BUDGET_SPENT = "BudgetSpent"
    LIMIT_REACHED = "LimitReached"
    CLUSTER_SILENT = "ClusterSilent"
    ALL_GONE = "AllGone"
    ALL_GONE_SAME_DEVICES = "AllGoneSameDevices"
    ALL_GONE_FOR_GOOD = "AllGoneForGood"
    GIVEN_UP = "GivenUp"
    GIVEN_UP_FOR_GOOD = "GivenUpForGood"
    AUTO_DELETE = "AutoDelete"
    SUSPEND = "Suspend"
    RESUME = "Resume"
    DELETE = "Delete"


class Verdict(Enum):
    """The cells of the table that hold no phase."""

    IGNORED = "ignored"
    REFUSED = "refused"


IGNORED: Final = Verdict.IGNORED
REFUSED: Final = Verdict.REFUSED

Cell = Phase | Verdict

REQUESTS: Final = frozenset({LifecycleEvent.SUSPEND, LifecycleEvent.RESUME, LifecycleEvent.DELETE})
OVER: Final = frozenset({Phase.COMPLETED, Phase.FAILED})
FINAL: Final = OVER | {Phase.DELETED}
ACTIVE: Final = frozenset({Phase.INITIALIZING, Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING})
WAITING: Final = frozenset({Phase.PENDING, Phase.RESUMING})
RELEASING: Final = frozenset({Phase.TERMINATING, Phase.STOPPING, Phase.DELETING})

_E = LifecycleEvent
_P = Phase

_WHILE_ACTIVE: Final[dict[LifecycleEvent, Phase]] = {
    _E.ALL_SUCCEEDED: _P.COMPLETED,
    _E.PREEMPTED: _P.TERMINATING,
    _E.GANG_RESTART: _P.TERMINATING,
    _E.BUDGET_SPENT: _P.FAILED,
    _E.LIMIT_REACHED: _P.STOPPING,
    _E.CLUSTER_SILENT: _P.UNKNOWN,
    _E.SUSPEND: _P.STOPPING,
}

_MOVES: Final[dict[Phase, dict[LifecycleEvent, Phase]]] = {
    _P.CREATING: {_E.ADMITTED: _P.PENDING, _E.REFUSED: _P.FAILED},
    _P.PENDING: {_E.PLACED: _P.INITIALIZING, _E.SUSPEND: _P.STOPPED},
    _P.RESUMING: {_E.PLACED: _P.INITIALIZING, _E.SUSPEND: _P.STOPPED},
    _P.INITIALIZING: {
        **_WHILE_ACTIVE,
        _E.ASSIGNMENT_REFUSED: _P.TERMINATING,
        _E.ALL_READY: _P.RUNNING,
        _E.SOME_READY: _P.DEGRADED,
    },
    _P.RUNNING: {**_WHILE_ACTIVE, _E.SOME_LOST: _P.DEGRADED, _E.REVISION_STARTED: _P.UPDATING},
    _P.DEGRADED: {**_WHILE_ACTIVE, _E.ALL_READY: _P.RUNNING, _E.REVISION_STARTED: _P.UPDATING},
    _P.UPDATING: {**_WHILE_ACTIVE, _E.ALL_READY: _P.RUNNING},
    _P.TERMINATING: {
        _E.ALL_GONE: _P.PENDING,
        _E.ALL_GONE_SAME_DEVICES: _P.INITIALIZING,
        _E.ALL_GONE_FOR_GOOD: _P.FAILED,
        _E.GIVEN_UP: _P.PENDING,
        _E.GIVEN_UP_FOR_GOOD: _P.FAILED,
        _E.SUSPEND: _P.STOPPING,
    },
    _P.STOPPING: {
        _E.ALL_GONE: _P.STOPPED,
        _E.GIVEN_UP: _P.STOPPED,
        _E.GIVEN_UP_FOR_GOOD: _P.STOPPED,
        _E.ALL_SUCCEEDED: _P.COMPLETED,
    },
    _P.STOPPED: {_E.RESUME: _P.RESUMING},
    _P.UNKNOWN: {
        _E.ALL_READY: _P.RUNNING,
        _E.SOME_READY: _P.DEGRADED,
        _E.SOME_LOST: _P.DEGRADED,
        _E.NONE_READY: _P.INITIALIZING,
        _E.ALL_SUCCEEDED: _P.COMPLETED,
        _E.ASSIGNMENT_REFUSED: _P.TERMINATING,
        _E.GANG_RESTART: _P.TERMINATING,
        _E.BUDGET_SPENT: _P.FAILED,
        _E.GIVEN_UP: _P.PENDING,
        _E.GIVEN_UP_FOR_GOOD: _P.FAILED,
        _E.DELETE: _P.UNKNOWN,
    },
    _P.COMPLETED: {_E.AUTO_DELETE: _P.DELETING},
    _P.FAILED: {_E.AUTO_DELETE: _P.DELETING},
    _P.DELETING: {_E.ALL_GONE: _P.DELETED, _E.GIVEN_UP: _P.DELETED, _E.GIVEN_UP_FOR_GOOD: _P.DELETED},
    _P.DELETED: {},
}

_NO_MORE_REQUESTS: Final = frozenset({_P.COMPLETED, _P.FAILED, _P.DELETING, _P.DELETED})


def _cell(phase: Phase, event: LifecycleEvent) -> Cell:
    move = _MOVES[phase].get(event)
    if move is not None:
        return move
    if event not in REQUESTS:
        return IGNORED
    if event is _E.DELETE:
        return phase if phase in {_P.DELETING, _P.DELETED} else _P.DELETING
    return REFUSED if phase in _NO_MORE_REQUESTS else phase


TABLE: Final[dict[tuple[Phase, LifecycleEvent], Cell]] = {(p, e): _cell(p, e) for p in Phase for e in LifecycleEvent}

_DESIRES: Final = {
    _E.SUSPEND: DesiredPhase.STOPPED,
    _E.LIMIT_REACHED: DesiredPhase.STOPPED,
    _E.RESUME: DesiredPhase.RUNNING,
    _E.DELETE: DesiredPhase.DELETED,
    _E.AUTO_DELETE: DesiredPhase.DELETED,
}
_FULFILS: Final = {
    DesiredPhase.STOPPED: _E.SUSPEND,
    DesiredPhase.RUNNING: _E.RESUME,
    DesiredPhase.DELETED: _E.DELETE,
}


@dataclass(frozen=True, slots=True)
class Moved:
    """The event was taken. `path`: the phases entered, in order; empty where only the desired phase changed or nothing.

    Two phases are entered where a remembered wish is fulfilled at once (Stopping -> Stopped -> Resuming).
    """

    path: tuple[Phase, ...]
    desired: DesiredPhase


@cache
def step(phase: Phase, event: LifecycleEvent, desired: DesiredPhase = DesiredPhase.RUNNING) -> Moved | Verdict:
    """What `event` does to a workload in `phase` whose owner wants `desired`.

    A `Moved` holds the new desired phase: requests set it, facts keep it. IGNORED: the fact has no meaning here.
    REFUSED: the request cannot be granted any more, and the desired phase stays as it was.
    Remembered: there are a thousand questions, and the scheduler asks one of them thousands of times a second.
    """
    cell = TABLE[phase, event]
    if isinstance(cell, Verdict):
        return cell
    wish = _after(desired, event)
    path = () if cell is phase else (cell,)
    while (last := path[-1] if path else None) is not None:
        remembered = TABLE[last, _FULFILS[wish]]
        if isinstance(remembered, Verdict) or remembered is last:
            break
        path = (*path, remembered)
    return Moved(path, wish)


def _after(desired: DesiredPhase, event: LifecycleEvent) -> DesiredPhase:
    # A deleted workload stays wanted away: a late suspend or resume must not bring it back while its cluster is silent.
    if desired is DesiredPhase.DELETED:
        return desired
    return _DESIRES.get(event, desired)
