"""The scheduler's tables in memory: understands exactly the statements of the store; a rebuild needs no server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from muster_scheduler.adapters import changes, following, postgres, retired

_SETS = {
    postgres._CLUSTERS: ("clusters", ("id", "body"), 1),
    postgres._NODES: ("nodes", ("cluster", "name", "body"), 2),
    postgres._OBJECTS: ("namespace_objects", ("cluster", "namespace", "body"), 2),
    postgres._PARTS: (
        "inventory_parts",
        ("cluster", "number", "start", "sequence", "total", "digest", "checksum", "body"),
        2,
    ),
    postgres._PROJECTS: ("projects", ("name", "body"), 1),
    postgres._DEPARTMENTS: ("departments", ("name", "body"), 1),
    postgres._USAGE: ("usage", ("project", "pool", "body"), 2),
    postgres._POOLS: ("node_pools", ("id", "body"), 1),
    postgres._REQUESTS: ("requests", ("workload", "generation", "body", "added", "spec"), 2),
    postgres._REPLICAS: (
        "replicas",
        ("workload", "generation", "attempt", "role", "rank", "k", "place", "body"),
        6,
    ),
}
_OVER = {
    postgres._NODES_OVER: ("nodes", 2),
    postgres._OBJECTS_OVER: ("namespace_objects", 2),
    postgres._REPLICAS_OVER: ("replicas", 6),
    postgres._USAGE_OVER: ("usage", 2),
}
_GONE = {
    postgres._PARTS_OVER: "inventory_parts",
    postgres._PROJECTS_OVER: "projects",
    postgres._DEPARTMENTS_OVER: "departments",
    postgres._POOLS_OVER: "node_pools",
    postgres._RELEASED: "quarantine",
}
_NAMED = {
    following.WORKLOADS: ("id",),
    following.REQUESTS: ("workload",),
    following.REPLICAS: ("workload",),
    following.NODES: ("cluster", "name"),
    following.OBJECTS: ("cluster", "namespace"),
    following.USAGE: ("project", "pool"),
    following.CLUSTERS: ("id",),
    following.PARTS: ("cluster",),
    following.PROJECTS: ("name",),
    following.DEPARTMENTS: ("name",),
    following.POOLS: ("id",),
    following.QUARANTINE: ("workload",),
}
_WORKLOAD = ("id", "project", "name", "phase", "desired", "generation", "attempt")


@dataclass
class Tables:
    """Rows by table and key."""

    rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)
    _changes: list[dict[str, Any]] = field(default_factory=lambda: [{"seq": 0, "keys": "{}"}])

    async def execute(self, sql: str, *columns: Any) -> None:  # noqa: C901 - one branch a statement
        """Writes what a statement of the store would write."""
        if sql in _SETS:
            table, names, key = _SETS[sql]
            for line in zip(*columns, strict=True):
                self._put(table, line[:key], dict(zip(names, line, strict=True)))
        elif sql in _OVER:
            table, key = _OVER[sql]
            for line in zip(*columns, strict=True):
                self.rows.get(table, {}).pop(line[:key], None)
        elif sql == postgres._WORKLOADS:
            *plain, _, bodies = columns
            for *row, body in zip(*plain, bodies, strict=True):
                self._put("workloads", (row[0],), dict(zip(_WORKLOAD, row, strict=True)) | {"body": body})
        elif sql == postgres._QUARANTINED:
            self._set_aside(*columns)
        elif sql == postgres._RETIRE:
            self._retire(*columns)
        elif sql == changes.WRITE:
            self._changes.append({"seq": len(self._changes), "keys": columns[1]})
        elif sql in _GONE:
            rows = self.rows.get(_GONE[sql], {})
            for over in [one for one in rows if one[0] in columns[0]]:
                del rows[over]
        else:
            raise AssertionError(f"the store's fake does not know: {sql}")

    def _retire(self, ids: list[str], delete_at: list[datetime | None]) -> None:
        for workload, at in zip(ids, delete_at, strict=True):
            row = self.rows["workloads"].pop((workload,))
            requests = self.rows.get("requests", {})
            asked = requests.get((workload, row["generation"]), {})
            for key in [key for key in requests if key[0] == workload]:
                del requests[key]
            kept = {
                "request": asked.get("body"),
                "added": asked.get("added", ""),
                "spec": asked.get("spec"),
                "delete_at": at,
            }
            self._put("retired", (workload,), row | kept)

    def _set_aside(self, *columns: Any) -> None:
        for workload, error, trace, at in zip(*columns, strict=True):
            found = {"error": error, "trace": trace, "at": datetime.fromtimestamp(at / 1e6, UTC)}
            self._put("quarantine", (workload,), {"workload": workload} | found)

    def _put(self, table: str, key: tuple[Any, ...], row: dict[str, Any]) -> None:
        self.rows.setdefault(table, {})[key] = row

    @asynccontextmanager
    async def transaction(self, *, isolation: str, readonly: bool) -> AsyncIterator[None]:
        """Nobody else writes: all that is read is of one moment anyway."""
        assert (isolation, readonly) == ("repeatable_read", True), "`load` reads, and all of one moment"
        yield

    async def fetch(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        """The rows that a statement of `load` reads: all of a table, or those of a stretch of workloads, by id.

        Also those that a follower reads: the changes from one on, or the rows of some keys.
        """
        if sql == retired.REVIVE:
            rows = self.rows.get("retired", {})
            return [rows.pop((workload,)) for workload in arguments[0] if (workload,) in rows]
        if sql == following.EPOCH:
            return [{"epoch": 0}]
        if sql in (following.LAST, following.SINCE):
            return self._changes[arguments[0] :] if arguments else self._changes[-1:]
        table = sql.split("FROM ")[1].split(maxsplit=1)[0]
        found = self.rows.get(table, {}).values()
        if not arguments:
            return list(found)
        if named := _NAMED.get(sql):
            wanted = set(zip(*arguments, strict=True))
            return [row for row in found if tuple(row[name] for name in named) in wanted]
        key = "id" if table == "workloads" else "workload"
        after = sorted((row for row in found if str(row[key]) > arguments[0]), key=lambda row: str(row[key]))
        if table == "workloads":
            return after[: arguments[1]]
        return [row for row in after if str(row[key]) <= arguments[1]]


@dataclass
class TablesUnit:
    """A unit of work on the tables."""

    connection: Tables
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    ended: set[str] = field(default_factory=set)

    def mark_ended(self, aggregates: Iterable[str]) -> None:
        """Keeps what is over."""
        self.ended.update(aggregates)
