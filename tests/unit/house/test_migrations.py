"""Migrations expand: what an older release uses stays until a file says that it contracts (docs/decisions/0011)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from muster_chassis.migrations import Migration, MigrationError, load

SERVICES = Path(__file__).resolve().parents[3] / "services"
FOLDERS = sorted(SERVICES.glob("*/muster_*/migrations"))
REMOVES = re.compile(r"\bDROP (?:TABLE|COLUMN|FUNCTION|VIEW|TYPE)\b|\bRENAME\b|\bALTER COLUMN \w+ (?:TYPE|SET NOT)\b")
FUNCTION = re.compile(r"\bCREATE (?:OR REPLACE )?FUNCTION (\w+)")
BEFORE_THE_RULE = {"0002_ended.sql", "0009_attempts.sql"}
"""Files of the time before the first release, which nothing older has to run on."""


def rule(migrations: list[Migration]) -> list[str]:
    """What older releases would trip over."""
    found = []
    named: Counter[str] = Counter()
    for each in migrations:
        sql = "\n".join(line for line in each.sql.splitlines() if not line.startswith("--"))
        if (removed := REMOVES.search(sql)) and not each.needs and each.name not in BEFORE_THE_RULE:
            found.append(f"{each.name}: `{removed[0]}` needs a first line `-- contract: needs NNNN`")
        names = set(FUNCTION.findall(sql))
        if each.name not in BEFORE_THE_RULE:
            found += [f"{each.name}: {name} exists; a changed function gets a new name" for name in names & set(named)]
        named.update(names)
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_file_leaves_what_an_older_release_uses(folder: Path) -> None:
    migrations = list(load(folder.parent.name, folder))
    assert migrations
    assert rule(migrations) == []
    assert all(each.outside is not None for each in migrations)


def test_what_would_break_an_older_release_is_found() -> None:
    first = Migration("r", 1, "0001_a.sql", "CREATE TABLE a (b text); CREATE FUNCTION f() RETURNS void AS $$ $$;")
    drops = Migration("r", 2, "0002_b.sql", "ALTER TABLE a DROP COLUMN b;")
    changes = Migration("r", 2, "0002_b.sql", "CREATE OR REPLACE FUNCTION f() RETURNS void AS $$ $$;")
    contracts = Migration("r", 2, "0002_b.sql", "-- contract: needs 0001\nALTER TABLE a DROP COLUMN b;")
    assert rule([first, drops]) == ["0002_b.sql: `DROP COLUMN` needs a first line `-- contract: needs NNNN`"]
    assert rule([first, changes]) == ["0002_b.sql: f exists; a changed function gets a new name"]
    assert rule([first, contracts]) == []


def test_a_file_cannot_contract_what_the_release_before_it_uses(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("CREATE TABLE a (b text);")
    (tmp_path / "0002_b.sql").write_text("-- contract: needs 0002\nALTER TABLE a DROP COLUMN b;")
    with pytest.raises(MigrationError, match="expand in one release and contract in the next"):
        load("r", tmp_path)


def test_a_file_of_indexes_holds_nothing_else() -> None:
    both = "-- concurrently\nCREATE INDEX CONCURRENTLY i ON a (b);\n-- why\nDROP INDEX CONCURRENTLY j;\n"
    changes = Migration("r", 1, "0001_a.sql", both).outside
    assert [(change.name, change.dropped) for change in changes] == [("i", False), ("j", True)]
    with pytest.raises(MigrationError, match="may hold CREATE INDEX"):
        _ = Migration("r", 1, "0001_a.sql", "-- concurrently\nCREATE TABLE a (b text);").outside
