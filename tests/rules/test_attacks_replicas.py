"""The attacks of A1 and A2 fail on a replica as it is started, and work once what prevents them is substituted."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from muster_cluster_agent.adapters.local import beneath, logfile, workdirs
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.confiner import Confiner
from muster_cluster_agent.adapters.local.specs import SpecWriter
from muster_cluster_agent.domain.actions import Create, Outcome
from muster_cluster_agent.domain.confinement import Level
from muster_cluster_agent.domain.model import Observed
from muster_cluster_agent.domain.plan import replica_plans
from tests.attacks.rows import a1_working_folders as a1
from tests.attacks.rows import a2_confinement as a2
from tests.attacks.stage import python
from tests.integration.agent.test_confined_replicas import SUPERVISE, needs_landlock, needs_root, supervised
from tests.rules.test_rule_07_agents_say_gone_only_when_it_is import local
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually

SECRET: Final = "credentials/admin.json"


def private_files(folder: Path) -> None:
    """What a stack keeps in its data folder."""
    for name in (SECRET, "secrets.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("private\n")
        (folder / name).chmod(0o600)
    folder.chmod(0o700)


@asynccontextmanager
async def stack(folder: Path) -> AsyncIterator[LocalBackend]:
    """A back end whose state folder lies in a data folder with private files, as that of a stack."""
    private_files(folder)
    async with local(folder) as backend:
        if backend._confiner.ability.level is Level.NONE:
            pytest.skip(f"replicas cannot be confined here: {backend._confiner.ability.reason}")
        yield backend


async def log_of(backend: LocalBackend, program: str, number: int = 1) -> str:
    """What a replica that runs the program has printed."""
    wanted = assignment(number, python(program))
    (plan,) = replica_plans(wanted, wanted.newest)
    assert (await backend.act(Create(plan))).outcome is Outcome.DONE

    async def look() -> Observed:
        return next(one for one in await backend.list() if one.name == plan.name)

    await eventually(look, lambda one: one.gone, within=60)
    return (await backend.log_tail(plan.name, 1 << 16)).decode()


def unconfined(patch: pytest.MonkeyPatch) -> None:
    """Replicas start as the stack's own user, who reaches everything of it."""
    patch.setattr(Confiner, "of", lambda *_: None)
    patch.setattr(Confiner, "account", lambda *_: None)


