"""A control plane of its own for every test of the client, and nothing of the machine's environment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster_client.cli.app import run
from tests.support.control_plane import control_plane
from tests.support.plane_world import World

LONGEST = 60.0
"""Seconds that a command of a test may take."""


def _interrupt() -> None:
    """Ctrl-C for the thread that runs the command: a flag alone would not wake a loop that sleeps in its selector."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MUSTER_SERVER", "MUSTER_SERVER_CA", "MUSTER_TOKEN", "MUSTER_PROJECT", "MUSTER_APPLICATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """What a shell starts with & ignores Ctrl-C, and so would its tests: the watchdog below would watch for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def plane() -> Iterator[tuple[str, World]]:
    with control_plane() as made:
        yield made


@pytest.fixture
def server(plane: tuple[str, World]) -> str:
    return plane[0]


@pytest.fixture
def world(plane: tuple[str, World]) -> World:
    return plane[1]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class Command:
    """The muster command against one server."""

    def __init__(self, server: str, captured: pytest.CaptureFixture[str]) -> None:
        self._server = server
        self._captured = captured

    def __call__(self, *arguments: str, server: bool = True, rest: Sequence[str] = ()) -> Ran:
        """Runs it; `rest` comes last, such as a command behind --. One that waits for what never comes is interrupted.

        A watch that broke off begins anew, and what its test had prepared for it has been told: it would stand still.
        Interrupted it ends as after Ctrl-C, with 130, and the test fails.
        """
        self._captured.readouterr()
        watchdog = threading.Timer(LONGEST, _interrupt)
        watchdog.start()
        try:
            code = run([*arguments, *(["--server", self._server] if server else []), *rest])
        finally:
            watchdog.cancel()
            watchdog.join()
        seen = self._captured.readouterr()
        return Ran(code, seen.out, seen.err)


@pytest.fixture
def muster(server: str, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(server, capsys)
