"""How a replica stands: the judgement over what a back end saw, and the failure class that budgets count by.

Called for every observed replica after each change. Pure.
Holds: the first fact wins (replicas.md 9.0): a command that had ended before we asked it to stop has ended by itself,
and an end is never taken back by what happens to its node later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from muster_cluster_agent.domain.budgets import Spent
from muster_cluster_agent.domain.model import (
    Assignment,
    Ended,
    Failure,
    NodeHealth,
    NodeView,
    Observed,
    Pattern,
    Release,
    State,
    Status,
)
from muster_kernel.reasons import FailureClass, classify_exit

COMPLETED: Final = "completed"  # stopped since the work it served is done: an MPI worker after its launcher's success
STRAGGLER: Final = "stragglers-killed"  # stopped since the deciding replica had succeeded long enough before
GANG: Final = "gang-member-failed"
REPLACED: Final = "replaced"
RELEASED: Final = "released"  # where a release says nothing else
DEVICE_LOST: Final = "device-lost"
DEAD_MAN: Final = "dead-man"

DEVICES_DIFFER: Final = "devices-differ"  # it has fewer or more devices than it was assigned
DISK: Final = "disk-budget"  # followed by a sentence: it used too much of the disk

_STARTS: Final = frozenset({State.CREATED, State.STARTING})
_GOOD_STOPS: Final = frozenset({COMPLETED, STRAGGLER})
_INFRASTRUCTURE_STOPS: Final = frozenset({DEVICE_LOST, DEVICES_DIFFER, DEAD_MAN})
_BY_EXIT: Final = {
    FailureClass.NONE: Failure.NONE,
    FailureClass.RETRYABLE_EXIT: Failure.RETRYABLE_EXIT,
    FailureClass.EXIT: Failure.EXIT,
}
_BY_SPENT: Final = {
    Spent.MEMORY: Failure.OUT_OF_MEMORY,
    Spent.MACHINE_MEMORY: Failure.INFRASTRUCTURE,  # it kept within its own limit
    Spent.PROCESSES: Failure.EXIT,
    Spent.FILE: Failure.EXIT,
}


def attributed(replica: Observed, desired: Assignment | Release | None) -> Observed:
    """Return the replica with the reason of its run's release where nothing else says why it was ended.

    An agent that follows finds a pod deleted, and knows from the release alone that Muster did it.
    """
    if isinstance(desired, Release) and replica.unasked and replica.key <= desired.key:
        ended = None if replica.ended is None else replace(replica.ended, reason="", disrupted=False)
        return replace(replica, stop_reason=desired.reason or RELEASED, stop_grace=desired.grace, ended=ended)
    return replica


def judge(replica: Observed, node: NodeView | None) -> Status:
    """The status to report. `node` is None where the back end does not know the replica's node any more."""
    state = _state(replica, node)
    failure = failure_of(replica) if state in {State.FAILED, State.GONE} else Failure.NONE
    ended = replica.ended
    return Status(
        *replica.identity,
        state=state,
        exit_code=ended.code if ended is not None else None,
        failure=failure,
        started_at=replica.started_at,
        finished_at=ended.at if ended is not None else None,
        evidence=replica.evidence if replica.gone else "",
        message=_message(replica),
        endpoints=replica.endpoints if state is State.READY else (),
        start=replica.start if state in _STARTS else None,
        devices=replica.devices if replica.moved else (),
    )


def how_it_ended(replica: Observed) -> State | None:
    """SUCCEEDED or FAILED where it has ended or is gone, else None."""
    if replica.ended is None and not replica.gone and not replica.fault:
        return None
    return State.SUCCEEDED if failure_of(replica) is Failure.NONE else State.FAILED


def failure_of(replica: Observed) -> Failure:
    """The class of its failure, first match; NONE where it succeeded (or has not ended)."""
    if replica.stop_reason:
        if replica.stop_reason in _GOOD_STOPS:
            return Failure.NONE
        if replica.stop_reason.startswith(DISK):
            return Failure.EXIT
        return Failure.INFRASTRUCTURE if replica.stop_reason in _INFRASTRUCTURE_STOPS else Failure.OURS
    if replica.ended is not None:
        return _failure_of_end(replica.ended, replica.pattern)
    if replica.fault or replica.gone:
        return Failure.START if replica.fault_is_start else Failure.INFRASTRUCTURE
    return Failure.NONE


def _failure_of_end(ended: Ended, pattern: Pattern) -> Failure:
    if ended.disrupted:
        return Failure.INFRASTRUCTURE
    if pattern is Pattern.SERVICE and ended.code == 0:
        return Failure.RETRYABLE_EXIT  # a server that ends has failed, whatever it says of itself
    if ended.spent in _BY_SPENT:
        return _BY_SPENT[ended.spent]
    return _BY_EXIT[classify_exit(ended.code)]


def _state(replica: Observed, node: NodeView | None) -> State:
    if replica.gone:
        return State.GONE
    ended = how_it_ended(replica)
    if ended is not None:
        return ended
    if replica.lost or node is None or node.health is not NodeHealth.UP:
        return State.LOST
    if replica.ready:
        return State.READY
    return State.STARTING if replica.started_at is not None else State.CREATED


def _message(replica: Observed) -> str:
    parts = [replica.fault, replica.ended.reason if replica.ended is not None else ""]
    if replica.stop_reason:
        parts.append(f"stopped: {replica.stop_reason}")
    return "; ".join(part for part in parts if part)
