"""A14: a replica that wants all processes, all memory or all bandwidth of its machine.

Each attempt is bounded by itself, so that a stack which does not hold is shown and the machine is not lost: the fork
bomb makes more than 300 processes only where it finds itself in a control group of Muster's.
"""

from __future__ import annotations

import contextlib
import glob
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage, python

_SECONDS: Final = 18.0
_USERS: Final = 2_000_000  # the first user of replicas where the cluster file names no range
_MOST: Final = 1_200  # processes: more than the default budget of a replica
_FORKS: Final = f"""
import os, time
groups = {{line.split(":")[1]: line.split(":", 2)[2] for line in open("/proc/self/cgroup").read().splitlines()}}
limited = any("muster-replicas" in path for name, path in groups.items() if name in ("", "pids"))
until, made = time.monotonic() + 6, 0
try:
    while made < ({_MOST} if limited else 300):
        if os.fork() == 0:
            while time.monotonic() < until:
                time.sleep(0.01)
            os._exit(0)
        made += 1
except OSError as refused:
    os.write(1, f"refused after {{made}}: {{refused}}\\n".encode())
else:
    os.write(1, f"made {{made}}\\n".encode())
"""
_MEMORY: Final = "x = [bytearray(b'x') * (64 << 20) for _ in range(16)]"
_SHARED: Final = Path("/dev/shm/muster-attack-a14")
_FILL: Final = f"""
with open("{_SHARED}", "wb") as file:
    for _ in range(1024):
        file.write(bytes(1 << 20))
"""
IPC: Final = """
import ctypes
libc = ctypes.CDLL(None)
made = libc.shmget(0, 1 << 20, 0o1600), libc.semget(0, 1, 0o1600), libc.msgget(0, 0o1600)
print("MADE", made)
raise SystemExit(min(made) < 0)
"""
"""A shared segment, a semaphore and a queue of System V, which outlive their process."""
_FLOOD: Final = """
import os, time
until, line = time.monotonic() + 6, b"x" * 65536
while time.monotonic() < until:
    os.write(1, line)
"""


async def _ended(stage: Stage, program: str, memory_limit: str = "") -> workload_pb2.Workload:
    """The workload that ran this program, as it ended."""
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING,
        name=f"attack-a14-{time.time_ns()}",
        image="python",
        command=python(program),
        backoff_limit=0,
    )
    if memory_limit:
        spec.memory = spec.memory_limit = memory_limit
    async with stage.client(Actor.RESEARCHER) as muster:
        made = await muster.submit(spec, project=stage.project)
        try:
            return await muster.wait(made.id, timeout=_SECONDS)
        finally:
            await muster.delete(made.id)


async def _fork_bomb(stage: Stage) -> Verdict:
    log = await stage.run_replica(_FORKS)
    return held(log.strip()) if "refused after" in log else broken(log.strip() or "the log is empty")


async def _all_memory(stage: Stage) -> Verdict:
    ended = await _ended(stage, _MEMORY, "256Mi")
    said = ended.reason.message
    return held(said) if "more memory than its limit of 256Mi" in said else broken(f"it took 1 GiB: {said}")


async def _shared_memory(stage: Stage) -> Verdict:
    ended = await _ended(stage, _FILL, "256Mi")
    if _SHARED.exists():
        size = _SHARED.stat().st_size
        _SHARED.unlink()
        return broken(f"{size >> 20} MiB stay in the machine's /dev/shm after the workload ended")
    return held(f"nothing is left in the machine's /dev/shm: {ended.reason.message[:120]}")


def left_in_the_machine(uid: int | None = None) -> list[str]:
    """What of System V belongs to a user of the machine; without one to any user that a replica may be."""
    found = []
    for kind in ("shm", "sem", "msg"):
        head, *lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        at = head.split().index("uid")
        owners = [int(line.split()[at]) for line in lines]
        found += [f"{kind} of {owner}" for owner in owners if owner == uid or (uid is None and owner >= _USERS)]
    return found


async def _ipc(stage: Stage) -> Verdict:
    before = len(left_in_the_machine())
    log = await stage.run_replica(IPC)
    left = left_in_the_machine()[before:]
    if left:
        return broken(f"left in the machine's kernel: {', '.join(left)}")
    return held("nothing is left in the machine's kernel") if "MADE" in log else broken(f"it did not try: {log[-200:]}")


def _logs(stage: Stage) -> list[Path]:
    """The files of all logs. Unlike Path.glob this passes over a folder that goes meanwhile."""
    return [Path(name) for name in glob.glob(f"{stage.data}/agents/*/logs/*/log.*")]  # noqa: PTH207


async def _log_flood(stage: Stage) -> Verdict:
    """At full speed a pipe carries gigabytes a second; one budget at once and a quarter of it a second may pass."""
    before = set(_logs(stage))
    await _ended(stage, _FLOOD)
    written = 0
    for path in set(_logs(stage)) - before:
        with contextlib.suppress(FileNotFoundError):  # logs of other tenants come and go meanwhile
            written = max(written, int(path.name.removeprefix("log.")) + path.stat().st_size)
    said = f"{written >> 20} MiB passed in six seconds"
    return held(said) if 0 < written < 100 << 20 else broken(said)


def _until(attempt: Callable[[Stage], Awaitable[Verdict]]) -> Callable[[Stage], Awaitable[Verdict]]:
    """The attempt again and again until the stage's end; the first that works decides."""

    async def repeat(stage: Stage) -> Verdict:
        while True:
            verdict = await attempt(stage)
            if not verdict.held or time.monotonic() >= stage.until:
                return verdict

    return repeat


_HERE: Final = "tests/rules/test_attacks_budgets.py::"
_UNBOUNDED: Final = f"{_HERE}test_a_replica_takes_what_it_wants_without_a_budget"
ATTACKS: Final = (
    Attack("A14", "fork-bomb", Actor.REPLICA, _until(_fork_bomb), _UNBOUNDED, noisy=True),
    Attack("A14", "all-memory", Actor.REPLICA, _until(_all_memory), _UNBOUNDED, noisy=True),
    Attack("A14", "shared-memory-left-behind", Actor.REPLICA, _shared_memory, _UNBOUNDED),
    Attack("A14", "ipc-left-behind", Actor.REPLICA, _ipc, f"{_HERE}test_without_a_namespace_its_segments_stay"),
    Attack(
        "A14", "log-flood", Actor.REPLICA, _until(_log_flood), f"{_HERE}test_a_log_flows_unless_throttled", noisy=True
    ),
)
