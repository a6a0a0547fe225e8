"""What `muster up -d` says while the stack comes up."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster_stack.commands import _Progress
from muster_stack.layout import Layout


def test_each_part_is_named_once_when_it_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell = _Progress(Layout.of(tmp_path))
    tell({"services": {"kafka": {"state": "ready"}, "policy": {"state": "starting"}}})
    tell({"services": {"kafka": {"state": "ready"}, "policy": {"state": "ready"}}})
    seen = capsys.readouterr()
    first, *lines = seen.err.splitlines()
    assert str(tmp_path) in first
    assert [line.split(" s  ")[1] for line in lines] == ["kafka is ready", "policy is ready"]
    assert not seen.out


def test_a_part_that_is_late_is_named_with_each_of_its_reasons_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((0.0, 1.0, 20.0, 21.0, 30.0))
    tell = _Progress(Layout.of(tmp_path), lambda: next(clock))
    for why in ("awaiting topics", "restored: empty Kafka", "restored: empty Kafka", ""):
        tell({"services": {"scheduler": {"state": "starting", "why": why}}})
    _, *lines = capsys.readouterr().err.splitlines()
    assert lines == ["   20.0 s  scheduler waits: restored: empty Kafka"]
