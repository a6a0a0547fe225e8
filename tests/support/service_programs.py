"""Services of a few lines, each run as a process: for what the chassis does with a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

_SETTINGS: Final = {
    "MUSTER_INSTANCE": "test-0",
    "MUSTER_KAFKA_BOOTSTRAP": "127.0.0.1:1",
    "MUSTER_KAFKA_SECURITY": "plaintext",
    "MUSTER_METRICS_LISTEN": "127.0.0.1:0",
    "MUSTER_STALL_SECONDS": "1",
}


def run_program(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the source of a service to its end, within 120 seconds."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | _SETTINGS,
        timeout=120,
    )
