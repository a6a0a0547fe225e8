"""Paths, ports and room: what a stack takes from the machine, and what it says where there is not enough."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from muster_stack import preflight
from muster_stack.clusters import declared, write_defaults
from muster_stack.commands import down, status
from muster_stack.errors import NoFolder, NoRoom, StackError
from muster_stack.keeper.logs import last_lines, shorten
from muster_stack.keeper.state import Options, State, ourselves, read
from muster_stack.layout import Layout, default_data_folder
from muster_stack.ports import LOOPBACK, free_ports, is_free, listens


def test_two_spellings_of_a_folder_are_one_stack(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert Layout.of(tmp_path / "link") == Layout.of(tmp_path / "x" / ".." / "data")
    assert Layout.of(tmp_path / "data").key != Layout.of(tmp_path / "other").key


def test_the_default_folder_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", "/somewhere")
    assert default_data_folder() == Path("/somewhere")
    monkeypatch.delenv("MUSTER_HOME")
    assert default_data_folder() == Path.home() / ".muster"


@pytest.mark.parametrize("depth", [1, 40])
def test_socket_paths_stay_below_their_limit(tmp_path: Path, depth: int) -> None:
    layout = Layout.of(tmp_path.joinpath(*["folder"] * depth))
    assert len(os.fsencode(layout.sockets / ".s.PGSQL.5432.lock")) <= 107
    assert len(os.fsencode(layout.control)) <= 107


def test_the_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path / "data")
    layout.make()
    assert layout.root.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("link", [False, True])
def test_a_data_folder_that_another_user_has_laid_out_is_refused(tmp_path: Path, link: bool) -> None:
    folder = tmp_path / "data"
    if link:
        (tmp_path / "target").mkdir()
        folder.symlink_to(tmp_path / "target")
    else:
        folder.mkdir()
    os.chown(folder, 65_533, 65_533, follow_symlinks=False)
    with pytest.raises(NoFolder, match="belongs to user id 65533"):
        Layout(folder).make()


def test_a_data_folder_that_is_a_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for folder in (file, file / "below"):
        with pytest.raises(NoFolder, match=f"{file} is not a folder"):
            Layout.of(folder).make()
        assert status(data=folder) == 1
        assert down(data=folder) == 0
    assert "nothing ran in" in capsys.readouterr().out
    assert file.read_text() == "mine"


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    assert last_lines(log) == ""
    log.write_text("".join(f"line {number} {'x' * 1000}\n" for number in range(100)))
    told = last_lines(log, 2).splitlines()
    assert [line[:7] for line in told] == ["line 98", "line 99"]
    assert all(len(line) <= 400 for line in told)


def test_a_log_that_ends_with_a_failure_shows_its_cause_and_not_where_its_traceback_began(tmp_path: Path) -> None:
    log, frame = tmp_path / "agent-there.log", '  File "x.py", line 1, in f\n    f()\n    ^^^\n'
    trace = f"Traceback (most recent call last):\n{frame * 20}ClusterFileError: t.yaml: profile.mig: 'x'\n  is wrong\n"
    lines = [{"event": "opening"}, {"event": "the service ends", "exception": trace}]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "7\n")
    assert last_lines(log).splitlines() == [
        '{"event": "opening"}',
        "ClusterFileError: t.yaml: profile.mig: 'x'",
        "  is wrong",
        "7",
    ]


def test_a_declaration_that_is_no_yaml_is_said_with_its_file(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    layout.make()
    (layout.clusters / "a.yaml").write_text("cluster: [")
    with pytest.raises(StackError, match=r"a\.yaml cannot be read as YAML"):
        declared(layout)


def test_free_ports_are_different_free_and_not_the_kept_ones() -> None:
    first = free_ports(200)
    second = free_ports(200, but_not=first)
    assert len({*first, *second}) == 400


def test_a_taken_port_is_neither_free_nor_silent() -> None:
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        port = server.getsockname()[1]
        assert not is_free(port)
        assert listens(port)
    assert not listens(port)


def test_the_next_keeper_takes_the_same_ports_unless_somebody_sits_there(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    state = State.load(layout)
    state.choose_ports(["kafka", "submission.grpc"])
    state.options = Options(instances={"scheduler": 2})
    state.keeper = ourselves()
    state.write([])
    state.release()

    again = State.load(layout)
    assert again.keeper == ourselves()
    assert again.options == Options(instances={"scheduler": 2})
    with socket.socket() as squatter:
        squatter.bind((LOOPBACK, again.ports["kafka"]))
        squatter.listen()
        again.choose_ports(["kafka", "submission.grpc", "policy.grpc"])
    assert again.ports["submission.grpc"] == state.ports["submission.grpc"]
    assert again.ports["kafka"] != state.ports["kafka"]
    assert len(set(again.ports.values())) == 3
    again.release()


def test_a_stack_that_starts_beside_another_chooses_other_ports_before_either_listens(tmp_path: Path) -> None:
    first, second = State.load(Layout.of(tmp_path)), State.load(Layout.of(tmp_path))
    first.choose_ports(["kafka"])
    port = first.ports["kafka"]
    assert not is_free(port), "nobody listens there, but it is claimed"
    second.ports["kafka"] = port
    second.choose_ports(["kafka"])
    assert second.ports["kafka"] != port
    first.release()
    assert is_free(port)
    second.release()


@pytest.mark.parametrize("text", ["", "{", '{"version": 99, "ports": {"kafka": 1}}'])
def test_a_state_file_that_cannot_be_used_counts_as_none(tmp_path: Path, text: str) -> None:
    layout = Layout.of(tmp_path)
    layout.state.write_text(text)
    assert read(layout) == {}
    assert State.load(layout).ports == {}


def test_no_room_names_every_lack_at_once(tmp_path: Path) -> None:
    preflight.check(Layout.of(tmp_path), disk=1, memory=1)
    with pytest.raises(NoRoom) as raised:
        preflight.check(Layout.of(tmp_path), disk=1 << 60, memory=1 << 60)
    text = str(raised.value)
    assert "disk of the data folder" in text
    assert "disk of the downloads folder" in text
    assert "memory:" in text


def test_status_of_nothing_is_a_failure_that_programs_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(data=tmp_path) == 1
    assert "muster up" in capsys.readouterr().err
    assert status(data=tmp_path, as_json=True) == 1
    assert json.loads(capsys.readouterr().out) == {"ready": False, "services": {}, "left_behind": 0}


def test_declared_clusters_are_the_users_once_written(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path)
    layout.make()
    write_defaults(layout)
    assert [cluster.name for cluster in declared(layout)] == ["north", "south"]

    (layout.clusters / "south.yaml").unlink()
    write_defaults(layout)
    assert [cluster.name for cluster in declared(layout)] == ["north"]

    (layout.clusters / "bad.yaml").write_text("nodes: []")
    with pytest.raises(StackError, match=r"bad\.yaml: the key `cluster`"):
        declared(layout)


def test_a_long_log_is_cut_under_its_writer(tmp_path: Path) -> None:
    with (tmp_path / "policy.log").open("ab", buffering=0) as log:
        log.write(b"x" * 100)
        shorten(tmp_path, limit=100)
        assert (tmp_path / "policy.log").stat().st_size == 100
        log.write(b"y")
        shorten(tmp_path, limit=100)
        log.write(b"z")
    assert (tmp_path / "policy.log").read_bytes() == b"z"
    assert (tmp_path / "policy.log.1").read_bytes() == b"x" * 100 + b"y"
