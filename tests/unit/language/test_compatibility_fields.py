"""docs/compatibility-fields.md is fresh, has a row for each row of the tables, and names tests that are there."""

from __future__ import annotations

from muster_language import catalogue
from tests.support import compatibility_fields as fields
from tests.support.tables import table


def test_the_page_is_fresh() -> None:
    told = "run `uv run python -m tests.support.compatibility_fields`"
    assert fields.PAGE.read_text(encoding="utf-8") == fields.page(), told


def test_every_row_of_the_tables_is_there() -> None:
    page = fields.page()
    names = [row["field"] for name in ("fields", "rest_fields", "colossal_fields") for row in table(name)]
    missing = [name for name in names if not name.startswith("masterSpec.") and f"| `{name}` |" not in page]
    assert missing == []
    paths = [row["field"] for row in table("policy_rules")]
    told = [path for path in paths if not path.startswith("master.") and f"| `{_plain(path, page)}` |" in page]
    assert [path for path in paths if not path.startswith("master.") and path not in told] == []


def _plain(path: str, page: str) -> str:
    return path if f"| `{path}` |" in page else path.removeprefix("worker.")


def test_every_row_works_or_says_why_not() -> None:
    for line in fields.page().splitlines():
        if line.startswith("| `") and "tests/" not in line:
            assert "works" in line or "refused: " in line, line


def test_the_tests_that_it_names_are_there() -> None:
    assert [path for path, _ in fields.TESTS.values() if not (fields.ROOT / path).exists()] == []
    used = {letter for row in catalogue().rows for letter in fields.tests_of(row).split() if len(letter) == 1}
    assert used <= set(fields.TESTS)
