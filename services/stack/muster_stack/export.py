"""`muster export FILE`: the archived workloads of the stack on this machine as a Parquet file.

What writes the file is submission's own program; it gets the address of the stack's PostgreSQL, which has to run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster_stack.commands import Data
from muster_stack.keeper.instances import SUBMISSION
from muster_stack.layout import Layout
from muster_stack.postgres import PostgresServer


def export(
    file: Path,
    *,
    data: Data = None,
    since: Annotated[str, Parameter(help="Only what ended on this day or later (UTC), such as 2026-11-01.")] = "",
    before: Annotated[str, Parameter(help="Only what ended before this day (UTC).")] = "",
) -> int:
    """Write the archived workloads of this machine's stack into a Parquet file."""
    layout = Layout.of(data)
    if not layout.secrets.exists():
        sys.stderr.write(f"there is no stack in {layout.root}: start one by `muster up`, or name it (--data)\n")
        return 1
    server = PostgresServer.of(layout)
    own = {"MUSTER_DATABASE_URL": server.url(SUBMISSION), "MUSTER_DATABASE_SCHEMA": SUBMISSION}
    days = [*(["--since", since] if since else []), *(["--before", before] if before else [])]
    argv = [sys.executable, "-m", "muster_submission.export", *days, str(file.resolve())]
    return subprocess.run(argv, env={**os.environ, **own}, check=False).returncode
