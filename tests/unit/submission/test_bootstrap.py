"""The file of a first application: what it has to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster_submission.handlers.bootstrap import read_first

_GOOD = {"id": "00000000-0000-4000-8000-000000000000", "secret": "s" * 32, "role": "system-admin"}


@pytest.mark.parametrize(
    "change", [{"id": "x"}, {"secret": "short"}, {"role": "owner"}, {"more": 1}, {"secret": None}, {"id": 7}]
)
def test_a_file_that_cannot_be_meant_stops_the_process(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "admin.json"
    path.write_text(json.dumps(_GOOD | change))
    with pytest.raises(ValueError, match=r"admin\.json"):
        read_first(path)


def test_a_file_with_an_id_a_secret_and_a_role_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "admin.json"
    path.write_text(json.dumps(_GOOD))
    assert read_first(path).role == "system-admin"
