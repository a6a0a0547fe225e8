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
