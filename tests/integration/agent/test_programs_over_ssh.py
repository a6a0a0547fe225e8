"""The programs in MPI and ColossalAI replicas, beside an sshd and an ssh that note what they are told.

What a real sshd does with these options is a matter of the clusters' own tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent import shims
from tests.support.waiting import eventually_now

SHIMS = Path(shims.__file__).parent
ODD = "a \"b\" 'c' $(touch broken) `x`\n\\ d"
SSHD = """#!/bin/sh
printf '%s\\n' "$@" > "$NOTES"
for word in "$@"; do
    case $word in ForceCommand=*) force=${word#ForceCommand=} ;; esac
done
exec env -i PATH="$PATH" SSH_ORIGINAL_COMMAND='printf "%s" "$ODD"; pwd > ranks_folder' sh -c "$force"
"""
SSH = """#!/bin/sh
[ "$1" = -F ] && shift 2
echo "$1" >> "$NOTES"
shift
exec sh -c "$*"
"""


def program(folder: Path, name: str, text: str) -> str:
    """Writes a program into a folder; the answer is a PATH that finds it first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def folders(tmp_path: Path) -> tuple[str, str]:
    """The keys of a run, and the folder of a container."""
    keys, own = tmp_path / "keys", tmp_path / "own"
    keys.mkdir()
    own.mkdir()
    (keys / "id").write_text("private\n")
    (keys / "id.pub").write_text("public\n")
    return str(keys), str(own)


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_what_a_worker_is_sent_runs_with_the_variables_and_in_the_folder_of_its_container(tmp_path: Path) -> None:
    keys, own = folders(tmp_path)
    path = program(tmp_path / "bin", "sshd", SSHD)
    work = tmp_path / "work here"
    work.mkdir()
    notes = tmp_path / "notes"
    done = run("sh", str(SHIMS / "worker.sh"), "2222", keys, own, cwd=work, PATH=path, ODD=ODD, NOTES=str(notes))
    assert (done.returncode, done.stdout) == (0, ODD)
    assert (work / "ranks_folder").read_text().strip() == str(work)
    told = notes.read_text().splitlines()
    assert told[told.index("-p") + 1] == "2222"
    assert f"AuthorizedKeysFile={own}/authorized_keys" in told
    assert {"PasswordAuthentication=no", "StrictModes=no"} <= {*told}
    assert {Path(own, name).stat().st_mode & 0o777 for name in ("id", "authorized_keys", "environment")} == {0o600}
    assert not (work / "broken").exists()


def test_a_worker_without_sshd_says_what_its_image_needs(tmp_path: Path) -> None:
    keys, own = folders(tmp_path)
    if Path("/usr/sbin/sshd").exists():
        pytest.skip("this machine has an sshd where the program looks for it")
    done = run("sh", str(SHIMS / "worker.sh"), "2222", keys, own, cwd=tmp_path, PATH="/usr/bin:/bin")
    assert done.returncode == 127
    assert "install openssh-server" in done.stderr


def test_a_launcher_finds_the_way_to_its_workers_and_becomes_its_command(tmp_path: Path) -> None:
    keys, own = folders(tmp_path)
    command = ("sh", "-c", 'umask; echo "$0 $1"; exit 3', "a b", "c")
    done = run(
        "sh",
        str(SHIMS / "launcher.sh"),
        "2222",
        keys,
        own,
        "",
        *command,
        cwd=tmp_path,
        PATH="/usr/bin:/bin",
        HOME=str(tmp_path),
    )
    assert (done.returncode, done.stdout.splitlines()[1:]) == (3, ["a b c"])
    assert int(done.stdout.split()[0], 8) == _umask()
    assert f"IdentityFile {own}/id" in Path(own, "config").read_text()
    assert not (tmp_path / ".ssh").exists()  # a home may be shared by all that its user runs


def test_workers_that_share_a_nodes_network_are_reached_at_ports_of_their_own(tmp_path: Path) -> None:
    keys, own = folders(tmp_path)
    ports = tmp_path / "ssh_ports"
    ports.write_text("Host worker-0.run\n    Port 20123\n")
    done = run(
        "sh", str(SHIMS / "launcher.sh"), "2222", keys, own, str(ports), "true", cwd=tmp_path, PATH="/usr/bin:/bin"
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in Path(own, "config").read_text().splitlines()]
    assert lines[:4] == ["Host worker-0.run", "Port 20123", "Host *", "Port 2222"]  # ssh takes the first that it finds
    assert Path(own, "config").stat().st_mode & 0o777 == 0o600


def _umask() -> int:
    found = os.umask(0o22)
    os.umask(found)
    return found


def test_a_worker_that_is_stopped_ends_its_sshd(tmp_path: Path) -> None:
    keys, own = folders(tmp_path)
    path = program(
        tmp_path / "bin",
        "sshd",
        f"#!/bin/sh\ntrap 'echo > {tmp_path}/ended; exit' TERM\n: > {tmp_path}/begun\nsleep 1000 & wait\n",
    )
    words = ["sh", str(SHIMS / "worker.sh"), "2222", keys, own]
    worker = subprocess.Popen(words, env={"PATH": path}, cwd=tmp_path)
    eventually_now((tmp_path / "begun").exists, within=60)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == 143
    eventually_now((tmp_path / "ended").exists, within=60)


def over_ssh(tmp_path: Path, *calls: dict[str, Any]) -> list[str]:
    asked = {"env": {"LR": "0.1"}, "forward": ["TOKEN", "NONE"], "calls": calls}
    (tmp_path / "calls.json").write_text(json.dumps(asked))
    return [sys.executable, "-I", str(SHIMS / "over_ssh.py"), "config", str(tmp_path / "calls.json")]


def call(host: str, command: str, **env: str) -> dict[str, Any]:
    return {"host": host, "command": command, "env": env}


def test_each_worker_runs_its_call_with_its_own_variables(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "ssh", SSH)
    notes = tmp_path / "notes"
    words = over_ssh(
        tmp_path,
        call("w-0", f"printf '%s' \"$ODD\" > {tmp_path}/first", ODD=ODD),
        call(
            "w-1", f"echo $RANK $LR $TOKEN > {tmp_path}/second", **{"RANK": "1", "my-var": "no shell takes this name"}
        ),
    )
    done = run(*words, cwd=tmp_path, PATH=path, NOTES=str(notes), TOKEN="hunter2")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "first").read_text() == ODD
    assert (tmp_path / "second").read_text() == "1 0.1 hunter2\n"
    assert {*notes.read_text().split()} == {"w-0", "w-1"}


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("exit 255", 255)])
def test_the_first_failure_is_the_launchers_and_ends_the_others(tmp_path: Path, command: str, code: int) -> None:
    path = program(tmp_path / "bin", "ssh", SSH)
    words = over_ssh(tmp_path, call("w-0", "exec sleep 1000"), call("w-1", command))
    done = run(*words, cwd=tmp_path, PATH=path, NOTES=str(tmp_path / "notes"))
    assert (done.returncode, done.stderr) == (code, f"muster: w-1 ended with {code}\n")


