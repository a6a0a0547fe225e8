"""Sealed credentials in PostgreSQL: rows of cipher text, by reference and by holder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import asyncpg

from muster_chassis.connection import affected
from muster_chassis.unit import Unit
from muster_submission.adapters.archive import PostgresArchive
from muster_submission.domain.secrets import Sealed, SecretRef

_COLUMNS: Final = "id::text AS id, version, holder::text AS holder, key, nonce, cipher"
_KEEP: Final = """
INSERT INTO secrets (id, version, holder, key, nonce, cipher, at)
SELECT u.*, $7 FROM unnest($1::uuid[], $2::integer[], $3::uuid[], $4::text[], $5::bytea[], $6::bytea[]) AS u
"""
_FIND: Final = f"""
SELECT {_COLUMNS} FROM secrets JOIN unnest($1::uuid[], $2::integer[]) AS u(id, version) USING (id, version)
"""  # noqa: S608 - constants only
_OF_WORKLOAD: Final = """
SELECT s.id::text AS id, s.version, s.holder::text AS holder, s.key, s.nonce, s.cipher
FROM workloads w LEFT JOIN secrets s ON s.holder = w.id
WHERE w.id = $1 AND w.cluster = $2 AND NOT w.gone ORDER BY s.id, s.version
"""
_STANDING: Final = "SELECT id::text AS id, gone FROM workloads WHERE id = ANY($1::uuid[])"
_ONLY: Final = """
DELETE FROM secrets WHERE holder = $1
AND NOT (id, version) IN (SELECT * FROM unnest($2::uuid[], $3::integer[]))
"""
_FORGET: Final = """
DELETE FROM secrets WHERE (id, version) IN (
    SELECT s.id, s.version FROM secrets s JOIN workloads w ON w.id = s.holder WHERE w.gone LIMIT $1
)
"""
_OLD: Final = f"""
SELECT {_COLUMNS} FROM secrets WHERE key <> $1 ORDER BY id, version LIMIT $2 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - constants only
_RENEW: Final = """
UPDATE secrets s SET key = u.key, nonce = u.nonce, cipher = u.cipher
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bytea[], $5::bytea[]) AS u(id, version, key, nonce, cipher)
WHERE (s.id, s.version) = (u.id, u.version)
"""


class PostgresSecrets:
    """The books of sealed credentials."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def keep(self, unit: Unit, sealed: Sequence[Sealed]) -> None:
        """Writes new ones."""
        await unit.connection.execute(
            _KEEP,
            [one.ref.id for one in sealed],
            [one.ref.version for one in sealed],
            [one.holder for one in sealed],
            [one.key for one in sealed],
            [one.nonce for one in sealed],
            [one.cipher for one in sealed],
            unit.now,
        )

    async def find(self, unit: Unit, refs: Iterable[SecretRef]) -> dict[SecretRef, Sealed]:
        """Those of the references that are there."""
        wanted = list(refs)
        rows = await unit.connection.fetch(_FIND, [one.id for one in wanted], [one.version for one in wanted])
        return {one.ref: one for one in map(_sealed, rows)}

    async def keep_only(self, unit: Unit, holder: str, refs: Iterable[SecretRef]) -> None:
        """Removes what a holder has besides these."""
        kept = list(refs)
        await unit.connection.execute(_ONLY, holder, [one.id for one in kept], [one.version for one in kept])

    async def spec_of(self, unit: Unit, workload_id: str) -> bytes | None:
        """The own layer of a workload as it is kept, references and all."""
        found: bytes | None = await unit.connection.fetchval(
            "SELECT spec FROM workload_specs WHERE workload_id = $1", workload_id
        )
        return found

    async def of_workload(self, workload_id: str, cluster: str) -> Sequence[Sealed] | None:
        """What a workload holds, for the cluster that it is placed on; None where it is not placed there."""
        rows = await self._pool.fetch(_OF_WORKLOAD, workload_id, cluster)
        return [_sealed(row) for row in rows if row["id"] is not None] if rows else None

    async def deleted(self, workload_ids: Sequence[str]) -> dict[str, bool]:
        """Whether each workload that is known is Deleted; archived ones are known."""
        rows = await self._pool.fetch(_STANDING, list(workload_ids))
        found = {row["id"]: bool(row["gone"]) for row in rows}
        missing = [one for one in workload_ids if one not in found]
        return found | (await PostgresArchive(self._pool).standing(missing) if missing else {})

    async def old(self, unit: Unit, current: str, at_most: int) -> Sequence[Sealed]:
        """Some that are sealed with another key than the current one, locked."""
        return [_sealed(row) for row in await unit.connection.fetch(_OLD, current, at_most)]

    async def renew(self, unit: Unit, sealed: Sequence[Sealed]) -> None:
        """Writes locked ones that were sealed anew."""
        await unit.connection.execute(
            _RENEW,
            [one.ref.id for one in sealed],
            [one.ref.version for one in sealed],
            [one.key for one in sealed],
            [one.nonce for one in sealed],
            [one.cipher for one in sealed],
        )

    async def forget(self, at_most: int) -> bool:
        """Remove at most `at_most` credentials of workloads that are Deleted; return whether there may be more."""
        return affected(await self._pool.execute(_FORGET, at_most)) == at_most


def _sealed(row: Any) -> Sealed:
    return Sealed(SecretRef(row["id"], row["version"]), row["holder"], row["key"], row["nonce"], row["cipher"])
