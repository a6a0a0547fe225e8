"""The life of a service's process."""

from __future__ import annotations

from tests.support.service_programs import run_program

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
    ended = run_program(PROGRAM)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 10_000
