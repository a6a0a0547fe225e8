"""Since when a log was written: whole lines, to the second, bounded, and nothing that is newer is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.adapters.local import log_times, logfile
from muster_cluster_agent.adapters.local.log_times import TimesWriter, find_position
from muster_cluster_agent.adapters.local.logfile import LogWriter, position_since, read_from


class Clock:
    """A wall clock that a test sets."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def _writer(folder: Path, clock: Clock, budget: int = 1 << 20) -> LogWriter:
    writer = LogWriter(str(folder), budget)
    writer._times = TimesWriter(str(folder), clock)
    return writer


def _since(folder: Path, moment: float) -> bytes:
    position, found = position_since(str(folder), moment), b""
    while piece := read_from(str(folder), position, 4096)[1]:
        position, found = read_from(str(folder), position, 4096)[0], found + piece
    return found


def test_lines_since_a_moment_are_whole(tmp_path: Path) -> None:
    clock = Clock()
    writer = _writer(tmp_path, clock)
    writer.write(b"first\nsec")
    clock.now = 1010.0
    writer.write(b"ond\nthird\n")
    clock.now = 1020.0
    writer.write(b"fourth\n")
    assert _since(tmp_path, 900.0) == b"first\nsecond\nthird\nfourth\n"
    assert _since(tmp_path, 1005.0) == b"second\nthird\nfourth\n"
    assert _since(tmp_path, 1020.5) == b"fourth\n"
    assert _since(tmp_path, 1030.0) == b""
    assert position_since(str(tmp_path), 1030.0) == len(b"first\nsecond\nthird\nfourth\n")


@given(
    gaps=st.lists(st.floats(0, 5), min_size=1, max_size=40),
    asked=st.floats(-1, 210),
)
def test_nothing_that_is_newer_is_left_out_and_nothing_much_older_comes(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[float], asked: float
) -> None:
    folder, clock = tmp_path_factory.mktemp("log"), Clock()
    writer, written = _writer(folder, clock), list[float]()
    for gap in gaps:
        clock.now += gap
        writer.write(f"{len(written)}\n".encode())
        written.append(clock.now)
    moment = 1000.0 + asked
    shown = [int(line) for line in _since(folder, moment).splitlines()]
    assert shown == list(range(len(written) - len(shown), len(written)))
    newer = [number for number, at in enumerate(written) if at >= moment]
    assert set(newer) <= set(shown)
    assert moment <= written[0] or all(written[number] > moment - 2 for number in shown)


def test_a_clock_that_is_set_back_hides_nothing(tmp_path: Path) -> None:
    clock = Clock()
    writer = _writer(tmp_path, clock)
    writer.write(b"before\n")
    clock.now = 400.0
    writer.write(b"after\n")
    assert _since(tmp_path, 350.0) == b"before\nafter\n"


def test_pairs_are_bounded_and_the_older_half_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_times, "MOST", 8)
    clock = Clock()
    times = TimesWriter(str(tmp_path), clock)
    for number in range(30):
        clock.now += 1.0
        times.note(number * 10)
    size = (tmp_path / "times").stat().st_size
    assert size <= 8 * 16
    assert find_position(str(tmp_path), 1001.0) == 0, "so old that nothing is known: everything"
    assert find_position(str(tmp_path), 1030.0) == 290
    again = TimesWriter(str(tmp_path), clock)
    clock.now += 1.0
    again.note(300)
    assert find_position(str(tmp_path), clock.now) == 300


def test_times_of_dropped_segments_go_and_a_torn_pair_is_left_out(tmp_path: Path) -> None:
    clock = Clock()
    writer = _writer(tmp_path, clock, budget=16384)
    for number in range(100):
        clock.now += 1.0
        writer.write(f"{number:0999}\n".encode())
    first = logfile.segments(str(tmp_path))[0][0]
    pairs = log_times._read(str(tmp_path / "times"))
    assert len(pairs) < 25
    assert pairs[0][0] <= first < pairs[1][0]
    with (tmp_path / "times").open("ab") as file:
        file.write(b"torn")
    assert log_times._read(str(tmp_path / "times")) == pairs


def test_a_log_without_times_is_shown_whole(tmp_path: Path) -> None:
    writer = _writer(tmp_path, Clock())
    writer.write(b"a\nb\n")
    (tmp_path / "times").unlink()
    assert _since(tmp_path, 5000.0) == b"a\nb\n"


def test_what_hinders_the_times_costs_no_line(tmp_path: Path) -> None:
    writer = _writer(tmp_path, Clock())
    (tmp_path / "times").symlink_to(tmp_path / "elsewhere")
    writer.write(b"a\n")
    assert _since(tmp_path, 0.0) == b"a\n"
    assert not (tmp_path / "elsewhere").exists()
