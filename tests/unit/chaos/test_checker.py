"""The checker of chaos runs finds every planted fault and none in a clean history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos import complaints
from tests.chaos.checker import WHOLE, Entry, Held, History, judge

GPU = "GPU-0"


def life(
    workload: str,
    start: int,
    gone: int | None,
    *,
    attempt: int = 1,
    code: int | None = 0,
    index: int = 0,
    held: tuple[Held, ...] = (),
) -> list[Entry]:
    replica = f"w-{workload}-g1-a{attempt}-worker-{index}-r0"
    entries = [Entry("start", start, replica, workload, 1, attempt, held)]
    if gone is not None:
        if code is not None:
            entries.append(Entry("exit", gone, replica, workload, 1, attempt, held, code))
        entries.append(Entry("gone", gone, replica, workload, 1, attempt, held))
    return entries


def history(*lives: list[Entry], phases: dict[str, str]) -> History:
    return History(journal=[e for entries in lives for e in entries], acknowledged=frozenset(phases), last_phase=phases)


CLEAN = history(
    life("a", 0, 10, held=(Held(GPU),)),
    life("b", 10, 20, held=(Held(GPU, 500),)),
    life("c", 12, 18, held=(Held(GPU, 500),)),
    life("d", 0, 5, attempt=1, code=137),
    life("d", 6, 9, attempt=2),
    phases={"a": "Completed", "b": "Completed", "c": "Completed", "d": "Completed", "e": "Deleted"},
)


def test_a_clean_history_is_clean() -> None:
    verdict = judge(CLEAN)
    assert verdict.clean
    assert (verdict.acknowledged, verdict.terminal) == (5, 5)


def test_a_workload_nobody_heard_of_again_is_lost() -> None:
    verdict = judge(replace(CLEAN, acknowledged=CLEAN.acknowledged | {"x"}))
    assert len(verdict.lost) == 1
    assert "x was acknowledged" in verdict.lost[0]
    assert not verdict.clean


@pytest.mark.parametrize("phase", ["Pending", "Running", "Creating", "Deleting"])
def test_a_workload_that_never_ended_is_lost(phase: str) -> None:
    verdict = judge(replace(CLEAN, last_phase={**CLEAN.last_phase, "e": phase}))
    assert len(verdict.lost) == 1
    assert verdict.terminal == 4


def test_completed_without_an_exit_of_zero_is_lost() -> None:
    verdict = judge(replace(CLEAN, last_phase={**CLEAN.last_phase, "e": "Completed"}))
    assert "no journal holds an exit 0" in verdict.lost[0]


def test_a_second_start_of_a_replica_is_found() -> None:
    again = Entry("start", 3, "w-a-g1-a1-worker-0-r0", "a", 1, 1)
    assert len(judge(replace(CLEAN, journal=[*CLEAN.journal, again])).duplicate_starts) == 1


def test_two_attempts_alive_at_once_are_found() -> None:
    faulty = history(life("a", 0, 10), life("a", 9, 20, attempt=2), phases={"a": "Completed"})
    assert judge(faulty).duplicate_starts == ("attempts 1 and 2 of a were alive at once",)


def test_an_attempt_that_never_went_overlaps_the_next_and_is_left_over() -> None:
    faulty = history(life("a", 0, None), life("a", 9, 20, attempt=2), phases={"a": "Completed"})
    verdict = judge(faulty)
    assert len(verdict.duplicate_starts) == 1
    assert len(verdict.left_over) == 1


def test_a_device_given_twice_is_found() -> None:
    faulty = history(
        life("a", 0, 10, held=(Held(GPU),)),
        life("b", 9, 20, held=(Held(GPU, 10),)),
        phases={"a": "Completed", "b": "Completed"},
    )
    assert len(judge(faulty).double_allocated) == 1


def test_memory_beyond_the_device_is_found() -> None:
    lives = [life(w, 0, 10, held=(Held(GPU, 0, 30),)) for w in ("a", "b")]
    faulty = replace(history(*lives, phases={"a": "Completed", "b": "Completed"}), device_memory={GPU: 50})
    assert len(judge(faulty).double_allocated) == 1
    assert judge(replace(faulty, device_memory={GPU: 60})).clean


def test_a_marked_process_is_left_over() -> None:
    verdict = judge(replace(CLEAN, marked_processes=("pid 7 w-a-g1-a1-worker-0-r0",)))
    assert len(verdict.left_over) == 1
    assert not verdict.clean


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, WHOLE)), max_size=12))
def test_double_allocation_agrees_with_counting_every_moment(spans: list[tuple[int, int, int]]) -> None:
    lives = [
        life(f"w{i}", start, start + length, held=(Held(GPU, milli),)) for i, (start, length, milli) in enumerate(spans)
    ]
    verdict = judge(history(*lives, phases={f"w{i}": "Completed" for i in range(len(spans))}))
    over = any(sum(m for start, length, m in spans if start <= t < start + length) > WHOLE for t in range(72))
    assert bool(verdict.double_allocated) == over


def test_a_traceback_in_a_service_log_is_found(tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  File x\nValueError: token was created in a different Context"
    lines = [json.dumps({"event": "running"}), json.dumps({"event": "a call failed unexpectedly", "exception": trace})]
    (tmp_path / "policy.log").write_text("\n".join([*lines, lines[1]]))
    (tmp_path / "submission.log.1").write_text("Timeout (0:00:10)!\n")
    (tmp_path / "scheduler.log").write_text(lines[0])
    (tmp_path / "kafka.log").write_text(trace)
    found = complaints.read(tmp_path)
    assert found == [
        "policy.log: a call failed unexpectedly: ValueError: token was created in a different Context (2 times)",
        "submission.log.1: Timeout (0:00:10)! (1 times)",
    ]
    assert complaints.read(tmp_path, {"submission": 1}) == found[:1], "the run itself had stopped it for so long"
    verdict = judge(replace(CLEAN, complaints=found))
    assert verdict.complaints == tuple(found)
    assert not verdict.clean
