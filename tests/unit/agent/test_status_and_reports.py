"""How a replica stands, which budget its failure counts to, and what is told of it in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.domain.fleet import Device, Fleet, Node, NodeState, Profile, difference
from muster_cluster_agent.domain.model import (
    Ended,
    Failure,
    NodeHealth,
    NodeView,
    Observed,
    Pattern,
    Release,
    Share,
    Slice,
    State,
    Status,
)
from muster_cluster_agent.domain.reports import ReportBook
from muster_cluster_agent.domain.status import attributed, failure_of, how_it_ended, judge
from muster_cluster_agent.domain.usage import charge
from muster_kernel.quantities import GPU

UP = NodeView("n-0", NodeHealth.UP, "boot")
REPLICA = Observed("w-x-g1-a0-worker-0-r0", "id", 1, 0, "worker", 0, 0, "n-0", "boot", Pattern.SINGLE)
RUNS = replace(REPLICA, started_at=1.0, ready=True, endpoints=("http://a",))


@pytest.mark.parametrize(
    ("replica", "node", "state"),
    [
        (REPLICA, UP, State.CREATED),
        (replace(REPLICA, started_at=1.0), UP, State.STARTING),
        (RUNS, UP, State.READY),
        (RUNS, None, State.LOST),
        (RUNS, replace(UP, health=NodeHealth.SILENT), State.LOST),
        (replace(RUNS, ended=Ended(0, 2.0)), UP, State.SUCCEEDED),
        (replace(RUNS, ended=Ended(1, 2.0)), replace(UP, health=NodeHealth.SILENT), State.FAILED),
        (replace(RUNS, fault="dead"), UP, State.FAILED),
        (replace(RUNS, gone=True, evidence="no-process"), None, State.GONE),
    ],
)
def test_the_state_follows_the_facts(replica: Observed, node: NodeView | None, state: State) -> None:
    status = judge(replica, node)
    assert status.state is state
    assert status.endpoints == (("http://a",) if state is State.READY else ())
    assert status.evidence == ("no-process" if state is State.GONE else "")


DELETED = replace(RUNS, unasked=True, gone=True, ended=Ended(143, 2.0, "its pod was deleted by others", disrupted=True))


@pytest.mark.parametrize(
    ("replica", "attempt", "failure", "message"),
    [
        (DELETED, 0, Failure.OURS, "stopped: preempted"),
        (replace(DELETED, ended=None), 0, Failure.OURS, "stopped: preempted"),
        (DELETED, None, Failure.INFRASTRUCTURE, "its pod was deleted by others"),
        (replace(DELETED, attempt=1), 0, Failure.INFRASTRUCTURE, "its pod was deleted by others"),
        (replace(DELETED, unasked=False), 0, Failure.INFRASTRUCTURE, "its pod was deleted by others"),
    ],
)
def test_a_deletion_that_nothing_explains_is_that_of_a_released_run(
    replica: Observed, attempt: int | None, failure: Failure, message: str
) -> None:
    """attempt: the one that is released; None: none is."""
    release = None if attempt is None else Release("id", 1, 1, attempt, 3.0, "preempted")
    status = judge(attributed(replica, release), UP)
    assert (status.failure, status.message) == (failure, message)


@pytest.mark.parametrize(
    ("replica", "failure"),
    [
        (replace(RUNS, ended=Ended(0, 2.0)), Failure.NONE),
        (replace(RUNS, ended=Ended(1, 2.0)), Failure.EXIT),
        (replace(RUNS, ended=Ended(126, 2.0)), Failure.EXIT),
        (replace(RUNS, ended=Ended(139, 2.0)), Failure.EXIT),
        (replace(RUNS, ended=Ended(137, 2.0)), Failure.RETRYABLE_EXIT),
        (replace(RUNS, ended=Ended(143, 2.0)), Failure.RETRYABLE_EXIT),
        (replace(RUNS, ended=Ended(0, 2.0), pattern=Pattern.SERVICE), Failure.RETRYABLE_EXIT),
        (replace(RUNS, ended=Ended(0, 2.0), stop_reason="preempted"), Failure.OURS),
        (replace(RUNS, ended=Ended(1, 2.0), stop_reason="gang-member-failed"), Failure.OURS),
        (replace(RUNS, ended=Ended(143, 2.0), stop_reason="completed"), Failure.NONE),
        (replace(RUNS, ended=Ended(137, 2.0), stop_reason="stragglers-killed"), Failure.NONE),
        (replace(RUNS, ended=Ended(137, 2.0), stop_reason="device-lost"), Failure.INFRASTRUCTURE),
        (replace(RUNS, ended=Ended(137, 2.0), stop_reason="dead-man"), Failure.INFRASTRUCTURE),
        (replace(RUNS, fault="found dead"), Failure.INFRASTRUCTURE),
        (replace(RUNS, fault="never ready", fault_is_start=True), Failure.START),
        (replace(RUNS, gone=True), Failure.INFRASTRUCTURE),
        (RUNS, Failure.NONE),
    ],
)
def test_the_failure_class_is_the_first_that_matches(replica: Observed, failure: Failure) -> None:
    assert failure_of(replica) is failure


def test_what_runs_has_not_ended() -> None:
    assert how_it_ended(RUNS) is None
    assert how_it_ended(replace(RUNS, ended=Ended(0, 1.0))) is State.SUCCEEDED


def test_the_message_says_what_happened_and_why_we_stopped_it() -> None:
    status = judge(replace(RUNS, ended=Ended(127, 2.0, "x: not found"), stop_reason="preempted"), UP)
    assert status.message == "x: not found; stopped: preempted"


def status(state: State, **more: object) -> Status:
    return replace(judge(RUNS, UP), state=state, **more)  # type: ignore[arg-type]


def test_the_book_tells_each_change_once_and_the_end_before_gone() -> None:
    book = ReportBook()
    assert book.due(status(State.READY)) == (status(State.READY),)
    assert book.due(status(State.READY)) == ()
    gone = status(State.GONE, failure=Failure.EXIT, exit_code=3, evidence="no-process")
    ended = replace(gone, state=State.FAILED, evidence="")
    assert book.due(gone) == (ended, gone)
    assert book.due(status(State.READY)) == ()
    book.check()


def test_an_end_that_was_told_is_not_told_again_with_gone() -> None:
    book = ReportBook()
    book.due(status(State.SUCCEEDED, exit_code=0))
    gone = status(State.GONE, exit_code=0, evidence="no-process")
    assert book.due(gone) == (gone,)


def test_only_an_acknowledged_gone_counts_and_forgetting_tells_all_again() -> None:
    book = ReportBook()
    gone = status(State.GONE, evidence="no-process")
    book.due(gone)
    assert not book.has_told_gone(gone.name)
    book.acknowledge(status(State.READY))
    book.acknowledge(gone)
    assert book.has_told_gone(gone.name)
    book.check()
    book.forget()
    assert not book.has_told_gone(gone.name)
    assert len(book.due(gone)) == 2
    book.drop(gone.name)
    assert len(book.due(gone)) == 2


def test_a_book_that_was_tampered_with_is_noticed() -> None:
    book = ReportBook()
    book.acknowledge(status(State.GONE))
    with pytest.raises(AssertionError, match="acknowledged as gone"):
        book.check()


@pytest.mark.parametrize(
    ("share", "units"),
    [
        (Share("GPU-0", whole=True), GPU),
        (Share("GPU-0", portion_milli=500), GPU // 2),
        (Share("GPU-0", memory_bytes=10 << 30), GPU // 4),
        (Share("GPU-x", memory_bytes=10 << 30), GPU),
        (Share("GPU-0", slice=Slice("3g.20gb", 4)), 3 * GPU // 7),
    ],
)
def test_the_charge_is_the_schedulers_own_arithmetic(share: Share, units: int) -> None:
    devices = {"GPU-0": Device("GPU-0", "A100-40GB", 40 << 30, 0)}
    assert charge((share,), (), devices) == units
    assert charge((), (("", 2),), devices) == 2 * GPU
    assert charge((), (("nvidia.com/gpu", 1), ("nvidia.com/mig-2g.10gb", 2)), devices) == GPU + 4 * GPU // 7


def test_a_difference_names_what_changed_and_what_is_gone() -> None:
    def node(name: str, state: NodeState = NodeState.READY) -> Node:
        return Node(name, "u", "b", state, 1, 1)

    profile = Profile(backend="x")
    old = Fleet(profile, (node("a"), node("b"), node("c")))
    new = Fleet(profile, (node("a"), node("b", NodeState.CORDONED), node("d")))
    found = difference(old, new)
    assert found is not None
    assert [one.name for one in found.changed] == ["b", "d"]
    assert found.removed == ("c",)
    assert not found.empty
    same = difference(old, old)
    assert same is not None
    assert same.empty
    assert difference(old, replace(new, profile=Profile(backend="y"))) is None
