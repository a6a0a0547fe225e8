"""The folder of PostgreSQL's socket, whose name another user of the machine can know before it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from muster_stack.errors import StartFailed
from muster_stack.postgres import PostgresServer


def _server(tmp_path: Path) -> PostgresServer:
    return PostgresServer(
        tmp_path / "data", sockets=tmp_path / "s", secrets_file=tmp_path / "secrets.json", log=tmp_path / "log"
    )


def test_a_link_in_its_place_is_refused_and_what_it_leads_to_stays_as_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    before = target.stat()
    (tmp_path / "s").symlink_to(target)
    with pytest.raises(StartFailed, match="remove it"):
        _server(tmp_path).prepare()
    assert (target.stat().st_uid, target.stat().st_mode) == (before.st_uid, before.st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    os.chown(tmp_path / "s", 65_533, 65_533)
    with pytest.raises(StartFailed, match="belongs to user id 65533"):
        _server(tmp_path).prepare()
