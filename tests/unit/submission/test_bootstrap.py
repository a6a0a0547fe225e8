"""The file of a first application: what it has to say."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from muster_submission.handlers.bootstrap import read_first
from tests.support.doors import settings

_GOOD = {"id": "00000000-0000-4000-8000-000000000000", "secret": "s" * 32, "role": "system-admin"}


@pytest.mark.parametrize(
    "change", [{"id": "x"}, {"secret": "short"}, {"role": "owner"}, {"more": 1}, {"secret": None}, {"id": 7}]
)
def test_a_file_that_cannot_be_meant_stops_the_process(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "admin.json"
    path.write_text(json.dumps(_GOOD | change))
    with pytest.raises(ValueError, match=r"admin\.json"):
        read_first(path)


def test_a_file_that_others_can_read_stops_the_process_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "admin.json"
    path.write_text(json.dumps(_GOOD))
    path.chmod(0o640)
    nowhere: Any = SimpleNamespace(url=lambda _: "postgresql://nowhere")
    with pytest.raises(ValidationError, match=rf"{path} holds a secret and has mode 0640.*chmod 600"):
        settings(nowhere, "127.0.0.1:1", auth_first_applications=(path,))
    path.chmod(0o600)
    assert settings(nowhere, "127.0.0.1:1", auth_first_applications=(path,)).auth_first_applications == (path,)


def test_a_file_with_an_id_a_secret_and_a_role_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "admin.json"
    path.write_text(json.dumps(_GOOD))
    assert read_first(path).role == "system-admin"
