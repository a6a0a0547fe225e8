"""What the lines of a log hold, for loggers of Muster and of libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

_PROGRAM = """
import logging
from muster_chassis import logs
logs.configure("test", "test-0", "debug")
try:
    try:
        raise KeyError("cause")
    except KeyError as cause:
        raise TimeoutError("too slow") from cause
except TimeoutError as error:
    {line}
"""


def _logged(line: str) -> dict[str, Any]:
    program = _PROGRAM.format(line=line)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=30)
    found: dict[str, Any] = json.loads(done.stderr)
    return found


@pytest.mark.parametrize("given", ["True", "error", "(type(error), error, error.__traceback__)"])
def test_a_library_that_warns_of_a_failure_names_it_without_a_trace(given: str) -> None:
    found = _logged(f"logging.getLogger('asyncpg.pool').warning('retrying', exc_info={given})")
    assert (found["event"], found["error"]) == ("retrying", "TimeoutError('too slow')")
    assert "Traceback" not in str(found)


def test_a_failure_that_ends_a_call_keeps_its_trace() -> None:
    found = _logged("logs.get('muster_chassis.x').error('a call failed unexpectedly', exc_info=error)")
    assert "Traceback" in found["exception"]
