"""Supervisors, logs, shims and addresses on this machine, without Kafka."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster_cluster_agent import shims
from muster_cluster_agent.adapters.local import journal, log_times, logfile, procfs, readiness
from muster_cluster_agent.adapters.local.addresses import FIRST, LAST, Ports
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.proxy import Proxy
from muster_cluster_agent.adapters.local.replicas import ReplicaStore
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Create, Outcome, Stop
from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.end import end
from muster_cluster_agent.errors import StateFolderError
from tests.support.agent_loops import assignment
from tests.support.agents import workload_id
from tests.support.waiting import eventually, eventually_now

SHIMS = Path(shims.__file__).parent
FILE = "cluster: c\nlog_budget: 64Ki\nnodes: [{name: n-0}]\n"


@pytest_asyncio.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    (tmp_path / "c.yaml").write_text(FILE)
    state = StateFolder(tmp_path / "state")
    async with LocalBackend(tmp_path / "c.yaml", state) as local:
        yield local
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0


def marked(backend: LocalBackend) -> dict[str, list[int]]:
    """The living processes of the backend's replicas."""
    return procfs.marked(backend._state.instance)


async def start(backend: LocalBackend, command: str, number: int = 1) -> str:
    plan = plan_of(command, number)
    answer = await backend.act(Create(plan))
    assert answer.outcome is Outcome.DONE
    return plan.name


def plan_of(command: str, number: int) -> ReplicaPlan:
    wanted = assignment(number, command)
    (plan,) = replica_plans(wanted, wanted.newest)
    return plan


async def gone(backend: LocalBackend, name: str) -> Observed:
    async def look() -> Observed:
        return next(one for one in await backend.list() if one.name == name)

    return await eventually(look, lambda one: one.gone, within=60)


async def test_sigterm_then_the_whole_tree_also_in_sessions_of_its_own(backend: LocalBackend) -> None:
    ignoring = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    code = f"import os,signal,time; {ignoring}; os.fork() or os.setsid(); time.sleep(1000)"
    name = await start(backend, f"{sys.executable} -c '{code}'")
    await asyncio.to_thread(eventually_now, lambda: len(marked(backend).get(name, [])) == 2, within=60)
    began = time.monotonic()
    await backend.act(Stop(name, 0.5, "released"))
    found = await gone(backend, name)
    assert found.ended is not None
    assert found.ended.code == 137
    assert time.monotonic() - began >= 0.5
    assert name not in marked(backend)


async def test_a_wish_that_lies_there_before_the_supervisor_comes_is_taken_up(
    backend: LocalBackend, tmp_path: Path
) -> None:
    name = await start(backend, "true")
    await gone(backend, name)
    folder, late = backend._state.replica(name), tmp_path / "late"
    spec = journal.read_spec(str(folder)) | {"argv": ["sleep", "1000"], "notify": ""}
    late.mkdir()
    (late / journal.SPEC).write_text(json.dumps(spec))
    (late / journal.FILE).write_text("")
    (late / journal.STOP).write_text(json.dumps({"grace": 0.1, "reason": "Deleted"}))
    code = f"from muster_cluster_agent.adapters.local.supervisor import supervise; supervise({str(late)!r})"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True, timeout=60)
    events = [line["event"] for line in journal.read(str(late))]
    assert events == ["supervised", "started", "stopping", "exited", "gone"]


async def test_who_asks_with_an_old_journal_in_mind_wakes_the_supervisor_all_the_same(backend: LocalBackend) -> None:
    name = await start(backend, "sleep 1000")
    replica = await asyncio.to_thread(
        eventually_now, lambda: backend._store.read(name), lambda read: read is not None and read.running, within=60
    )
    assert replica is not None
    replica.lines = []  # as it was read before the supervisor had named itself
    backend._store.ask_to_stop(replica, 0.1, "Deleted")
    found = await gone(backend, name)
    assert found.stop_reason == "Deleted"


async def test_an_agent_that_comes_back_wakes_whoever_has_not_taken_its_wish_up(backend: LocalBackend) -> None:
    name = await start(backend, "sleep 1000")
    await asyncio.to_thread(eventually_now, lambda: bool(journal.read(str(backend._state.replica(name)))), within=60)
    wish = json.dumps({"grace": 0.1, "reason": "Deleted"})
    (backend._state.replica(name) / journal.STOP).write_text(wish)  # and the agent died before it woke anybody
    replica = backend._store.read(name)
    assert replica is not None
    backend._watcher.adopt(replica)
    assert (await gone(backend, name)).stop_reason == "Deleted"


async def test_within_its_grace_a_child_of_an_ended_command_may_finish(backend: LocalBackend) -> None:
    child = 'trap "sleep 0.3; touch saved; exit" TERM; touch armed; while true; do sleep 0.02; done'
    name = await start(backend, f"sh -c '({child}) & wait'")
    work = backend._workdirs.folders(workload_id(1), name).work
    await asyncio.to_thread(eventually_now, (work / "armed").exists, within=60)
    await backend.act(Stop(name, 20.0, "released"))
    await gone(backend, name)
    assert (work / "saved").exists()


