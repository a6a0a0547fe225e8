"""The guide to credentials: its document reads, and its keys are keys."""

from __future__ import annotations

import re
from pathlib import Path

from muster_language import read
from muster_language.sensitive import places
from muster_submission.adapters.vault import read_keys

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "secrets.md").read_text()


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", GUIDE, flags=re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_document_holds_a_credential() -> None:
    (document,) = read(block("yaml"))
    assert document.violations == []
    assert [(place.path, place.literal) for place in places(document.spec)] == [(("notebook_token",), True)]


def test_the_keys_are_read(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(block("text"))
    keys = read_keys(tmp_path / "keys")
    assert keys.current == "2026-11"
    assert set(keys.by_id) == {"2026-11", "2026-05"}
