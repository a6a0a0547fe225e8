"""The read model's fold: what each fact does, and what none may do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from muster_kernel.lifecycle import DesiredPhase, Phase
from muster_kernel.reasons import PreemptionCause
from muster_submission.domain import progress as p
from muster_submission.domain.progress import Changed, Progress, Why, apply
from muster_submission.domain.requests import AlreadySo, Ask, Impossible, Request, judge
from muster_submission.domain.verdicts import issue

ID = "0190a5d4-9f2e-7c3a-8b1d-2e3f4a5b6c7d"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def moved(phase: Phase, *, at: datetime = AT, attempt: int = 1, why: Why = p.NO_REASON) -> p.PhaseMoved:
    return p.PhaseMoved(None, phase, attempt, why, at, DesiredPhase.RUNNING)


def after(*facts: p.Fact, before: Progress | None = None) -> Changed:
    progress, last = before or Progress(), Changed(Progress(), "")
    for number, fact in enumerate(facts, start=1):
        outcome = apply(progress, fact, number)
        assert isinstance(outcome, Changed)
        outcome.progress.check()
        progress, last = outcome.progress, outcome
    return last


def test_a_life() -> None:
    done = after(
        p.Queued("h100"),
        p.Waiting(Why("OverQuota", "8 short")),
        p.Claimed("east", 2),
        p.Placed(1, "east", "h100", 2),
        moved(Phase.RUNNING),
        p.Scaled(2, 3),
        moved(Phase.COMPLETED, at=AT.replace(year=2027)),
    ).progress
    assert (done.phase, done.cluster, done.node_pool, done.attempt) == (Phase.COMPLETED, "east", "h100", 1)
    assert (done.started_at, done.finished_at) == (AT, AT.replace(year=2027))
    assert done.decisions == 7


def test_sentences() -> None:
    assert after(p.Queued("")).text == "queued in node pool default"
    assert after(p.Waiting(Why("OverQuota"))).text == "waits: OverQuota"
    assert after(p.Claimed("east", 1)).text == "has a claim in cluster east and waits for 1 workload to end"
    assert after(p.Placed(1, "east", "", 1)).text == "placed in cluster east, node pool default: 1 replica"
    taken = after(p.Preempted(Why("Reclaim", PreemptionCause.RECLAIM.sentence, ID)))
    assert taken.text == "gives its place to another workload: its project holds more than its fair share"
    assert taken.progress.why.other == ID
    assert after(p.Scaled(1, 3)).text == "has 3 replicas instead of 1"
    assert after(p.RequestRefused(Why("", "it has ended"))).text == "a request was refused: it has ended"
    assert after(moved(Phase.RUNNING, why=Why("AllReady"))).text == "Creating -> Running: AllReady"
    assert after(moved(Phase.RUNNING), moved(Phase.RUNNING)).text == "its replicas have changed"
    assert after(p.Admitted(1)).text == "policy admits it"


def test_a_refusal_fails_what_is_still_creating_and_frees_its_name() -> None:
    refused = after(p.Rejected(1, ("too many",))).progress
    assert (refused.phase, refused.held, refused.verdict) == (Phase.FAILED, False, p.REFUSED)
    assert refused.why == Why("PolicyRefused", "policy refuses it: too many")
    deleted = after(p.Rejected(1, ("no",)), before=Progress(phase=Phase.DELETED, held=False)).progress
    assert deleted.phase is Phase.DELETED


def test_a_refusal_of_a_later_generation_changes_no_phase() -> None:
    running = Progress(phase=Phase.RUNNING, generation=2, verdict=p.ADMITTED, judged=1)
    found = apply(running, p.Rejected(2, ("no",)), 2)
    assert isinstance(found, Changed)
    assert (found.progress.phase, found.progress.held, found.progress.judged) == (Phase.RUNNING, True, 2)
    assert found.text == "policy refuses generation 2: no"


def test_what_was_taken_in_is_stale() -> None:
    known = Progress(decisions=3, admissions=2, verdict=p.ADMITTED, judged=2)
    assert apply(known, p.Queued("a"), 3) is p.STALE
    assert apply(known, p.Admitted(2), 2) is p.STALE
    older = apply(known, p.Rejected(1, ()), 3)
    assert isinstance(older, Changed)
    assert (older.text, older.progress.verdict) == ("", p.ADMITTED)
    assert isinstance(apply(known, p.Queued("a"), 0), Changed)  # not versioned


def test_a_place_does_not_end_a_phase_of_its_own() -> None:
    running = Progress(phase=Phase.RUNNING, why=Why("AllReady"))
    placed = apply(running, p.Placed(2, "west", "p", 1), 1)
    assert isinstance(placed, Changed)
    assert (placed.progress.phase, placed.progress.why, placed.progress.attempt) == (Phase.RUNNING, Why("AllReady"), 2)


def test_times() -> None:
    restarted = after(moved(Phase.RUNNING), moved(Phase.TERMINATING), moved(Phase.RUNNING, at=AT.replace(year=2030)))
    assert restarted.progress.started_at == AT
    assert restarted.progress.finished_at is None
    ended = after(moved(Phase.FAILED), moved(Phase.DELETING, at=AT.replace(year=2030)))
    assert ended.progress.finished_at == AT
    assert after(moved(Phase.DELETING)).progress.finished_at is None
    assert not after(moved(Phase.DELETED)).progress.held


def test_laws_are_checked() -> None:
    for broken in (
        Progress(phase=Phase.DELETED),
        Progress(verdict=p.REFUSED, judged=1),
        Progress(judged=1),
        Progress(finished_at=AT),
    ):
        with pytest.raises(ValueError, match="Progress"):
            broken.check()
    replace(Progress(), phase=Phase.FAILED, finished_at=AT).check()


@pytest.mark.parametrize(
    ("request_", "phase", "verdict"),
    [
        (Request.SUSPEND, Phase.RUNNING, Ask),
        (Request.SUSPEND, Phase.CREATING, Ask),
        (Request.SUSPEND, Phase.COMPLETED, Impossible),
        (Request.RESUME, Phase.STOPPED, Ask),
        (Request.RESUME, Phase.DELETED, Impossible),
        (Request.DELETE, Phase.COMPLETED, Ask),
        (Request.DELETE, Phase.DELETED, AlreadySo),
    ],
)
def test_requests(request_: Request, phase: Phase, verdict: type) -> None:
    assert isinstance(judge(request_, "w", phase, DesiredPhase.RUNNING), verdict)


def test_issues_read_as_sentences() -> None:
    assert issue("a.b", "max", "8", "at most 4", "") == "a.b: 8 is not allowed; allowed: at most 4"
    assert issue("a.b", "required", "", "", "") == "a.b: does not meet the rule required"
    assert issue("a.b", "max", "8", "", "is too much") == "a.b: is too much"
    assert issue("a.b", "max", "8", "", "a.b is too much") == "a.b is too much"
    assert issue("", "language", "x", "", "") == "x is not allowed"
