"""A replica that wants more than its budget ends by itself, says why, and takes nothing else with it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster_cluster_agent.adapters.local import cgroups
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain import status
from muster_cluster_agent.domain.actions import Create, Outcome, Remove
from muster_cluster_agent.domain.model import Failure, Observed
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.end import end
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually

FILE = """
cluster: c
log_budget: 4Mi
budgets: {memory: 64Mi, processes: 20, disk: 8Mi}
nodes: [{name: n-0}]
"""
FORKS = """
import os, time
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
except OSError:
    os._exit(3)
"""
USABLE = cgroups.find(1024).controllers


def needs(controller: str) -> pytest.MarkDecorator:
    """Skip where the machine gives no control group of this kind."""
    return pytest.mark.skipif(controller not in USABLE, reason=f"no writable {controller} control group here")


@pytest_asyncio.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    (tmp_path / "c.yaml").write_text(FILE)
    state = StateFolder(tmp_path / "state")
    async with LocalBackend(tmp_path / "c.yaml", state) as local:
        yield local
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0


async def ended(backend: LocalBackend, program: str) -> Observed:
    """The replica that ran this Python program, once nothing of it is left."""
    wanted = assignment(1, f"{sys.executable} -c '{program}'")
    (plan,) = replica_plans(wanted, wanted.newest)
    assert (await backend.act(Create(plan))).outcome is Outcome.DONE

    async def look() -> Observed:
        return next(one for one in await backend.list() if one.name == plan.name)

    return await eventually(look, lambda one: one.gone, within=60)


def told(replica: Observed) -> tuple[Failure, str]:
    """The report of its end to the scheduler."""
    judged = status.judge(replica, None)
    return judged.failure, judged.message


@needs("memory")
async def test_more_memory_than_the_limit_ends_the_replica_and_says_so(backend: LocalBackend) -> None:
    failure, message = told(await ended(backend, "x = bytearray(300 << 20)"))
    assert (failure, message) == (
        Failure.OUT_OF_MEMORY,
        "used more memory than its limit of 64Mi (memoryLimit raises it)",
    )


@needs("memory")
async def test_shared_memory_counts_and_goes_with_the_replica(backend: LocalBackend) -> None:
    shared = Path("/dev/shm/muster-test-left-behind")
    write = f'f = open("{shared}", "wb"); [f.write(bytes(1 << 20)) for _ in range(300)]'
    replica = await ended(backend, write)
    assert replica.ended is not None
    assert replica.ended.code != 0
    assert not await asyncio.to_thread(shared.exists)


@needs("pids")
async def test_a_fork_bomb_is_refused_processes_and_says_so(backend: LocalBackend) -> None:
    failure, message = told(await ended(backend, FORKS))
    assert failure is Failure.EXIT
    assert message == "wanted more processes and threads than its limit of 20 (budgets.processes of the cluster)"


async def test_no_file_grows_beyond_the_budget_of_disk(backend: LocalBackend, tmp_path: Path) -> None:
    write = 'import signal; signal.signal(25, signal.SIG_DFL); open("big", "wb").write(bytes(16 << 20))'
    failure, message = told(await ended(backend, write))
    sizes = await asyncio.to_thread(lambda: [path.stat().st_size for path in (tmp_path / "state").rglob("big")])
    assert len(sizes) == 1
    assert sizes[0] <= 8 << 20
    assert (failure, message) == (
        Failure.EXIT,
        "wrote a file larger than its limit of 8Mi (budgets.disk of the cluster)",
    )


async def test_the_kernel_takes_a_replica_before_any_server(backend: LocalBackend) -> None:
    replica = await ended(backend, 'raise SystemExit(int(open("/proc/self/oom_score_adj").read()) // 10)')
    assert replica.ended is not None
    assert replica.ended.code == 100


def _groups(backend: LocalBackend, name: str) -> list[Path]:
    replica = backend._replicas.get(name)
    assert replica is not None
    groups = [Path(group["folder"]) for group in replica.spec["budget"]["groups"]]
    assert {group.parent for group in groups} == {controller.folder for controller in USABLE.values()}
    return groups


async def _without(groups: list[Path]) -> None:
    async def left() -> list[Path]:
        return [folder for folder in groups if folder.exists()]

    await eventually(left, lambda folders: not folders)


async def test_its_groups_go_with_the_replica(backend: LocalBackend) -> None:
    replica = await ended(backend, "pass")
    await _without(_groups(backend, replica.name))  # it is gone a moment before them


async def test_groups_that_a_killed_supervisor_has_left_go_when_the_replica_is_removed(backend: LocalBackend) -> None:
    replica = await ended(backend, "pass")
    groups = _groups(backend, replica.name)
    await _without(groups)
    for folder in groups:
        folder.mkdir()
    assert (await backend.act(Remove(replica.name))).outcome is Outcome.DONE
    await _without(groups)


async def test_a_flood_of_output_waits_for_its_log(backend: LocalBackend) -> None:
    """A burst of one budget of 4 MiB at once, then 1 MiB a second: 6 MiB take two seconds and not a blink."""
    began = time.monotonic()
    replica = await ended(backend, "import os; [os.write(1, bytes(1 << 16)) for _ in range(96)]")
    assert replica.ended is not None
    assert replica.ended.code == 0
    assert time.monotonic() - began > 1.5


@needs("cpu")
def test_all_replicas_together_get_a_tenth_of_another_session_where_both_want_the_cpu() -> None:
    weight, shares = (USABLE["cpu"].folder / name for name in ("cpu.weight", "cpu.shares"))
    assert (weight.read_text().strip() == "10") if weight.exists() else (shares.read_text().strip() == "102")


@needs("cpu")
async def test_a_core_that_only_replicas_use_counts_as_idle_and_a_replica_cannot_change_that(
    backend: LocalBackend,
) -> None:
    program = """
import os
before = os.sched_getscheduler(0)
try:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
except PermissionError:
    raise SystemExit(100 + before)
raise SystemExit(before)
"""
    replica = await ended(backend, program)
    assert replica.ended is not None
    assert replica.ended.code == (100 if os.getuid() == 0 else 0) + os.SCHED_IDLE
