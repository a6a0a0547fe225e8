"""`python -m muster_submission.export FILE [--since DAY] [--before DAY]`: archived workloads as a Parquet file.

For operators, with the environment of the service. It reads only the database, so the service does not have to run.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from muster_chassis.settings import DatabaseSettings
from muster_submission.adapters.archive import BEGINNING, END
from muster_submission.adapters.exporting import Exporter
from muster_submission.errors import ExportFailed


async def export(settings: DatabaseSettings, file: Path, since: datetime, before: datetime) -> int:
    """Write workloads that ended between two times; return the number. Raises ExportFailed and OSError."""
    url, schema = settings.database_url.get_secret_value(), settings.database_schema
    pool: asyncpg.Pool
    async with asyncpg.create_pool(url, min_size=1, max_size=1, server_settings={"search_path": schema}) as pool:
        return await Exporter(pool).write(since, before, file)


def _time(text: str) -> datetime:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time. Give one such as 2026-11-01 or 2026-11-01T12:00+01:00; without a zone it is UTC"
        ) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m muster_submission.export", description=__doc__)
    parser.add_argument("file", type=Path, help="the file to write; one that is there is replaced")
    parser.add_argument("--since", type=_time, default=BEGINNING, help="what ended at this time or later")
    parser.add_argument("--before", type=_time, default=END, help="what ended before this time")
    return parser.parse_args()


def main() -> int:
    """Write the file; return 0 on success and 1 on failure."""
    given = _arguments()
    try:
        settings = DatabaseSettings()
        written = asyncio.run(export(settings, given.file, given.since, given.before))
    except (ExportFailed, OSError, asyncpg.PostgresError, ValueError) as error:
        sys.stderr.write(f"the archive was not written: {error}\n")
        return 1
    sys.stdout.write(f"{written} workloads are in {given.file}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
