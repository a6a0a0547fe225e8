"""What docs/guides/operate.md names is there: metrics, settings, tables, and the times after which rows go."""

from __future__ import annotations

import re
from pathlib import Path

from muster_chassis.settings import DatabaseSettings
from muster_scheduler import app
from muster_scheduler.domain.asked.limits import RETIRE_AFTER
from muster_scheduler.domain.asked.workloads import SECOND
from muster_submission.settings import SubmissionSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/guides/operate.md").read_text(encoding="utf-8")
CODE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "services").glob("*/muster_*/**/*.py"))


def test_every_metric_is_one_that_a_process_has() -> None:
    named = set(re.findall(r"\bmuster_[a-z_]+[a-z]\b", PAGE))
    assert len(named) >= 10
    assert [name for name in sorted(named) if f'"{name}"' not in CODE] == []


def test_every_setting_is_one_that_a_service_reads() -> None:
    named = {name.removeprefix("MUSTER_").lower() for name in re.findall(r"\bMUSTER_[A-Z_]+\b", PAGE)}
    assert named
    assert named <= SubmissionSettings.model_fields.keys()


def test_rows_go_when_the_page_says_so() -> None:
    week = DatabaseSettings.model_fields["retention_seconds"].default / 86400
    said = dict(re.findall(r"\(`(\w+)`\) \| after (\d+) (?:days|minutes)", PAGE))
    assert float(said["inbox"]) == 2 * week
    assert float(said["changes"]) * 60 == app._CHANGES_KEPT.total_seconds()
    assert f"| {RETIRE_AFTER // SECOND // 60} minutes after they ended" in PAGE
    assert f"| {week:.0f} days after submission archived their workload, {2 * week:.0f} days after its end" in PAGE
    assert f"| {2 * week:.0f} days after submission archived the workload" in PAGE
    assert f"without that event {4 * week:.0f} days after it ended" in PAGE
