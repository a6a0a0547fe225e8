"""Rule 7, the agent's half: capacity returns when no process is left, and silence is not an end.

Taken out here: ending strays before GONE (GONE is told while a process still holds the device), waiting out a silent
node (GONE is told of what may still run), and the dead-man's deadline (a replica of a lost cluster runs on).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import limits, procfs
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain import reconcile
from muster_cluster_agent.domain.model import NodeHealth, NodeView, Observed
from muster_cluster_agent.end import end
from muster_cluster_agent.ports import StatusReport
from tests.support.agent_loops import Told, assignment, release, running
from tests.support.agents import workload_id
from tests.support.backends import FakeBackend
from tests.support.waiting import eventually, until

FILE = "cluster: c\nnodes:\n  - {name: n-0, devices: {count: 2, model: A100-40GB, memory: 40Gi}}\n"


@asynccontextmanager
async def local(folder: Path, file: str = FILE) -> AsyncIterator[LocalBackend]:
    """A local back end that leaves nothing running."""
    (folder / "cluster.yaml").write_text(file)
    state = StateFolder(folder / "state")
    try:
        async with LocalBackend(folder / "cluster.yaml", state) as backend:
            yield backend
    finally:
        state.close()
        assert await asyncio.to_thread(end, folder / "state") == 0


# -------------------------------------------------------------------------------- no process is left when GONE is told


async def _processes_at_gone(folder: Path) -> int:
    """A supervisor is killed; its command has a child in another session. What runs when GONE is told?"""
    command = f"{sys.executable} -c 'import os,time; os.fork() or os.setsid(); time.sleep(1000)'"
    left = -1

    class Listening(Told):
        def tell(self, report: object) -> None:
            nonlocal left
            super().tell(report)  # type: ignore[arg-type]
            if isinstance(report, StatusReport) and report.status.state.name == "GONE":
                left = len(procfs.marked(backend._state.instance).get(report.status.name, []))

    async with local(folder) as backend:
        told = Listening()
        async with running(backend, told) as agent:
            agent.take(assignment(1, command))
            instance = backend._state.instance
            await until(lambda: any(len(pids) == 2 for pids in procfs.marked(instance).values()), within=60)
            (replica,) = backend._replicas
            await until(replica.supervisor, within=60)  # its processes may run before its journal was read
            supervisor = replica.supervisor()
            assert supervisor is not None
            os.kill(supervisor[0], signal.SIGKILL)
            await until(lambda: "GONE" in told.states(1), within=60)
    return left


async def test_gone_is_told_when_no_process_is_left(tmp_path: Path) -> None:
    assert await _processes_at_gone(tmp_path) == 0


async def test_without_ending_strays_it_is_told_too_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "end_marked", _looks_away)
    monkeypatch.setattr(limits, "end", _looks_away)
    assert await _processes_at_gone(tmp_path) >= 1


def _looks_away(*_: object, seconds: float) -> bool:
    """Takes the mechanism out."""
    return seconds > 0


# ----------------------------------------------------------------------------------------------- silence is not an end


async def _told_of_a_silent_node() -> list[str]:
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1, "sleep"))
        await until(lambda: told.states(1) == ["READY"])
        fake.set_node("n-0", NodeHealth.SILENT)
        await until(lambda: len(told.states(1)) > 1)
        await until(lambda: agent.agenda.quiet)
    return told.states(1)


async def test_a_silent_node_is_lost_and_not_gone() -> None:
    assert await _told_of_a_silent_node() == ["READY", "LOST"]


async def test_without_waiting_it_is_declared_gone_while_it_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(_: Observed, node: NodeView | None) -> str:
        return "node-gone" if node is None or node.health is not NodeHealth.UP else ""

    monkeypatch.setattr(reconcile, "_lost_for_good", hasty)
    assert "GONE" in await _told_of_a_silent_node()


# --------------------------------------------------------------------------------------------- the dead-man's deadline


async def _ends_by_itself(
    folder: Path, dead_man: str, holds: Callable[[Told], bool], command: str = "sleep 1000", *, stopping: bool = False
) -> bool:
    """One heartbeat is acknowledged and no other. Does the replica end by itself?

    stopping: it has been told to end once it says that it is deaf, and has a grace that is longer than the deadline.
    """
    async with local(folder, f"{dead_man}\n{FILE}") as backend:
        told = Told()
        await backend.renew(time.monotonic(), await backend.dead_man())
        async with running(backend, told) as agent:
            agent.take(assignment(1, command))
            await until(lambda: "READY" in told.states(1), within=60)
            if stopping:
                (name,) = await backend.replicas_with_logs(workload_id(1))
                await eventually(lambda: backend.log_tail(name, 100), lambda said: b"deaf" in said, within=60)
                agent.take(replace(release(1), grace=300.0))
            try:
                await until(lambda: holds(told), within=10)
            except TimeoutError:
                return False
    return True


def _dead(told: Told) -> bool:
    last = told.reports[-1]
    return isinstance(last, StatusReport) and last.status.state.name == "GONE"


async def test_a_replica_of_a_lost_cluster_ends_by_itself(tmp_path: Path) -> None:
    assert await _ends_by_itself(tmp_path, "dead_man: 4", _dead)


async def test_without_the_deadline_it_runs_on(tmp_path: Path) -> None:
    assert not await _ends_by_itself(tmp_path, "", _dead)


@pytest.mark.parametrize(("dead_man", "ends"), [("dead_man: 4", True), ("", False)])
async def test_a_replica_that_is_being_stopped_has_no_longer_than_the_deadline(
    tmp_path: Path, dead_man: str, *, ends: bool
) -> None:
    ignores = "sh -c \"trap '' TERM; echo deaf; while :; do sleep 1; done\""
    assert await _ends_by_itself(tmp_path, dead_man, _dead, ignores, stopping=True) is ends
