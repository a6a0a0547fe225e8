"""The policies and their versions in PostgreSQL.

Holds: the lock is an advisory one of the transaction, because those queue fairly: a writer that waits is not passed by
readers that come later, as row locks would let them. The revision is read in a statement of its own after the lock; in
one statement with it the snapshot would be older than the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster_chassis.unit import Unit
from muster_language import Kind
from muster_policy.domain.standing import Row
from muster_policy.ports import Written
from muster_policy_engine.documents.document import KINDS
from muster_policy_engine.policy import Level, Scope

_SHARE: Final = "SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || '.policies', 0))"
_TAKE: Final = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.policies', 0))"
_REVISION: Final = "SELECT number FROM revision"
_ROW: Final = (
    "id, workload, level, unit, name, version, revision, document, source, created_at, created_by, updated_at, "
    "updated_by, gone"
)
_NEWER: Final = f"SELECT {_ROW} FROM policies WHERE revision > $1 ORDER BY revision"  # noqa: S608 - names of columns
_WRITE: Final = f"""
INSERT INTO policies ({_ROW}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, version = excluded.version, revision = excluded.revision, document = excluded.document,
    source = excluded.source, updated_at = excluded.updated_at, updated_by = excluded.updated_by, gone = excluded.gone
"""  # noqa: S608 - names of columns
_VERSION: Final = """
INSERT INTO policy_versions (policy, version, name, document, source, author, channel, reason, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_VERSIONS: Final = """
SELECT p.id, p.workload, p.level, p.unit, v.name, v.version, p.revision, v.document, v.source, p.created_at,
       p.created_by, v.at AS updated_at, v.author AS updated_by, v.document = '' AS gone, v.channel, v.reason
FROM policy_versions v JOIN policies p ON p.id = v.policy WHERE v.policy = $1 ORDER BY v.version DESC
"""


class PostgresPolicies:
    """The store of one instance."""

    async def share(self, unit: Unit) -> int:
        """Keeps writes out until the unit ends. Returns the revision."""
        await unit.connection.execute(_SHARE)
        return await self.revision(unit)

    async def take(self, unit: Unit) -> int:
        """Keeps all others out until the unit ends. Returns the revision."""
        await unit.connection.execute(_TAKE)
        return await self.revision(unit)

    async def revision(self, unit: Unit) -> int:
        """The revision, without a promise that it stays."""
        return int(await unit.connection.fetchval(_REVISION))

    async def newer(self, unit: Unit, revision: int) -> list[Row]:
        """The rows of later revisions, those of removed policies included."""
        return [_row(each) for each in await unit.connection.fetch(_NEWER, revision)]

    async def write(self, unit: Unit, revision: int, written: Sequence[Written]) -> None:
        """Writes versions of policies under the next revision."""
        await unit.connection.execute("UPDATE revision SET number = $1", revision)
        # What is removed first: another policy may take its kind and scope in the same write.
        for each in sorted(written, key=lambda one: not one.row.gone):
            row = each.row
            await unit.connection.execute(
                _WRITE,
                row.id,
                row.kind.word,
                row.scope.level,
                row.scope.unit,
                row.name,
                row.version,
                row.revision,
                row.document,
                row.source,
                row.created_at,
                row.created_by,
                row.updated_at,
                row.updated_by,
                row.gone,
            )
        await unit.connection.executemany(
            _VERSION,
            [
                (
                    each.row.id,
                    each.row.version,
                    each.row.name,
                    "" if each.row.gone else each.row.document,
                    each.row.source,
                    each.author,
                    each.channel,
                    each.reason,
                    each.row.updated_at,
                )
                for each in written
            ],
        )

    async def versions(self, unit: Unit, policy: str) -> list[Written]:
        """Every version of a policy, the newest first; none where there is no such policy."""
        found = await unit.connection.fetch(_VERSIONS, policy)
        return [Written(_row(each), each["updated_by"], each["channel"], each["reason"]) for each in found]


def _row(row: Any) -> Row:
    kind: Kind = KINDS[row["workload"]]
    return Row(
        str(row["id"]),
        kind,
        Scope(Level(row["level"]), row["unit"]),
        row["name"],
        row["version"],
        row["revision"],
        row["document"],
        row["source"],
        row["created_at"],
        row["created_by"],
        row["updated_at"],
        row["updated_by"],
        row["gone"],
    )
