"""What docs/guides/operate.md names is there: metrics, settings, tables, and the times after which rows go."""

from __future__ import annotations

import re
from pathlib import Path

from muster_chassis import retention
from muster_chassis.settings import ServiceSettings
from muster_scheduler import app
from muster_scheduler.domain.asked.limits import FORGET_AFTER, RETIRE_AFTER
from muster_scheduler.domain.asked.workloads import SECOND

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
    assert named <= ServiceSettings.model_fields.keys()


def test_rows_go_when_the_page_says_so() -> None:
    days = {table: kept.total_seconds() / 86400 for table, _, kept in retention._AGED}
    said = dict(re.findall(r"\(`(\w+)`\) \| after (\d+) (?:days|minutes)", PAGE))
    assert (float(said["inbox"]), days["idempotency"]) == (days["inbox"], 1)
    assert float(said["changes"]) * 60 == app._CHANGES_KEPT.total_seconds()
    assert f"| {RETIRE_AFTER // SECOND // 60} minutes after they ended" in PAGE
    assert f"| {FORGET_AFTER // SECOND // 86400} days after their workload was Deleted" in PAGE
    assert f"| {retention._OUTBOX_KEPT.days} days after their workload was Deleted" in PAGE
