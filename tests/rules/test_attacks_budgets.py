"""The attacks of A14 and A15 work once the part of the agent that prevents them is substituted."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster_cluster_agent.adapters.local import cgroups, disk, journal, readiness
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain import plan, probes
from muster_cluster_agent.domain.actions import Create
from muster_cluster_agent.domain.model import Assignment, Observed, Pattern, Probe, Revision, Run, Template
from muster_cluster_agent.end import end
from tests.attacks.rows import a14_budgets as a14
from tests.attacks.stage import python
from tests.integration.agent.test_confined_replicas import PYTHON, SUPERVISE, needs_landlock, needs_root, supervised
from tests.support.agent_loops import assignment
from tests.support.agents import workload_id
from tests.support.waiting import eventually

RUN = Run("worker", 0, 1, "n-0")


def probe_of(asked: Probe) -> Probe:
    """The probe of the replica that an agent would start for a template with port 8000."""
    template = Template(command="true", ports=(8000,), probe=asked)
    revision = Revision(1, 1, Pattern.SINGLE, template, (RUN,))
    assignment = Assignment("0190c0de-0000-7000-8000-000000000001", 1, "", 1, (revision,))
    found = plan.replica_plans(assignment, revision)[0].probe
    assert found is not None
    return found


async def received(probe: Probe, port: int, into: asyncio.Queue[bytes]) -> bytes:
    """What arrives at the port when the probe asks there."""
    question = readiness.http(port, probe.path, host=probe.host)
    asking = asyncio.create_task(readiness._ask(question, 5.0))
    got = await asyncio.wait_for(into.get(), 5.0)
    await asking
    return got


async def test_an_unchecked_probe_sends_any_request_to_any_port(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await seen.put(await reader.readuntil(b"Host: forged\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        forged = Probe(path="/", port=port, host="x\r\n\r\nPOST /forged HTTP/1.1\r\nHost: forged")
        with pytest.raises(probes.InvalidProbe):
            probe_of(forged)
        monkeypatch.setattr(probes, "_check_probe", lambda _probe, _ports: None)
        attack = probe_of(forged)
        assert b"POST /forged" in await received(attack, attack.port, seen)


MEMORY = cgroups.find(1024).controllers.get("memory")


@pytest_asyncio.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    (tmp_path / "c.yaml").write_text("cluster: c\nbudgets: {memory: 64Mi, processes: 20}\nnodes: [{name: n-0}]\n")
    state = StateFolder(tmp_path / "state")
    async with LocalBackend(tmp_path / "c.yaml", state) as local:
        yield local
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0


async def exit_code(backend: LocalBackend, number: int, program: str) -> int:
    """How a replica that runs this Python program ends."""
    wanted = assignment(number, f"{sys.executable} -c '{program}'")
    (made,) = plan.replica_plans(wanted, wanted.newest)
    await backend.act(Create(made))

    async def look() -> Observed:
        return next(one for one in await backend.list() if one.name == made.name)

    ended = (await eventually(look, lambda one: one.gone, within=60)).ended
    assert ended is not None
    return ended.code


@pytest.mark.skipif(MEMORY is None, reason="no writable memory control group here")
async def test_a_replica_takes_what_it_wants_without_a_budget(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = Path(f"/dev/shm/muster-test-{tmp_path.name}")
    memory = "x = bytearray(150 << 20)"
    shared = f'open("{left}", "wb").write(bytes(1 << 20))'
    forks = "import os, time\nfor _ in range(40):\n  if os.fork() == 0:\n    time.sleep(1)\n    os._exit(0)"
    assert await exit_code(backend, 1, memory) == 137
    assert await exit_code(backend, 2, forks) != 0
    assert await exit_code(backend, 3, shared) == 0
    assert not await asyncio.to_thread(left.exists)
    monkeypatch.setattr(cgroups.Groups, "described", lambda *_: {})
    assert [await exit_code(backend, 4, memory), await exit_code(backend, 5, forks)] == [0, 0]
    assert await exit_code(backend, 6, shared) == 0
    assert await asyncio.to_thread(left.exists)
    await asyncio.to_thread(left.unlink)


def flood(folder: Path, program: str) -> float:
    """Seconds that a supervisor takes for a command that prints 8 MiB, with a budget of 4 MiB of log."""
    folder.mkdir()
    spec = {"name": "w", "argv": ["head", "-c", "8M", "/dev/zero"], "env": {"PATH": os.environ["PATH"]}, "cwd": "/"}
    spec |= {"log": {"folder": str(folder / "log"), "budget": 4 << 20}}
    (folder / journal.SPEC).write_text(json.dumps(spec))
    (folder / journal.FILE).write_text("")
    began = time.monotonic()
    code = (
        f"{program}; from muster_cluster_agent.adapters.local.supervisor import supervise; supervise({str(folder)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    return time.monotonic() - began


def test_a_log_flows_unless_throttled(tmp_path: Path) -> None:
    unthrottled = "from muster_cluster_agent.adapters.local import logfile; logfile.Throttle.pause = lambda *_: 0.0"
    slow, fast = flood(tmp_path / "slow", "pass"), flood(tmp_path / "fast", unthrottled)
    assert slow > 3.5
    assert fast < slow / 2


HIDDEN = """
import os, time
file = open("hidden", "wb")
os.unlink("hidden")
file.write(bytes(64 << 20))
file.flush()
print("made", flush=True)
time.sleep(60)
"""
KEPT = "import time\nopen('kept', 'wb').write(bytes(8 << 20))\nprint('made', flush=True)\ntime.sleep(60)"


async def largest(backend: LocalBackend) -> str:
    """Which of two workloads ends in need: number 1 hides 64 MiB in a file without a name, number 2 keeps 8 MiB."""
    for number, program in ((1, HIDDEN), (2, KEPT)):
        wanted = assignment(number, python(program))
        (made,) = plan.replica_plans(wanted, wanted.newest)
        await backend.act(Create(made))

        async def printed(name: str = made.name) -> bytes:
            return await backend.log_tail(name, 1 << 16)

        await eventually(printed, lambda text: b"made" in text, within=60)
    await backend._rounds.end_the_greedy(critical=True)
    (stopped,) = [replica.workload_id for replica in backend._replicas if "stop" in replica.spec]
    return stopped


@pytest.mark.parametrize("counted", [True, False])
async def test_a_file_without_a_name_costs_another_workload_unless_it_is_counted(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, *, counted: bool
) -> None:
    if not counted:
        monkeypatch.setattr(disk, "add_unnamed", lambda *_: None)
    assert await largest(backend) == workload_id(1 if counted else 2)


@needs_root
@needs_landlock
def test_without_a_namespace_its_segments_stay(tmp_path: Path) -> None:
    code = f"from muster_cluster_agent.adapters.local import mounts; mounts.NAMESPACES.pop('ipc'); {SUPERVISE}"
    try:
        supervised(tmp_path, [*PYTHON, a14.IPC], 61_235, code=code).wait(timeout=30)
        assert sorted(a14.left_in_the_machine(61_235)) == ["msg of 61235", "sem of 61235", "shm of 61235"]
    finally:
        _remove_ipc(61_235)


def _remove_ipc(uid: int) -> None:
    """Remove what of System V belongs to a user."""
    libc, remove = ctypes.CDLL(None), 0  # IPC_RMID
    for kind, call in (("shm", libc.shmctl), ("msg", libc.msgctl)):
        for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]:
            if str(uid) in line.split():
                call(int(line.split()[1]), remove, None)
    for line in Path("/proc/sysvipc/sem").read_text().splitlines()[1:]:
        if str(uid) in line.split():
            libc.semctl(int(line.split()[1]), 0, remove)
