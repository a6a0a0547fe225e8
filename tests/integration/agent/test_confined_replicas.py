"""Replicas as real processes under the confinement of this machine, in each way in which they can be confined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster_cluster_agent.adapters.local import journal, landlock, procfs
from muster_cluster_agent.adapters.local.access import Access
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.confiner import Confiner, _missing
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Create, Outcome
from muster_cluster_agent.domain.confinement import Confinement, Grant, Right
from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.plan import replica_plans
from tests.rules.test_rule_07_agents_say_gone_only_when_it_is import FILE, local
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually, eventually_now

SUPERVISE = "from muster_cluster_agent.adapters.local.supervisor import supervise; import sys; supervise(sys.argv[1])"
READABLE = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", sys.base_prefix)
PYTHON = (os.path.realpath(sys.executable), "-I", "-c")
"""An interpreter that a replica reaches, without its environment."""
needs_landlock = pytest.mark.skipif(landlock.version() < 1, reason="this kernel offers no Landlock")
needs_root = pytest.mark.skipif(os.geteuid() != 0 or bool(_missing()), reason="only root starts replicas as others")


def supervised(
    folder: Path, argv: list[str], uid: int | None, *, tmp: str = "", cwd: str = "", code: str = SUPERVISE
) -> subprocess.Popen[bytes]:
    """A supervisor whose replica is confined; it may write in `folder/own`.

    tmp, cwd: below `own`, where they are other folders. code: what the supervisor's process runs.
    """
    own = folder / "own"
    own.mkdir(exist_ok=True)
    accounts = None
    if uid is not None:
        os.chown(own, uid, uid)
        accounts = (str(folder / "passwd"), str(folder / "group"))
        for name in ("passwd", "group"):
            (folder / name).write_text(f"muster-{uid}:x:{uid}:{uid}::/:/bin/sh\n")
    grants = (
        *(Grant(path, Right.READ) for path in READABLE),
        Grant("/dev/null", Right.DEVICE),
        Grant(str(own), Right.WRITE, plain=True, owner=uid),
    )
    spec: dict[str, Any] = {
        "name": f"w-{folder.name}",
        "argv": argv,
        "env": {"PATH": os.defpath, procfs.MARK: f"w-{folder.name}"},
        "cwd": str(own / cwd),
        "log": {"folder": str(folder / "log"), "budget": 4096},
        "confinement": Confinement(landlock.version(), grants, uid, str(own / tmp), accounts).as_spec(),
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "journal").touch()
    return subprocess.Popen([sys.executable, "-c", code, str(folder)])


@pytest.fixture(params=["landlock", pytest.param("uid", marks=needs_root)])
def uid(request: pytest.FixtureRequest) -> int | None:
    return 61_234 if request.param == "uid" else None


def started(folder: Path) -> int:
    """The pid of the command, once it is in the journal."""
    eventually_now(lambda: any(line["event"] == "started" for line in journal.read(str(folder))), within=30)
    return next(int(line["pid"]) for line in journal.read(str(folder)) if line["event"] == "started")


@needs_landlock
def test_a_command_dies_with_its_supervisor(tmp_path: Path, uid: int | None) -> None:
    supervisor = supervised(tmp_path, ["/bin/sh", "-c", "echo > own; exec sleep 1000"], uid)
    pid = started(tmp_path)
    eventually_now((tmp_path / "own" / "own").exists, within=30)
    assert (tmp_path / "own" / "own").stat().st_uid == (uid or os.geteuid())
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    eventually_now(lambda: procfs.start_time(pid) is None, within=10)


@needs_landlock
def test_what_cannot_be_confined_does_not_run(tmp_path: Path) -> None:
    supervisor = supervised(tmp_path, ["/bin/sh", "-c", "true"], None)
    supervisor.wait(timeout=30)
    spec = json.loads((tmp_path / "spec.json").read_text())
    spec["confinement"]["grants"].append(["/usr", "nothing"])
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "journal").write_text("")
    subprocess.run([sys.executable, "-c", SUPERVISE, str(tmp_path)], check=False, timeout=30)
    events = {line["event"]: line for line in journal.read(str(tmp_path))}
    assert events["exited"]["code"] == 126


# --------------------------------------------------------------------------------------------------- the local back end


async def ended(backend: LocalBackend, number: int, command: str, working_dir: str = "") -> tuple[Observed, str]:
    """A replica that has ended, and its log."""
    wanted = assignment(number, command)
    (plan,) = replica_plans(wanted, wanted.newest)
    answer = await backend.act(Create(replace(plan, working_dir=working_dir)))
    assert answer.outcome is Outcome.DONE, answer

    async def look() -> Observed:
        return next(one for one in await backend.list() if one.name == plan.name)

    found = await eventually(look, lambda one: one.gone, within=60)
    return found, (await backend.log_tail(plan.name, 4096)).decode()


async def test_a_replica_has_folders_of_its_own_and_one_that_stays(tmp_path: Path) -> None:
    async with local(tmp_path) as backend:
        touch = "touch $MUSTER_WORKLOAD_DIR/kept $MUSTER_RUN_DIR/shared"
        found, log = await ended(backend, 1, f"sh -c 'pwd; echo $HOME $TMPDIR $MUSTER_WORKDIR; {touch}'")
        run, keep = (Path(folder) for folder in found.folders)
        own = run / "worker-0"
        assert log.split() == [str(own / part) for part in ("work", "home", "tmp", "work")]
        assert (run.name, keep.name) == ("1.0", "keep")
        assert (keep / "kept").exists()
        assert (run / "shared").exists()
        await backend.forget([found.workload_id])
        assert (await backend.kept(10), keep.exists()) == ([], True)  # its replica is not removed yet
        replica = backend._replicas.get(found.name)
        assert replica is not None
        backend._replicas.drop(replica)
        assert [owner.workload_id for owner in await backend.kept(10)] == [found.workload_id]
        await backend.forget([found.workload_id])
        assert not keep.parent.exists()
        assert await backend.replicas_with_logs(found.workload_id) == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder that every user may read, with a file and a link."""
    folder = tmp_path.resolve().with_name(f"{tmp_path.name}-data")
    (folder / "in").mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "in" / "file").write_text("of the project\n")
    (folder / "link").symlink_to("/etc")
    return folder


