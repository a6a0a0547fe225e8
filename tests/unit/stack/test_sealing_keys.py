"""The stack's keys for credentials: made once, for their owner alone, as submission reads them."""

from __future__ import annotations

import stat
from pathlib import Path

from muster_stack.sealing_keys import ensure
from muster_submission.adapters.vault import read_keys


def test_a_key_is_made_once_and_submission_reads_it(tmp_path: Path) -> None:
    path = ensure(tmp_path / "sealing-keys")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_text()
    assert ensure(path).read_text() == first
    assert read_keys(path).current == first.split()[0]
    assert [one.name for one in tmp_path.iterdir()] == ["sealing-keys"]