async def test_what_a_command_leaves_behind_goes_with_it(backend: LocalBackend) -> None:
    name = await start(backend, "sh -c 'setsid sleep 1000 & exit 0'")
    found = await gone(backend, name)
    assert found.ended is not None
    assert found.ended.code == 0
    assert name not in marked(backend)


async def test_a_log_keeps_to_its_budget_and_its_positions(backend: LocalBackend) -> None:
    name = await start(backend, f"{sys.executable} -c 'for i in range(20000): print(i)'")
    await gone(backend, name)
    folder = str(backend._state.log(name))
    kept = sum([len(await asyncio.to_thread(Path(path).read_bytes)) for _, path in logfile.segments(folder)])
    assert kept <= 2 * (64 << 10)
    assert (await backend.log_tail(name, 11)).decode() == "19999\n"
    lines = b"".join([piece async for piece in backend.read_log(name)])
    whole = lines.splitlines()[1:]  # the first one may be torn: what was dropped is the oldest part
    assert whole == [b"%d" % number for number in range(20000 - len(whole), 20000)]
    assert logfile.first_position(folder, time.time() + 60, 0) == sum(len(str(i)) + 1 for i in range(20000))


async def test_a_log_is_read_since_a_moment(backend: LocalBackend) -> None:
    began = time.time()
    name = await start(backend, "sh -c 'echo early; sleep 2.5; echo late'")
    await gone(backend, name)
    pairs = log_times._read(str(backend._state.log(name) / "times"))
    assert [position for position, _ in pairs] == [0, len("early\n")]

    async def since(moment: float, lines: int = 0) -> bytes:
        return b"".join([piece async for piece in backend.read_log(name, since=moment, tail=lines)])

    assert await since(pairs[1][1]) == b"late\n"
    assert await since(began) == b"early\nlate\n"
    assert await since(began, lines=1) == b"late\n"
    assert await since(time.time() + 60) == b""


async def test_a_fork_server_that_was_killed_is_started_again(backend: LocalBackend) -> None:
    first = await start(backend, "sleep 1000")
    process = backend._nursery._process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.wait)
    second = await start(backend, "true", number=2)
    await gone(backend, second)
    await asyncio.to_thread(eventually_now, lambda: first in marked(backend))


async def test_kept_folders_are_looked_at_in_turn(backend: LocalBackend) -> None:
    names = {f"w{number}" for number in range(3)}
    for name in names:
        backend._workdirs.make(backend._workdirs.folders(name, f"w-{name}-g1-a1-worker-0-r0"), name, None)
    seen = [[each.workload_id for each in await backend.kept(2)] for _ in range(4)]
    assert [len(each) for each in seen] == [2, 1, 2, 1]
    assert {*seen[0], *seen[1]} == {*seen[2], *seen[3]} == names


async def test_agents_of_one_machine_leave_each_others_replicas_of_the_same_name(
    backend: LocalBackend, tmp_path: Path
) -> None:
    """As where a stack restored from a copy runs beside the one that was copied."""
    ours = await start(backend, "sleep 1000")
    state = StateFolder(tmp_path / "copy")
    async with LocalBackend(tmp_path / "c.yaml", state) as copy:
        assert await start(copy, "sleep 1000") == ours
        await asyncio.to_thread(eventually_now, lambda: ours in marked(backend) and ours in marked(copy), within=60)
        await copy.act(Stop(ours, 0.0, "released"))
        await gone(copy, ours)
        assert (await copy.act(Create(plan_of("sleep 1000", number=2)))).outcome is Outcome.DONE
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0
    assert not procfs.marked(state.instance)
    (replica,) = await backend.list()
    assert not replica.gone
    assert ours in marked(backend)


async def test_one_agent_a_folder(backend: LocalBackend) -> None:
    with pytest.raises(StateFolderError, match="in use by another agent"):
        StateFolder(backend._state.root)


def test_supervisors_import_the_standard_library_alone() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import muster_cluster_agent.adapters.local.forkserver; "
        "print([m for m in sys.modules if m.split('.')[0] not in sys.stdlib_module_names and m != '__main__'])"
    )
    source = str(Path(readiness.__file__).parents[3])
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, source], capture_output=True, text=True, check=True, timeout=60
    )
    names = set(said.stdout.strip("[]\n").replace("'", "").split(", "))
    package = "muster_cluster_agent.adapters.local"
    domain = "muster_cluster_agent.domain"
    allowed = {"muster_cluster_agent", "muster_cluster_agent.adapters", package, domain, f"{domain}.confinement"}
    own = (
        "beneath",
        "child",
        "command",
        "confine",
        "forkserver",
        "journal",
        "landlock",
        "limits",
        "log_times",
        "logfile",
        "mounts",
        "places",
        "procfs",
        "supervisor",
    )
    assert names == allowed | {f"{package}.{name}" for name in own}


