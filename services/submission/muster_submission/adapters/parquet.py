"""One Parquet file: its columns, and rows added in stretches. Called by exporting.py in a thread; needs pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

_MOMENT: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("project", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("phase", pa.string()),  # the last one before it was deleted
        ("reason", pa.string()),
        ("message", pa.string()),
        ("submitted_by", pa.string()),
        ("cluster", pa.string()),
        ("node_pool", pa.string()),
        ("attempts", pa.int32()),
        ("replicas", pa.int32()),
        ("gpu_seconds", pa.float64()),
        ("created_at", _MOMENT),
        ("started_at", _MOMENT),
        ("finished_at", _MOMENT),
        ("deleted_at", _MOMENT),
        ("template_id", pa.string()),
        ("template_version", pa.int64()),
        ("spec", pa.string()),  # a document in the language
        ("history", pa.string()),  # JSON: a list of what happened, oldest first
    ]
)


class ParquetFile:
    """An open file. Raises OSError from every method where the disk does not take it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer = parquet.ParquetWriter(path, SCHEMA, compression="zstd")

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Adds rows, by column names."""
        self._writer.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA))

    def close(self) -> None:
        """Writes what is left of it."""
        self._writer.close()

    def settle(self, path: Path) -> None:
        """Bring the closed file to the disk and give it its name. If this fails, no file stays."""
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        self._path.replace(path)
        try:
            _sync_folder(path.parent)  # its name as well: the rows are removed next
        except OSError:
            path.unlink(missing_ok=True)  # the rows stay, and each later try would leave one more file
            raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