def test_a_launcher_that_is_stopped_ends_what_it_has_started(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "ssh", SSH)
    words = over_ssh(
        tmp_path, call("w-0", f"trap 'echo > {tmp_path}/ended; exit' TERM; : > {tmp_path}/begun; sleep 1000 & wait")
    )
    env = {"PATH": path, "NOTES": str(tmp_path / "notes")}
    launcher = subprocess.Popen(words, env=env)
    eventually_now((tmp_path / "begun").exists, within=60)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(timeout=60) == 143
    eventually_now((tmp_path / "ended").exists, within=60)


def test_a_launcher_that_starts_nothing_has_not_succeeded(tmp_path: Path) -> None:
    assert run(*over_ssh(tmp_path), cwd=tmp_path, PATH="/usr/bin:/bin").returncode == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(*over_ssh(tmp_path, call("w-0", "true")), cwd=tmp_path, PATH=str(empty))
    assert done.returncode == 127
    assert "install openssh-client" in done.stderr


def test_a_record_is_written_where_nothing_can_take_its_place(tmp_path: Path) -> None:
    (tmp_path / "log.new").mkdir()  # as beside a pod's termination message, where no other file can be made
    code = f"import sys; sys.path.insert(0, {str(SHIMS)!r}); import trun; trun.record({{'ok': True, 'exit_code': 0}})"
    run(sys.executable, "-c", code, cwd=tmp_path, MUSTER_RECORD=str(tmp_path / "log"))
    assert json.loads((tmp_path / "log").read_text()) == {"ok": True, "exit_code": 0}
