"""The fork server's spare supervisors: they are there before they are asked for, and never in anybody's way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster_cluster_agent.adapters.local import forkserver, journal, procfs
from muster_cluster_agent.adapters.local.nursery import Nursery
from tests.support.waiting import until


@pytest.fixture
async def nursery(tmp_path: Path) -> AsyncIterator[Nursery]:
    nursery = Nursery(tmp_path / "supervisors.err")
    await nursery.open()
    yield nursery
    await nursery.close()


def replica(folder: Path, name: str) -> Path:
    """A folder of a replica that writes its name and ends."""
    here = folder / name
    here.mkdir()
    (here / journal.FILE).touch()
    spec = {
        "name": name,
        "argv": ["/bin/sh", "-c", f"echo {name}"],
        "env": {"PATH": os.defpath},
        "cwd": "/",
        "log": {"folder": str(here / "log"), "budget": 1 << 20},
    }
    (here / journal.SPEC).write_text(json.dumps(spec))
    return here


def children(parent: int) -> list[int]:
    """Its child processes."""
    return [pid for pid in procfs.pids() if (found := procfs.stat(pid)) is not None and found.parent == parent]


def spares(nursery: Nursery) -> set[int]:
    """The supervisors below the fork server, each with the process that will be its command."""
    assert nursery._process is not None
    parent = nursery._process.pid
    return {pid for pid in children(parent) if len(children(pid)) == 1}


async def full(nursery: Nursery) -> set[int]:
    """The spares, once there are as many as there can be."""
    await until(lambda: len(spares(nursery)) == forkserver._SPARES)
    return spares(nursery)


async def ended(here: Path) -> None:
    await until(lambda: any(line["event"] == "gone" for line in journal.read(str(here))))


def exit_codes(here: Path) -> list[int]:
    return [line["code"] for line in journal.read(str(here)) if line["event"] == "exited"]


async def test_a_start_takes_a_process_that_was_there_before(nursery: Nursery, tmp_path: Path) -> None:
    before = await full(nursery)
    here = replica(tmp_path, "w-1")
    pid = await nursery.fork(here)
    assert pid in before
    await ended(here)
    assert exit_codes(here) == [0]
    assert len(await full(nursery) & before) == forkserver._SPARES - 1


async def test_more_starts_than_spares_get_processes_of_their_own(nursery: Nursery, tmp_path: Path) -> None:
    before = await full(nursery)
    folders = [replica(tmp_path, f"w-{number}") for number in range(3 * forkserver._SPARES)]
    pids = await asyncio.gather(*(nursery.fork(here) for here in folders))
    assert len(set(pids)) == len(folders)
    assert before < set(pids)
    for here in folders:
        await ended(here)
        assert exit_codes(here) == [0]


async def test_a_spare_that_was_killed_takes_no_start_with_it(nursery: Nursery, tmp_path: Path) -> None:
    before = await full(nursery)
    started = {pid: procfs.start_time(pid) or 0 for pid in before}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not any(procfs.alive(pid, begun) for pid, begun in started.items()))
    here = replica(tmp_path, "w-1")
    assert await nursery.fork(here) not in before
    await ended(here)
    assert exit_codes(here) == [0]


async def test_spares_end_with_the_fork_server(nursery: Nursery) -> None:
    waiting = await full(nursery)
    commands = {command for pid in waiting for command in children(pid)}
    started = {pid: procfs.start_time(pid) for pid in waiting | commands}
    assert nursery._process is not None
    nursery._process.send_signal(signal.SIGKILL)
    await until(lambda: not any(begun and procfs.alive(pid, begun) for pid, begun in started.items()))
