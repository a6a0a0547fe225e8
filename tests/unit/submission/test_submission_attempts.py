"""The starts of a workload out of its history, and texts about other workloads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from muster_kernel.lifecycle import Phase
from muster_kernel.reasons import HIDDEN, OTHER, PreemptionCause
from muster_submission.domain.attempts import MOST, Step, attempts
from muster_submission.domain.others import Other, filled

AT = datetime(2026, 1, 1, tzinfo=UTC)
VIP = Other("id", "web", "vip")


def step(second: int, attempt: int, before: Phase, after: Phase, code: str = "") -> Step:
    return Step(AT + timedelta(seconds=second), attempt, before, after, "east", code, code)


def start(second: int, attempt: int) -> list[Step]:
    """Place, first run and preemption of one start, which runs for five seconds."""
    return [
        step(second, attempt, Phase.PENDING, Phase.INITIALIZING),
        step(second + 1, attempt, Phase.INITIALIZING, Phase.RUNNING),
        step(second + 6, attempt, Phase.RUNNING, Phase.TERMINATING, "Preempted"),
        step(second + 9, attempt, Phase.TERMINATING, Phase.PENDING, "ReplicasGone"),
    ]


def test_each_start_has_its_own_times_and_cause() -> None:
    first, second = attempts([*start(0, 1), *start(60, 2)[:2]])
    assert (first.number, second.number) == (1, 2)
    assert first.running is not None
    assert first.ended is not None
    assert (first.ended - first.running).total_seconds() == 5, "the wait for its next place is no run"
    assert first.why is not None
    assert first.why.code == "Preempted"
    assert (second.placed, second.ended) == (AT + timedelta(seconds=60), None)


def test_a_restart_in_place_is_a_start_of_its_own() -> None:
    again = [
        *start(0, 1)[:3],
        step(9, 2, Phase.TERMINATING, Phase.INITIALIZING, "Restart"),
        step(10, 2, Phase.INITIALIZING, Phase.RUNNING),
        step(12, 2, Phase.RUNNING, Phase.COMPLETED, "Succeeded"),
    ]
    assert [(each.number, each.why and each.why.code) for each in attempts(again)] == [
        (1, "Preempted"),
        (2, "Succeeded"),
    ]


def test_silence_and_a_lost_replica_end_no_start() -> None:
    steps = [
        *start(0, 1)[:2],
        step(3, 1, Phase.RUNNING, Phase.UNKNOWN),
        step(4, 1, Phase.UNKNOWN, Phase.DEGRADED),
        step(5, 1, Phase.DEGRADED, Phase.RUNNING),
    ]
    (only,) = attempts(steps)
    assert (only.running, only.ended) == (AT + timedelta(seconds=1), None)


def test_many_starts_are_bounded_and_a_history_may_begin_in_the_middle() -> None:
    assert attempts(start(0, 1)[3:]) == []
    many = attempts([each for number in range(MOST + 5) for each in start(100 * number, number + 1)])
    assert [each.number for each in many] == list(range(6, MOST + 6))


def test_another_workload_is_named_to_those_who_may_read_it() -> None:
    text = PreemptionCause.LIMIT.sentence
    assert filled(text, VIP, None) == text.replace(OTHER, "vip of web")
    assert filled(text, VIP, frozenset({"web"})) == text.replace(OTHER, "vip of web")
    assert filled(text, VIP, frozenset({"vision"})) == text.replace(OTHER, HIDDEN)
    assert filled(text, None, None) == text, "a taker that is forgotten by now"


def test_no_cause_names_anybody_but_as_another_workload() -> None:
    assert all(cause.sentence.count(OTHER) <= 1 for cause in PreemptionCause)
    alone = {PreemptionCause.DRAIN, PreemptionCause.NODE_LOST}
    assert {cause for cause in PreemptionCause if OTHER not in cause.sentence} == alone
