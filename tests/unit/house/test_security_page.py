"""The page on security names tests and attacks that exist, and every row of the findings is attacked."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from tests.attacks.catalogue import ROWS, attacks

_ROOT: Final = Path(__file__).resolve().parents[3]
_PAGE: Final = (_ROOT / "docs" / "guides" / "security.md").read_text()
_NOT_ATTACKED: Final = {
    "A12": "the embedded stack serves no TLS: tests/rules/test_attacks_gateway.py plays the relay",
    "A16": "rotation is a verb: tests/integration/stack/test_guarded_kafka.py and tests/unit/stack/test_rotation.py",
}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", _PAGE))))
def test_a_named_file_of_tests_exists(path: str) -> None:
    assert (_ROOT / path).is_file()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", _PAGE))))
def test_a_named_test_exists(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in (_ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("pattern", sorted(set(re.findall(r"attacks? `([-\w*]+)`", _PAGE))))
def test_a_named_attack_exists(pattern: str) -> None:
    assert any(fnmatch(attack.name, pattern) for attack in attacks())


def test_every_row_is_attacked_or_says_why_not() -> None:
    assert {attack.row for attack in attacks()} == ROWS - set(_NOT_ATTACKED)
