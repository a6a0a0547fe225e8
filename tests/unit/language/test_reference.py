"""The committed reference page is what the catalogue says."""

from __future__ import annotations

from pathlib import Path

from muster_language import catalogue
from muster_language.schemas.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "workload-language.md"


def test_the_page_is_up_to_date() -> None:
    again = "write it anew: python -m muster_language.schemas.reference > docs/workload-language.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), again


def test_every_field_stands_there() -> None:
    page = reference()
    for row in catalogue().rows:
        assert row.description in page
