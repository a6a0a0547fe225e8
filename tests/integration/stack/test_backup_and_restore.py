"""`muster backup` and `muster restore`, as docs/guides/operate.md has them, on a whole stack with real replicas."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_client import Muster
from muster_client.errors import NotFound
from muster_client.phases import Phase
from muster_client.quotas import pool_quota
from muster_client.words import phase_of
from muster_stack import sealing_keys
from muster_stack.backup import backup, restore
from muster_stack.commands import end, keeper_command, start_detached
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout
from tests.chaos import checker, journals
from tests.support.stacks import running_stack
from tests.support.waiting import eventually

CLUSTER = """
cluster: alpha
nodes:
  - {name: alpha-1, cpu: 64, memory: 256Gi, devices: {count: 4, model: A100-40GB, memory: 40Gi}}
"""
TRAINING = """
apiVersion: run.ai/v2alpha1
kind: TrainingWorkload
metadata: {{name: {name}, namespace: runai-p}}
spec: {{image: {{value: none}}, gpu: {{value: '1'}}, command: {{value: sleep 1000}}}}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="muster-backup-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


async def _reaches(muster: Muster, workload: str, phase: Phase) -> None:
    async def seen() -> str:
        found = await muster.get(workload)
        return f"{phase_of(found)} {found.reason.message}".strip()

    await eventually(seen, lambda told: told.split()[0] == str(phase), within=60)


async def _runs(muster: Muster, name: str) -> str:
    made = await muster.submit(TRAINING.format(name=name), project="p")
    await _reaches(muster, made.id, Phase.RUNNING)
    return str(made.id)


async def _before(server: str) -> tuple[str, str]:
    async with Muster(server) as muster:
        await muster.projects.create("p", quotas=[pool_quota("default", 4)])
        return await _runs(muster, "kept"), await _runs(muster, "doomed")


async def _forgotten(server: str, doomed: str) -> str:
    """What happens after the backup was made: a workload comes, and another one is deleted."""
    async with Muster(server) as muster:
        forgotten = await _runs(muster, "forgotten")
        await muster.delete(doomed)
        await _reaches(muster, doomed, Phase.DELETED)
        return forgotten


async def _after(stack: Stack, kept: str, doomed: str, forgotten: str) -> None:
    async with Muster(stack.status()["services"]["submission"]["grpc"]) as muster:
        await _reaches(muster, kept, Phase.RUNNING)
        with pytest.raises(NotFound):
            await muster.get(forgotten)
        assert phase_of(await muster.get(doomed)) is not Phase.DELETED, "its deletion is forgotten"
        await muster.delete(doomed)
        await _reaches(muster, doomed, Phase.DELETED)
        await _runs(muster, "new")


def _restored_on_a_new_machine(saved: Path, other: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the second one is as after a restore that was ended halfway: there is a database already
        assert restore(saved, data=other.root, yes=True) == 0
        assert "0 workloads were newer" in capsys.readouterr().out
    assert (other.clusters / "alpha.yaml").read_text() == CLUSTER
    assert other.sealing_keys.read_text() == (saved / "sealing-keys").read_text()
    assert (saved / "muster.dump").stat().st_mode & 0o777 == 0o600


def test_a_restored_stack_goes_on_where_the_backup_was_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout, saved = Layout.of(folder / "stack"), folder / "saved"
    with running_stack(layout.root, {"alpha": CLUSTER}) as running:
        kept, doomed = asyncio.run(_before(running.server))
        assert backup(saved, data=layout.root) == 0
        assert backup(saved, data=layout.root) == 1
        assert "exists: name a folder that does not" in capsys.readouterr().err
        forgotten = asyncio.run(_forgotten(running.server, doomed))
        new_key = sealing_keys.rotate(layout.sealing_keys)
        assert restore(saved, data=layout.root, yes=True) == 1
        assert "runs: `muster down` first" in capsys.readouterr().err
        end(layout)
        assert restore(folder, data=layout.root, yes=True) == 1
        assert "has no muster.dump" in capsys.readouterr().err
        assert restore(saved, data=layout.root) == 1
        assert "--yes" in capsys.readouterr().err
        assert restore(saved, data=layout.root, yes=True) == 0
        told = capsys.readouterr().out
        assert f"/forgotten {forgotten}: not in the backup" in told
        assert f"/doomed {doomed}: changed later" in told
        assert "2 workloads were newer or changed later" in told
        assert sealing_keys.listed(layout.sealing_keys)[0] == new_key
        start_detached(layout, keeper_command(layout))
        asyncio.run(_after(Stack(layout), kept, doomed, forgotten))
    _restored_on_a_new_machine(saved, Layout.of(folder / "other"), capsys)
    entries = journals.read_state_folder(layout.agent("alpha"))
    verdict = checker.judge(checker.History(journal=entries, acknowledged=frozenset(), last_phase={}))
    assert {entry.workload for entry in entries} >= {kept, doomed, forgotten}
    assert (verdict.duplicate_starts, verdict.double_allocated) == ((), ())


def test_a_backup_that_cannot_be_read_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout, saved = Layout.of(folder / "stack"), folder / "saved"
    with running_stack(layout.root, {"alpha": CLUSTER}) as running:
        kept, _ = asyncio.run(_before(running.server))
        saved.mkdir()
        (saved / "muster.dump").write_bytes(b"PGDMP, and then nothing")
        end(layout)
        assert restore(saved, data=layout.root, yes=True) == 1
        assert "was not loaded" in capsys.readouterr().err
        start_detached(layout, keeper_command(layout))

        async def still_there() -> None:
            async with Muster(Stack(layout).status()["services"]["submission"]["grpc"]) as muster:
                await _reaches(muster, kept, Phase.RUNNING)

        asyncio.run(still_there())


def test_without_a_running_server_nothing_is_saved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert backup(folder / "saved", data=folder / "stack") == 1
    assert "does not answer: `muster up -d` first" in capsys.readouterr().err
    assert not (folder / "saved").exists()
    assert not list(folder.glob(".saved*"))
