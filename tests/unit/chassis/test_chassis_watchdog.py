"""A service whose event loop is blocked says where and ends; what declares a long section goes on."""

from __future__ import annotations

from tests.support.service_programs import run_program

PROGRAM = """
import asyncio, re, sys
from muster_chassis.runtime import Runtime, run
from muster_chassis.settings import Settings
from muster_chassis.watchdog import long_section

def stands_in_c(length):
    re.match("(a+)+$", "a" * length + "b")  # one call in C that never releases the interpreter's lock

async def compose(runtime, settings):
    async def work():
        if sys.argv[1] == "stands":
            stands_in_c(60)
        with long_section(60.0):
            stands_in_c(int(sys.argv[2]))
        runtime.stopping.set()
        await asyncio.Event().wait()
    runtime.eternal("work", work)

run("test", Settings, compose)
"""


def test_a_loop_that_stands_in_c_ends_the_process_which_says_where() -> None:
    ended = run_program(PROGRAM, "stands", "0")
    assert ended.returncode == 1
    assert "Timeout (0:00:01)!" in ended.stderr
    assert "in stands_in_c" in ended.stderr
    assert "stopped" not in ended.stderr


def test_a_declared_section_may_hold_the_loop_for_longer() -> None:
    """25 characters are backtracked for about two seconds."""
    ended = run_program(PROGRAM, "declares", "25")
    assert ended.returncode == 0, ended.stderr
    assert "stopped" in ended.stderr
    assert "Timeout" not in ended.stderr
