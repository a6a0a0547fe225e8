"""What the keeper reads off a log: whether the process ended because its event loop stood still."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_stack.keeper.logs import last_lines, stood_still

STACKS = 'Timeout (0:00:10)!\nThread 0x00007f (most recent call first):\n  File "a.py", line 3 in parse_gpu\n'


@pytest.mark.parametrize(
    ("written", "still"),
    [
        (STACKS, True),
        ('{"event": "running"}\n' + STACKS, True),
        (STACKS + '{"event": "running"}\n', False),  # an earlier life
        ('{"event": "running"}\n', False),
        ("", False),
    ],
)
def test_the_last_words_of_a_stalled_process_are_its_stacks(tmp_path: Path, written: str, still: bool) -> None:
    log = tmp_path / "submission.log"
    log.write_text(written)
    assert stood_still(log) is still
    assert ("parse_gpu" in last_lines(log)) is (STACKS in written)


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert not stood_still(tmp_path / "none.log")
