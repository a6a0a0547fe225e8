"""A1: where replicas work. A relative path leads to nothing of the stack, and no run reaches another one's folder."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.attacks.attack import Actor, Attack, Verdict, broken, held

if TYPE_CHECKING:
    from tests.attacks.stage import Stage

_PLANTED_SECONDS: Final = 14.0  # a round of the agent over its replicas, and the start of the replica
_PROOF: Final = "tests/rules/test_attacks_replicas.py"
SECRET_SEARCH: Final = """
import os
folder = os.getcwd()
while True:
    for name in ("credentials/admin.json", "secrets.json", "stack.json", "lock"):
        try:
            open(os.path.join(folder, name), "rb").close()
            print("REACHED", os.path.join(folder, name))
        except OSError:
            pass
    if folder == "/":
        break
    folder = os.path.dirname(folder)
print("SEARCHED")
"""
"""Every folder above the working folder, for files of the stack. Prints what it could open."""

RELATIVE_WRITES: Final = """
for name in ("secrets.json", "stack.json", "sealing-keys", "../secrets.json", "../../../../../../secrets.json"):
    try:
        open(name, "w").write("name: stolen\\n")
        print("WROTE", name)
    except OSError as error:
        print("NOT", name, error)
print("TRIED")
"""
"""A training that writes files of the stack's names into its working folder, and above."""

OTHER_RUNS: Final = """
import os
top = os.path.dirname(os.path.dirname(os.environ["MUSTER_WORKLOAD_DIR"]))
for path, _, files in os.walk(top):
    if not path.startswith((os.environ["MUSTER_RUN_DIR"], os.environ["MUSTER_WORKLOAD_DIR"])) and files:
        print("SAW", path, files)
print("WALKED")
"""
"""A walk through everything outside of its own folders."""


async def search_upwards(stage: Stage) -> Verdict:
    """Look for the stack's files from the working folder upwards."""
    return _judged(await stage.run_replica(SECRET_SEARCH), "REACHED", "SEARCHED")


async def write_secrets(stage: Stage) -> Verdict:
    """Change the stack's secrets by a relative path."""
    before = stage.layout.secrets.read_bytes()
    log = await stage.run_replica(RELATIVE_WRITES)
    if stage.layout.secrets.read_bytes() != before:
        return broken("secrets.json of the stack was changed by a relative path")
    return held("secrets.json is unchanged") if "TRIED" in log else broken(f"the replica did not try: {log[-200:]}")


async def read_other_runs(stage: Stage) -> Verdict:
    """Read what other runs have left in their folders."""
    return _judged(await stage.run_replica(OTHER_RUNS), "SAW", "WALKED")


async def pipe_for_a_record(stage: Stage) -> Verdict:
    """Blind the agent: the record that it reads of a torchrun is a pipe with a writer, for longer than a round."""
    logs = sorted(stage.layout.logs.glob("agent-*.log"))
    before = {path: path.stat().st_size for path in logs}
    # Python opens a browser for this module: so the command of a browser runs in the place of torchrun.
    plant = "rm -f $MUSTER_RECORD; mkfifo $MUSTER_RECORD; exec 3<>$MUSTER_RECORD; echo planted; sleep 100"
    surroundings = {"PYTHONWARNINGS": "all:0:antigravity.x:0:0", "BROWSER": f"/bin/sh -c '{plant}' %s"}
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_DISTRIBUTED,
        name=f"attack-{time.time_ns()}",
        framework=workload_pb2.FRAMEWORK_PYTORCH,
        image="python",
        workers=1,
        command="torchrun",
        args="x.py",
        environment=[workload_pb2.EnvironmentVariable(label=name, value=text) for name, text in surroundings.items()],
    )
    async with stage.client(Actor.RESEARCHER) as muster:
        made = await muster.submit(spec, project=stage.project)
        try:
            await asyncio.sleep(_PLANTED_SECONDS)
            said = b"".join([piece.data async for piece in muster.logs(made.id)])
        finally:
            await muster.delete(made.id)
    if b"planted" not in said:
        return broken(f"the pipe was not planted, so nothing is proven: {said[-200:]!r}")
    failed = [line for path in logs for line in _since(path, before[path]) if "task_failed" in line]
    return broken(failed[0][:300]) if failed else held("the rounds of the agents go on")


def _since(path: Path, size: int) -> list[str]:
    """The lines that a log has got since it had `size` bytes."""
    return path.read_bytes()[size:].decode(errors="replace").splitlines()


def _judged(log: str, bad: str, end: str) -> Verdict:
    """Held where the replica tried to the end and printed no line that begins with `bad`."""
    found = [line for line in log.splitlines() if line.startswith(bad)]
    if found:
        return broken("; ".join(found)[:300])
    return held("every attempt was refused") if end in log else broken(f"the replica did not try: {log[-200:]}")


ATTACKS: Final = (
    Attack("A1", "stack-files-above-the-cwd", Actor.REPLICA, search_upwards, f"{_PROOF}::test_from_the_data_folder"),
    Attack(
        "A1", "secrets-by-relative-path", Actor.REPLICA, write_secrets, f"{_PROOF}::test_in_the_data_folder_writes_land"
    ),
    Attack(
        "A1",
        "pipe-for-a-record",
        Actor.REPLICA,
        pipe_for_a_record,
        "tests/rules/test_attacks_files.py::test_a_pipe_for_a_record_keeps_an_agent_that_reads_it_from_starting",
    ),
    Attack("A1", "folders-of-other-runs", Actor.REPLICA, read_other_runs, f"{_PROOF}::test_unconfined_it_sees_others"),
)
