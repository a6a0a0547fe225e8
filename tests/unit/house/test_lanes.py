"""Commands side by side: all run, their outputs do not mix, and one that fails ends the others."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from verbs.lanes import Step, run_lanes
from verbs.shell import VerbFailed


def python(name: str, program: str, *, yields: bool = False) -> Step:
    return Step(name, [sys.executable, "-c", program], yields=yields)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


WAITS_FOR = "import pathlib, time\nwhile not pathlib.Path({path!r}).exists(): time.sleep(0.01)\nprint({text!r})"
# Tells its number in a file that is whole as soon as it is there.
STAYS = (
    "import os, pathlib, time\npart = pathlib.Path({path!r} + '.part')\n"
    "part.write_text(str(os.getpid()))\npart.rename({path!r})\ntime.sleep(60)"
)


def test_outputs_follow_each_other_in_the_order_asked_for(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    made = str(tmp_path / "made")
    first = python("first", WAITS_FOR.format(path=made, text="first"))  # waits for the other lane: both run at once
    second = python("second", "print('second')")
    beside = python("beside", f"open({made!r}, 'w'); print('beside')", yields=True)
    run_lanes([[first, second], [beside]], [first, lambda: print("judged", flush=True), beside, second])
    assert capfdbinary.readouterr().out == b"first\njudged\nbeside\nsecond\n"


def test_a_command_that_fails_ends_the_others_and_its_output_comes_last(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    pid = tmp_path / "pid"
    long = python("long", STAYS.format(path=str(pid)))
    broken = python("broken", WAITS_FOR.format(path=str(pid), text="why it broke") + "\nraise SystemExit(3)")
    never = python("never", "print('never')")
    began = time.monotonic()
    with pytest.raises(VerbFailed, match="broken ended with 3") as failed:
        run_lanes([[long], [broken, never]], [long, broken, never])
    assert failed.value.code == 3
    assert capfdbinary.readouterr().out.endswith(b"why it broke\n")
    assert gone(int(pid.read_text()))
    assert time.monotonic() - began < 50


def test_what_is_judged_in_between_ends_all_where_it_fails(tmp_path: Path) -> None:
    step, long = python("step", "print()"), python("long", "import time; time.sleep(60)")

    def judge() -> None:
        raise VerbFailed("too little is covered", code=7)

    with pytest.raises(VerbFailed, match="too little is covered"):
        run_lanes([[step], [long]], [step, judge, long])


def test_a_step_that_yields_has_a_low_priority_in_a_session_of_its_own(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    told = "import os; print(os.nice(0), os.getsid(0) == os.getpid())"
    run_lanes([[step := python("yielding", told, yields=True)]], [step])
    assert capfdbinary.readouterr().out == f"{min(19, os.nice(0) + 15)} True\n".encode()


def test_a_signal_that_ends_a_command_is_told() -> None:
    step = python("killed", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(VerbFailed) as failed:
        run_lanes([[step]], [step])
    assert failed.value.code == 137


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, VerbFailed)])
def test_a_signal_to_the_verb_ends_every_command(tmp_path: Path, number: int, raised: type[BaseException]) -> None:
    pid = tmp_path / "pid"
    step = python("long", STAYS.format(path=str(pid)))

    def interrupt() -> None:
        while not pid.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    with pytest.raises(raised):
        run_lanes([[step]], [step])
    assert gone(int(pid.read_text()))


def test_in_the_background_of_a_shell_commands_still_end_at_once() -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell without job control does
    try:
        long, broken = python("long", "import time; time.sleep(60)"), python("broken", "raise SystemExit(1)")
        began = time.monotonic()
        with pytest.raises(VerbFailed):
            run_lanes([[long], [broken]], [])
        assert time.monotonic() - began < 20
    finally:
        signal.signal(signal.SIGINT, handler)
