"""What a soak counts as given twice: a replica that still ran at the last look has ended by the time it is judged."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from muster_stack.layout import Layout
from tests.ageing.soak import Soak, judged

_DEVICE = {"uuid": "GPU-1"}


def _record(name: str, *moments: float) -> dict[str, Any]:
    """A replica that has the whole device from the first moment to the last one, in seconds."""
    spec = {"name": name, "workload_id": name, "generation": 1, "attempt": 1, "devices": [_DEVICE]}
    events = [{"event": word, "monotonic": at} for word, at in zip(("started", "gone"), moments, strict=False)]
    return {"spec": spec, "journal": events}


def _history(layout: Layout, *records: dict[str, Any]) -> None:
    folder = layout.agent("alpha")
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / "draft"
    draft.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    draft.replace(folder / "history.jsonl")  # as an agent that cuts it


def _soak(layout: Layout) -> Soak:
    layout.logs.mkdir(parents=True)
    stack: Any = SimpleNamespace(layout=layout)
    return Soak(stack, 0.0, 0.0)


def test_what_ends_after_the_last_look_is_not_given_twice(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    soak = _soak(layout)
    _history(layout, _record("first", 1.0), _record("second", 3.0))
    soak.look_at_journals()
    _history(layout, _record("first", 1.0, 2.0), _record("second", 3.0, 4.0))
    assert judged(soak).double_allocated == ()


def test_what_was_given_twice_is_found(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    soak = _soak(layout)
    _history(layout, _record("first", 1.0, 5.0), _record("second", 3.0, 4.0))
    assert len(judged(soak).double_allocated) == 1
