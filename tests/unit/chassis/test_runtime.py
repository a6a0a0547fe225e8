"""The life of a service's process."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import asyncio, gc
from muster_chassis.runtime import run
from muster_chassis.settings import Settings

async def compose(runtime, settings):
    async def work():
        print(gc.get_freeze_count())
        runtime.stopping.set()
        await asyncio.Event().wait()
    runtime.eternal("work", work)

run("test", Settings, compose)
"""


def test_the_garbage_collector_leaves_out_what_was_imported() -> None:
    settings = {
        "MUSTER_INSTANCE": "test-0",
        "MUSTER_KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "MUSTER_KAFKA_SECURITY": "plaintext",
        "MUSTER_METRICS_LISTEN": "127.0.0.1:0",
    }
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | settings,
        timeout=60,
    )
    assert int(ended.stdout) > 10_000
