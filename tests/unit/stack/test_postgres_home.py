"""PostgreSQL runs as nobody important, in a folder that this user can reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster_stack import postgres_home
from muster_stack.errors import StartFailed
from muster_stack.postgres import SERVICES, schemas
from muster_stack.postgres_home import Account

_STRANGER = Account("stranger", uid=4_000_000, gid=4_000_000)
_ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root's PostgreSQL runs as another user")


def test_a_stranger_may_search_only_what_is_open_all_the_way_up(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "a").chmod(0o700)
    assert not _STRANGER.may_search(folder)
    assert Account("we", os.getuid(), os.getgid()).may_search(folder)
    assert _STRANGER.may_search(Path("/"))


def test_an_ordinary_users_files_stay_where_they_are(tmp_path: Path) -> None:
    assert postgres_home.data_folder(tmp_path / "postgres", None) == tmp_path / "postgres"
    assert not (tmp_path / "postgres").exists()
    assert (postgres_home.binaries(None) / "postgres").exists()


@_ROOT_ONLY
def test_root_drops_to_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    account = postgres_home.account()
    assert account is not None
    assert account.uid != 0
    for unusable in ("root", "no-such-user"):
        monkeypatch.setenv("MUSTER_POSTGRES_USER", unusable)
        with pytest.raises(StartFailed, match="MUSTER_POSTGRES_USER"):
            postgres_home.account()


@_ROOT_ONLY
def test_roots_private_folder_gets_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_home, "_ROOTS_PLACE", tmp_path / "place")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    real = postgres_home.data_folder(private / "postgres", _STRANGER)
    assert (private / "postgres").readlink() == real
    assert postgres_home.data_folder(private / "postgres", _STRANGER) == real

    (
        private / "postgres"
    ).unlink()  # the data folder was deleted by hand: its half in the other place goes with the next
    postgres_home.data_folder(private / "other", _STRANGER)
    assert not real.parent.exists()


def test_every_service_has_its_schema_and_no_other() -> None:
    text = schemas("muster")
    for service in SERVICES:
        assert f"CREATE SCHEMA IF NOT EXISTS {service} AUTHORIZATION {service};" in text
    assert "REVOKE ALL ON SCHEMA public FROM PUBLIC" in text