def test_a_supervisor_that_comes_late_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal").touch()
    (tmp_path / "spec.json").write_text(json.dumps({"name": "x", "log": {"folder": str(tmp_path / "l"), "budget": 1}}))
    book = journal.Journal(str(tmp_path))
    book.append({"event": "abandoned", "reason": "found dead"})
    assert journal.held(str(tmp_path))
    book.close()
    code = "import sys; from muster_cluster_agent.adapters.local.supervisor import supervise; supervise(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert [line["event"] for line in journal.read(str(tmp_path))] == ["abandoned"]


def test_a_torn_line_is_skipped_and_ended(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text('{"event": "started"}\n{"event": "exi')
    book = journal.Journal(str(tmp_path))
    book.append({"event": "gone"})
    book.close()
    assert [line["event"] for line in journal.read(str(tmp_path))] == ["started", "gone"]
    assert journal.read(str(tmp_path / "nowhere")) == []


def test_a_command_runs_in_the_worker_that_it_was_sent_to(tmp_path: Path) -> None:
    daemon = subprocess.Popen(
        [sys.executable, "-I", "-S", str(SHIMS / "execd.py"), str(tmp_path / "exec.sock")],
        env={**os.environ, "WHO": "the worker"},
    )
    try:
        eventually_now((tmp_path / "exec.sock").exists, within=60)
        assert (tmp_path / "exec.sock").stat().st_mode & 0o777 == 0o600
        (tmp_path / "hosts.json").write_text(json.dumps({"h": str(tmp_path / "exec.sock")}))
        rsh = [sys.executable, "-I", "-S", str(SHIMS / "rsh.py")]
        env = {**os.environ, "MUSTER_HOSTS": str(tmp_path / "hosts.json")}

        def run(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run([*rsh, *words], env=env, capture_output=True, text=True, check=False, timeout=60)

        said = run("-x", "-o", "A=b", "h", "echo", '"$WHO"', ";", "exit", "3")
        assert (said.stdout, said.returncode) == ("the worker\n", 3)
        assert run("nobody", "true").returncode == 255
        caller = subprocess.Popen([*rsh, "h", "sleep", "1000"], env=env)
        eventually_now(lambda: bool(procfs.descendants(daemon.pid)), within=60)
        caller.kill()
        caller.wait()
        eventually_now(lambda: not procfs.descendants(daemon.pid), within=60)
    finally:
        daemon.terminate()
    assert daemon.wait(timeout=60) == 0


def test_ports_are_given_once_until_they_are_given_back() -> None:
    ports = Ports("seed")
    first = ports.take()
    assert FIRST <= first <= LAST
    ports._next = first
    second = ports.take()
    assert second != first
    ports.give_back(second)
    ports._next = second
    assert ports.take() == second


async def test_a_proxy_takes_servers_in_turn_and_skips_the_dead() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    ports = Ports("proxy")
    proxy, dead = Proxy(ports.take()), ports.take()
    await proxy.open()

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello\n")
        try:
            return await reader.read()
        except ConnectionResetError:
            return b"hung up"
        finally:
            writer.close()

    assert await ask() in {b"", b"hung up"}
    proxy.route((dead, port))
    assert [await ask() for _ in range(3)] == [b"hello\n"] * 3
    await proxy.close()
    server.close()
    await server.wait_closed()


async def test_readiness_needs_one_good_answer_and_three_bad_ones() -> None:
    answers = iter([False, True, False, False, True, False, False, False])
    heard: list[bool] = []

    async def question() -> bool:
        try:
            return next(answers)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        await readiness.watch(question, readiness.Pace(period=0.001), tell=heard.append)
    assert heard == [True, False]


async def test_nobody_listening_is_no_answer(tmp_path: Path) -> None:
    port = Ports("nobody").take()
    for question in (readiness.tcp(port), readiness.http(port, "x"), readiness.unix(tmp_path, "s")):
        assert not await readiness._ask(question, 2.0)


async def test_a_crash_while_forgetting_leaves_one_entry_and_no_folder(backend: LocalBackend, tmp_path: Path) -> None:
    name = await start(backend, "true")
    await gone(backend, name)
    replica = backend._replicas.get(name)
    assert replica is not None
    backend._state.remember(replica.spec, replica.lines)
    with (backend._state.root / "history.jsonl").open("a") as file:
        file.write('{"torn": ')
    assert ReplicaStore(backend._state).load() == []
    assert not backend._state.replica(name).exists()
    backend._state.remember({"name": "another"}, [])
    lines = (backend._state.root / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["spec"]["name"] for line in (lines[0], lines[2])] == [name, "another"]
