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
TABLE = re.compile(r"\bCREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)")
INDEX = re.compile(r"\bCREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)(?:IF NOT EXISTS )?(\w+)\s+ON (?:ONLY )?(\w+)")
DROPS = re.compile(r"\bDROP (?:INDEX|CONSTRAINT)\b")
LOCKING = {
    "muster_chassis/0004_ended_aggregates.sql": "builds two indexes of the outbox, drops one and two primary keys",
    "muster_scheduler/0006_ended.sql": "drops an index that only retention used",
    "muster_submission/0011_deleted_clusters.sql": "builds an index of the lists",
    "muster_submission/0012_ended.sql": "drops an index that only retention used",
}
"""Files of before 25 November 2026, when indexes came under the rule, and what they do to the tables of earlier files.

Databases have applied them, and an applied file never changes. A new file is not added here.
"""


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


def lock_rule(each: Migration) -> list[str]:
    """What keeps other sessions from a table that is in use, or removes an index or a constraint that they rely on."""
    sql = "\n".join(line for line in each.sql.splitlines() if not line.startswith("--"))
    made = set(TABLE.findall(sql))
    found = [
        f"{each.name}: the index {index} locks {table}, which an earlier file made; build it with CONCURRENTLY, in a "
        "file that begins with `-- concurrently`"
        for index, table in INDEX.findall(sql)
        if table not in made
    ]
    if (dropped := DROPS.search(sql)) and not each.needs:
        found.append(f"{each.name}: `{dropped[0]}` needs a line `-- contract: needs NNNN`")
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_file_leaves_what_an_older_release_uses(folder: Path) -> None:
    migrations = list(load(folder.parent.name, folder))
    assert migrations
    assert rule(migrations) == []
    found = {f"{each.room}/{each.name}": lock_rule(each) for each in migrations}
    assert {name: what for name, what in found.items() if what and name not in LOCKING} == {}
    grandfathered = {name for name in LOCKING if name.startswith(f"{folder.parent.name}/")}
    assert {name for name, what in found.items() if what} == grandfathered
    assert all(each.outside is not None for each in migrations)


def test_what_would_break_an_older_release_is_found() -> None:
    first = Migration("r", 1, "0001_a.sql", "CREATE TABLE a (b text); CREATE FUNCTION f() RETURNS void AS $$ $$;")
    drops = Migration("r", 2, "0002_b.sql", "ALTER TABLE a DROP COLUMN b;")
    changes = Migration("r", 2, "0002_b.sql", "CREATE OR REPLACE FUNCTION f() RETURNS void AS $$ $$;")
    contracts = Migration("r", 2, "0002_b.sql", "-- contract: needs 0001\nALTER TABLE a DROP COLUMN b;")
    assert rule([first, drops]) == ["0002_b.sql: `DROP COLUMN` needs a first line `-- contract: needs NNNN`"]
    assert rule([first, changes]) == ["0002_b.sql: f exists; a changed function gets a new name"]
    assert rule([first, contracts]) == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE INDEX i ON a (b);", "the index i locks a"),
        ("CREATE UNIQUE INDEX i\n    ON a (b);", "the index i locks a"),
        ("CREATE INDEX IF NOT EXISTS i ON ONLY a (b);", "the index i locks a"),
        ("DROP INDEX i;", "`DROP INDEX` needs"),
        ("-- concurrently\nDROP INDEX CONCURRENTLY i;", "`DROP INDEX` needs"),
        ("ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (b);", "`DROP CONSTRAINT` needs"),
        ("CREATE TABLE a (b text);\nCREATE INDEX i ON a (b);", ""),
        ("-- concurrently\nCREATE INDEX CONCURRENTLY i ON a (b);", ""),
        ("-- contract: needs 0001\nDROP INDEX i;", ""),
        ("-- concurrently\n-- contract: needs 0001\nDROP INDEX CONCURRENTLY i;", ""),
        ("-- contract: needs 0001\nALTER TABLE a DROP CONSTRAINT c;", ""),
        ("-- DROP INDEX i comes with the next release\nCREATE TABLE c (b text);", ""),
    ],
)
def test_what_would_lock_a_table_in_use_is_found(sql: str, found: str) -> None:
    told = lock_rule(Migration("r", 2, "0002_b.sql", sql))
    assert [line for line in told if found and found in line] == told
    assert bool(told) == bool(found)


def test_a_file_of_indexes_may_contract() -> None:
    both = Migration("r", 2, "0002_b.sql", "-- concurrently\n-- contract: needs 0001\nDROP INDEX CONCURRENTLY j;\n")
    assert both.needs == 1
    assert [(change.name, change.dropped) for change in both.outside] == [("j", True)]


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
