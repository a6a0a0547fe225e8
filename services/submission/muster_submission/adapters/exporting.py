"""Months of the archive as Parquet files, for analysis with other tools.

The archiving task calls it before it drops a month, and `python -m muster_submission.export` calls it. A file is first
written under a temporary name, so that a file with the final name is complete. Holds: rows are read in batches, so that
memory does not depend on the number of rows; credentials are masked.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import asyncpg

from muster_chassis.database import TRANSIENT
from muster_kernel.lifecycle import Phase
from muster_language import write
from muster_language.spec import kind_of
from muster_submission.adapters import views
from muster_submission.adapters.archive import SOURCE
from muster_submission.domain import phases
from muster_submission.domain.archiving import Month
from muster_submission.errors import ExportFailed

_STRETCH: Final = 2_000
_READ: Final = f"""
SELECT {views.COLUMNS}, w.ended_at, w.last_phase, w.deleted_at, w.pods, w.submitted_by, w.template_id,
       w.template_version, w.gpu_seconds, w.history
FROM {SOURCE}
WHERE w.ended_at >= $1 AND w.ended_at < $2 AND (w.ended_at, w.id) > ($3, $4::uuid)
ORDER BY w.ended_at, w.id LIMIT $5
"""  # noqa: S608 - constants only
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"


class Exporter:
    """The writer of Parquet files."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def month(self, month: Month, folder: Path) -> None:
        """Write one month into a folder, as `archive-2026-11.parquet`. Raises ExportFailed.

        An existing file stays. Late rows of a month that was already removed get another file in the same folder, such
        as `archive-2026-11.2.parquet`.
        """
        file = folder / f"archive-{month}.parquet"
        for number in itertools.count(2):
            if not await asyncio.to_thread(file.exists):
                break
            file = folder / f"archive-{month}.{number}.parquet"
        await self.write(month.begin, month.end, file)

    async def write(self, since: datetime, before: datetime, file: Path) -> int:
        """Write workloads that ended between two times, and return their number. Raises ExportFailed.

        A failed export leaves no partial file.
        """
        partial = file.with_name(f".{file.name}.partial")
        try:
            return await self._write(since, before, file, partial)
        except OSError as error:  # pyarrow's own file errors are OSErrors too
            raise ExportFailed(f"{file}: {error.strerror or error}; make room there, or name another folder") from error
        except (*TRANSIENT, asyncpg.PostgresError):
            raise
        except Exception as error:  # a row that cannot be written must not end the service
            raise ExportFailed(f"{file}: {type(error).__name__}: {error}") from error
        finally:
            with suppress(OSError):  # the first error is already reported
                await asyncio.to_thread(partial.unlink, missing_ok=True)

    async def _write(self, since: datetime, before: datetime, file: Path, partial: Path) -> int:
        # Imported here: it takes 40 MB of memory, and only a process that writes such files needs it.
        from muster_submission.adapters.parquet import ParquetFile  # noqa: PLC0415

        written, sink = 0, await asyncio.to_thread(ParquetFile, partial)
        try:
            async for rows in self._stretches(since, before):
                await asyncio.to_thread(sink.add, [_shown(row) for row in rows])
                written += len(rows)
        finally:
            await asyncio.to_thread(sink.close)
        await asyncio.to_thread(sink.settle, file)
        return written

    async def _stretches(self, since: datetime, before: datetime) -> AsyncIterator[Sequence[Any]]:
        last, number = since, _FIRST_ID
        while rows := await self._pool.fetch(_READ, since, before, last, number, _STRETCH):
            yield rows
            last, number = rows[-1]["ended_at"], rows[-1]["id"]


def _shown(row: Any) -> dict[str, Any]:
    """Return a row of the file."""
    shown = views.workload(row)
    return {
        "id": row["id"],
        "project": row["project"],
        "name": row["name"],
        "kind": kind.document if (kind := kind_of(shown.spec)) else "",
        "phase": _phase(row["last_phase"]),
        "reason": row["reason_code"],
        "message": row["reason_message"],
        "submitted_by": row["submitted_by"],
        "cluster": row["cluster"],
        "node_pool": row["node_pool"],
        "attempts": row["attempt"],
        "replicas": row["pods"],
        "gpu_seconds": row["gpu_seconds"],
        "created_at": row["created_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "deleted_at": row["deleted_at"],
        "template_id": row["template_id"],
        "template_version": row["template_version"],
        "spec": write(shown.spec, namespace="", metadata_name=row["name"]),
        "history": json.dumps(_entries(row["history"])),
    }


def _entries(history: str) -> list[dict[str, Any]]:
    return [
        {
            "at": entry["at"],
            "event": entry["event"],
            "text": entry["text"],
            "phase": _phase(entry["phase"]),
            "attempt": entry["attempt"],
            "cluster": entry["cluster"],
        }
        for entry in json.loads(history)
    ]


def _phase(number: int) -> str:
    return (phases.phase(number) or Phase.UNKNOWN).value