async def test_a_folder_of_the_machine_is_named_below_a_root_or_not_at_all(tmp_path: Path, data: Path) -> None:
    refused = {
        "/etc": f"may name only folders below its roots ({data}); leave workingDir out",
        f"{data}/link": f"workingDir: {data}/link cannot be used below the root {data}: it leads across a link",
        f"{data}/none": f"cannot be used below the root {data}: No such file or directory",
    }
    async with local(tmp_path, f"{FILE}roots: [{{path: {data}, projects: ['']}}]\n") as backend:
        assert (await ended(backend, 1, "cat file", str(data / "in")))[1] == "of the project\n"
        for number, (folder, why) in enumerate(refused.items(), start=2):
            found, _ = await ended(backend, number, "true", folder)
            assert why in found.fault
            assert found.fault_is_start
        found, log = await ended(backend, 9, "pwd", "/workspace/of-an-image")
        assert log.strip() == f"{found.folders[0]}/worker-0/work"
        assert (await ended(backend, 10, "pwd", "/tmp"))[1].strip().endswith("/tmp")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateFolder]:
    folder = StateFolder(tmp_path / "state")
    yield folder
    folder.close()


async def test_a_stack_with_tokens_starts_nothing_that_is_not_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: StateFolder
) -> None:
    monkeypatch.setattr(landlock, "version", lambda: 0)
    for number, (text, starts) in enumerate(((FILE, False), (f"{FILE}confinement: none\n", True)), start=1):
        (tmp_path / "cluster.yaml").write_text(text)
        async with LocalBackend(tmp_path / "cluster.yaml", state, confined=True) as backend:
            found, _ = await ended(backend, number, "true")
            profile = (await backend.fleet()).profile
        assert (found.ended is not None) is starts
        assert profile.confinement.startswith("none: ")
        if not starts:
            assert (
                "no replica starts here, since replicas cannot be confined (this kernel offers no Landlock"
                in found.fault
            )
            assert "`confinement: none`" in found.fault


@needs_landlock
async def test_an_interpreter_that_replicas_cannot_reach_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with local(tmp_path) as backend:
        confiner = backend._confiner
        machine = confiner._machine
        monkeypatch.setattr(confiner, "_machine", replace(machine, interpreters=(str(tmp_path), *machine.interpreters)))
        confiner.settle(Access())
        assert f"the interpreter's folder {tmp_path} and" in confiner.ability.text
        monkeypatch.setattr(Confiner, "_fixed_grants", lambda _: (Grant("/etc", Right.READ),))
        monkeypatch.setattr(confiner, "_machine", machine)
        confiner.settle(Access())
        assert f"none: a confined process does not run {sys.executable}: " in confiner.ability.text
