"""`muster login`: what is stored, who may read it, and to whom it is sent."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest

from muster_client import logins
from muster_client.address import find_application, find_server, find_token
from tests.support.plane_world import World
from tests.unit.client.conftest import Command

APPLICATION = "0192d3c4-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def test_an_application_logs_in_and_its_tokens_are_renewed(
    muster: Command, world: World, server: str, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.access.secrets[APPLICATION] = "right"
    monkeypatch.setattr("sys.stdin", io.StringIO("right\n"))
    assert muster("login", "--application", APPLICATION).code == 0
    stored = logins.path_of(server)
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert stat.S_IMODE(stored.parent.stat().st_mode) == 0o700
    assert find_server() == server
    assert muster("access", "whoami", server=False).code == 0
    logins.path_of(server).with_suffix(".token").unlink()  # as if the token had ended
    assert muster("access", "whoami", server=False).code == 0
    assert world.asked("IssueToken")[-1].secret == "right"
    assert muster("logout", server=False).code == 0
    assert not list(stored.parent.iterdir())
    assert logins.current() is None


def test_a_secret_that_is_refused_is_not_kept(
    muster: Command, world: World, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.access.secrets[APPLICATION] = "right"
    monkeypatch.setattr("sys.stdin", io.StringIO("wrong\n"))
    assert muster("login", "--application", APPLICATION).code == 5
    assert not logins.path_of(server).exists()
    assert logins.current() is None


def test_a_credential_is_for_its_own_server() -> None:
    logins.store("one:7700", logins.Token("t"), current=True)
    logins.store("two:7700", logins.Application("i", "s"), current=False)
    assert find_token(None, "one:7700") == "t"
    assert find_token(None, "two:7700") is None
    assert find_token("given", "one:7700") == "given"
    assert find_application("two:7700") == logins.path_of("two:7700")
    assert find_application("one:7700") is None
    assert find_application("three:7700") is None


@pytest.mark.parametrize("words", [["--application", "nightly"], ["--application", APPLICATION], []])
def test_what_cannot_log_in(muster: Command, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert muster("login", *words).code == 2