def in_the_data_folder(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Replicas start where the stack keeps its files, as they did before they had folders of their own."""
    unconfined(patch)
    patch.setattr(SpecWriter, "_cwd", lambda *_: str(folder))


# ------------------------------------------------------------------------------------------------------------------ A1


async def test_a_replica_finds_nothing_of_the_stack(tmp_path: Path) -> None:
    async with stack(tmp_path) as backend:
        upwards = await log_of(backend, a1.SECRET_SEARCH)
        writes = await log_of(backend, a1.RELATIVE_WRITES, 2)
        await log_of(backend, "open('mine', 'w').write('kept')", 3)
        others = await log_of(backend, a1.OTHER_RUNS, 4)
    assert "REACHED" not in upwards
    assert "SEARCHED" in upwards
    assert "WROTE secrets.json" in writes
    assert (tmp_path / "secrets.json").read_text() == "private\n"
    assert "SAW" not in others
    assert "WALKED" in others


async def test_from_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_data_folder(monkeypatch, tmp_path)
    async with stack(tmp_path) as backend:
        assert f"REACHED {tmp_path / SECRET}" in await log_of(backend, a1.SECRET_SEARCH)


async def test_in_the_data_folder_writes_land(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_data_folder(monkeypatch, tmp_path)
    async with stack(tmp_path) as backend:
        await log_of(backend, a1.RELATIVE_WRITES)
    assert (tmp_path / "secrets.json").read_text() == "name: stolen\n"


async def test_unconfined_it_sees_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined(monkeypatch)
    async with stack(tmp_path) as backend:
        await log_of(backend, "open('mine', 'w').write('kept')", 3)
        assert "SAW" in await log_of(backend, a1.OTHER_RUNS, 4)


# ------------------------------------------------------------------------------------------------------------------ A2


def _paths(folder: Path) -> str:
    files = [folder / SECRET, folder / "secrets.json", folder / "state" / "lock", folder / "cluster.yaml"]
    return json.dumps([str(path) for path in files])


async def test_a_replica_reaches_nothing_beyond_its_grants(tmp_path: Path) -> None:
    async with stack(tmp_path) as backend:
        read = await log_of(backend, a2.READ_FILES.format(paths=_paths(tmp_path)))
        write = await log_of(backend, a2.WRITE_FILES.format(paths=_paths(tmp_path)), 2)
        processes = await log_of(backend, a2.OTHER_PROCESSES, 3)
        powers = await log_of(backend, a2.RAISE_POWERS, 4)
    assert a2.judged(read, "READ").held, read
    # One user sees its own files: Landlock keeps no mode from being changed (docs/guides/clusters.md).
    assert os.geteuid() or a2.judged(write, "CHANGED").held, write
    assert a2.judged(processes, "ENVIRONMENT", "SIGNAL").held, processes
    assert a2.judged(powers, "GOT").held, powers


async def test_unconfined_it_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined(monkeypatch)
    async with stack(tmp_path) as backend:
        log = await log_of(backend, a2.READ_FILES.format(paths=_paths(tmp_path)))
    assert f"READ {tmp_path / SECRET}" in log


async def test_unconfined_it_changes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined(monkeypatch)
    async with stack(tmp_path) as backend:
        log = await log_of(backend, a2.WRITE_FILES.format(paths=_paths(tmp_path)))
    assert f"CHANGED {tmp_path / 'secrets.json'}" in log
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o666


async def test_unconfined_it_sees_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined(monkeypatch)
    async with stack(tmp_path) as backend:
        log = await log_of(backend, a2.OTHER_PROCESSES)
    assert f"ENVIRONMENT {os.getpid()}" in log
    assert f"SIGNAL {os.getpid()}" in log


async def test_unconfined_it_keeps_its_powers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unconfined(monkeypatch)
    async with stack(tmp_path) as backend:
        assert "GOT new-privileges" in await log_of(backend, a2.RAISE_POWERS)


def test_a_reader_that_follows_links_is_led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"rank": 7, "exit_code": "private"}')
    told = tmp_path / "work" / "w" / "1.1" / "worker-0" / "told"
    told.mkdir(parents=True)
    (told / "record.json").symlink_to(secret)
    store = workdirs.Workdirs(tmp_path / "work")
    assert store.record(str(told)) is None
    monkeypatch.setattr(beneath, "_NO_SYMLINKS", 0)
    monkeypatch.setattr(beneath, "_BENEATH", 0)
    assert store.record(str(told)) == {"rank": 7, "exit_code": "private"}


def test_a_planted_folder_is_not_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "worker-1").symlink_to(outside)
    folder = os.open(run, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="symbolic links"):
            beneath.make_folder(folder, "worker-1", 0o700, None)
        monkeypatch.setattr(beneath, "_NO_SYMLINKS", 0)
        monkeypatch.setattr(beneath, "_BENEATH", 0)
        followed = beneath.make_folder(folder, "worker-1", 0o700, None)
        assert os.fstat(followed).st_ino == outside.stat().st_ino
        os.close(followed)
    finally:
        os.close(folder)


FOLLOWING: Final = """
import os
from muster_cluster_agent.adapters.local import places
places._open = lambda grant: os.open(grant.path, os.O_PATH)
"""


@needs_root
@needs_landlock
def test_a_tmp_opened_by_its_path_is_followed(tmp_path: Path) -> None:
    seen = {}
    for name, code in (("held", SUPERVISE), ("followed", FOLLOWING + SUPERVISE)):
        own = tmp_path / name / "own"
        own.mkdir(parents=True)
        os.chown(own, 61_234, 61_234)
        (own / "tmp").symlink_to("/")
        argv = ["/bin/sh", "-c", "ls /var && echo REACHED /var"]
        supervised(tmp_path / name, argv, 61_234, tmp="tmp", code=code).wait(timeout=30)
        seen[name] = logfile.tail(str(tmp_path / name / "log"), 4096).decode()
    assert "REACHED" not in seen["held"]
    assert "REACHED /var" in seen["followed"], seen
