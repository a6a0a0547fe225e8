"""Rule 10: what the agent knows is on the disk before a process starts, and what was found dead is not started again.

Taken out here: the journal before the start (a process runs of which the disk knows nothing), the folder that uses its
name up (what died with its supervisor is started a second time), and waiting for the bus before forgetting (the last
report of a replica is lost for ever).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import procfs
from muster_cluster_agent.adapters.local.replicas import Replica, ReplicaStore
from muster_cluster_agent.adapters.local.workdirs import digest_of
from muster_cluster_agent.domain.model import Status
from muster_cluster_agent.domain.reports import ReportBook
from tests.rules.test_rule_07_agents_say_gone_only_when_it_is import local
from tests.support.agent_loops import Told, assignment, release, running
from tests.support.agents import workload_id
from tests.support.backends import FakeBackend
from tests.support.waiting import until

# ---------------------------------------------------------------------------- on the disk before the first instruction

_WITH = "from muster_cluster_agent.adapters.local.supervisor import supervise; import sys; supervise(sys.argv[1])"
_WITHOUT = (
    "from muster_cluster_agent.adapters.local import journal; "
    f"journal.Journal.append = lambda self, *lines: None; {_WITH}"
)


def _known_at_the_first_instruction(folder: Path, code: str) -> list[str]:
    """The command copies its journal as its first act: which events does the disk know by then?"""
    copy = folder / "copy"
    spec = {
        "name": "w-x",
        "argv": ["/bin/cp", str(folder / "journal"), str(copy)],
        "env": {"PATH": os.environ["PATH"], procfs.MARK: "w-x"},
        "cwd": "/",
        "log": {"folder": str(folder / "log"), "budget": 4096},
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    (folder / "journal").touch()
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)
    return [json.loads(line)["event"] for line in copy.read_text().splitlines()]


def test_the_disk_knows_a_process_before_its_first_instruction(tmp_path: Path) -> None:
    assert _known_at_the_first_instruction(tmp_path, _WITH) == ["supervised", "started"]


def test_without_the_journal_it_does_not(tmp_path: Path) -> None:
    assert _known_at_the_first_instruction(tmp_path, _WITHOUT) == []


# -------------------------------------------------------------------------------------- what was found dead stays dead


async def _starts_after_both_were_killed(folder: Path) -> int:
    """The supervisor dies while no agent is there, and the assignment stands. How often is the command started?"""
    marks = folder / "state" / "work" / digest_of(workload_id(1)) / "keep" / "marks"
    wanted = assignment(1, "sh -c 'echo >> ${MUSTER_WORKLOAD_DIR}/marks; sleep 1000'".replace("'", '"'))
    async with local(folder) as backend:
        told = Told()
        async with running(backend, told) as agent:
            agent.take(wanted)
            await until(lambda: "READY" in told.states(1) and marks.exists(), within=60)
        (replica,) = backend._replicas
        supervisor = replica.supervisor()
        assert supervisor is not None
        procfs.send(*supervisor, signal.SIGKILL)
    async with local(folder) as backend:
        told = Told()
        async with running(backend, told) as agent:
            agent.take(wanted)
            await until(lambda: "GONE" in told.states(1) or len(marks.read_text()) > 1, within=60)
    return len(marks.read_text())


async def test_what_was_found_dead_is_never_started_again(tmp_path: Path) -> None:
    assert await _starts_after_both_were_killed(tmp_path) == 1


async def test_without_the_folder_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ReplicaStore.load

    def forgets(store: ReplicaStore) -> list[Replica]:
        found = kept(store)
        for replica in found:
            shutil.rmtree(store._state.replica(replica.name))
        return []

    monkeypatch.setattr(ReplicaStore, "load", forgets)
    assert await _starts_after_both_were_killed(tmp_path) == 2


# --------------------------------------------------------------------------------- forgotten only when everybody knows


async def _kept_until_the_bus_has_it() -> bool:
    """The tombstone is there, the bus takes no reports: is the replica still known, so that its end can be told?"""
    fake, told = FakeBackend(), Told(at_once=False)
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: "GONE" in told.states(1))
        agent.take(release(1))
        agent.take(assignment(2))
        await until(lambda: "GONE" in told.states(2))
        await until(lambda: agent.agenda.quiet)
        await asyncio.sleep(0)
    return len(fake.replicas) == 2


async def test_a_replica_is_kept_until_the_bus_has_its_end() -> None:
    assert await _kept_until_the_bus_has_it()


async def test_without_waiting_for_the_bus_its_end_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    due = ReportBook.due

    def trusting(book: ReportBook, status: Status) -> tuple[Status, ...]:
        found = due(book, status)
        for one in found:
            book.acknowledge(one)
        return found

    monkeypatch.setattr(ReportBook, "due", trusting)
    assert not await _kept_until_the_bus_has_it()
