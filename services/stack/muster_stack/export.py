"""`muster export FILE`: the archived workloads of the stack on this machine as a Parquet file.

What writes the file is submission's own program; it gets the address of the stack's PostgreSQL, which has to run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from muster_client.cli.moments import moment
from muster_stack.commands import Data
from muster_stack.errors import StackError
from muster_stack.keeper.instances import SUBMISSION
from muster_stack.layout import Layout
from muster_stack.postgres import answering


def export(
    file: Path,
    *,
    data: Data = None,
    since: Annotated[
        str, Parameter(help="Only what ended since then: a time (UTC without a zone), or how long ago (90d).")
    ] = "",
    before: Annotated[str, Parameter(help="Only what ended before then.")] = "",
) -> int:
    """Write the archived workloads of this machine's stack into a Parquet file; one that is there is replaced."""
    layout, target = Layout.of(data), file.expanduser().resolve()
    given = [*_given("--since", since), *_given("--before", before)]
    try:
        if target.is_dir():
            raise StackError(f"{target} is a folder: name a file")
        if not target.parent.is_dir():
            raise StackError(f"there is no folder {target.parent}: make it, or name a file in another one")
        server = answering(layout)
    except StackError as error:
        sys.stderr.write(f"the archive was not written: {error}\n")
        return 1
    own = {"MUSTER_DATABASE_URL": server.url(SUBMISSION), "MUSTER_DATABASE_SCHEMA": SUBMISSION}
    argv = [sys.executable, "-m", "muster_submission.export", *given, str(target)]
    return subprocess.run(argv, env={**os.environ, **own}, check=False).returncode


def _given(option: str, text: str) -> list[str]:
    """Return the option as the program takes it. A time without a zone is UTC, as months of the archive are.

    Raises InvalidInput.
    """
    if not text:
        return []
    return [option, moment(text, datetime.now(UTC), option, zone=UTC).isoformat()]
