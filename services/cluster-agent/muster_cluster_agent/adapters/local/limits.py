"""Takes a replica's budget into force: control groups, resource limits, and a /dev/shm of its own.

Called by the supervisor (`make`, `spent`, `kill`, `remove`), by the agent (`end`) and, between fork and exec, by the
replica's own process (`enter`). Standard library only: it stays in the memory of every supervisor. What is written
where was decided by the agent (`cgroups.py`); a spec without a budget has none.
Holds: a replica whose limits cannot be set is not started; the supervisor itself is in none of the groups, so that it
can always end and report what it supervises.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import time
from typing import Any, Final

from muster_cluster_agent.adapters.local.mounts import NAMESPACES

_MS_REC: Final = 0x4000
_MS_SLAVE: Final = 0x80000
_MS_NOSUID_NODEV: Final = 0x2 | 0x4
_FIRST_VICTIM: Final = b"1000"
_REMOVE_ROUNDS: Final = 20
_KILL_ROUNDS: Final = 50
_KILL_PAUSE: Final = 0.01
_NEARLY: Final = 0.95  # of its limit: the kernel counts in batches, so the highest use that it tells is a little less
_CPU_WEIGHTS: Final = ("cpu.weight", "cpu.shares")
SHM: Final = "/dev/shm"  # noqa: S108  the mount point, not a file in it

_libc = ctypes.CDLL(None, use_errno=True)


def make(budget: dict[str, Any]) -> None:
    """Make the replica's groups and set their limits. Raises OSError."""
    for group in budget.get("groups", ()):
        os.makedirs(group["folder"], exist_ok=True)
        for name, value in group["set"].items():
            _write(os.path.join(group["folder"], name), str(value).encode())


def enter(budget: dict[str, Any]) -> None:
    """Put this process under its limits, while it may still do so. Raises OSError."""
    for group in budget.get("groups", ()):
        _write(os.path.join(group["folder"], group["join"]), b"0")
    if any(name in group["set"] for group in budget.get("groups", ()) for name in _CPU_WEIGHTS):
        # A core that only replicas use counts as idle, so that a service that wakes up gets it at once. How much of the
        # processor replicas get is the groups' affair; without a group of theirs this policy would starve them.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Where memory ends all the same, a replica goes and not the servers that keep the truth.
    _write("/proc/self/oom_score_adj", _FIRST_VICTIM)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if budget.get("file"):
        _lower(resource.RLIMIT_FSIZE, int(budget["file"]))
    if budget.get("user_processes"):
        _lower(resource.RLIMIT_NPROC, int(budget["user_processes"]))
    if budget.get("shm"):
        _own_shm(int(budget["shm"]))


def spent(budget: dict[str, Any]) -> str:
    """Which budget the kernel says was used up (a word of `domain.budgets.Spent`); empty: none."""
    if _count(budget, "oom_kill"):
        highest = _number(budget.get("peak", ""))
        return "memory" if highest >= _NEARLY * int(budget["memory"]) else "machine-memory"
    return "processes" if _count(budget, "max") else ""


def kill(budget: dict[str, Any]) -> None:
    """Kill every process in the replica's groups. From now on none of them can fork, so none outruns this.

    The kernel counts the refused forks as spent processes: ask for `spent` before.
    """
    folders = [group["folder"] for group in budget.get("groups", ())]
    for folder in folders:
        for name, value in (("pids.max", b"0"), ("cgroup.kill", b"1")):  # a group has those of its controllers
            with contextlib.suppress(OSError):
                _write(os.path.join(folder, name), value)
    killed: set[int] = set()
    for folder in folders:
        # What is killed stays listed until it has ended. Only another process is a reason to look again at once:
        # waiting here would compete for the CPU time in which a thousand processes end.
        for _ in range(_KILL_ROUNDS):
            new = _kill_listed(os.path.join(folder, "cgroup.procs"), killed)
            if not new:
                break
            killed |= new


def closes(budget: dict[str, Any]) -> bool:
    """Whether one of the replica's groups limits forks, so that `kill` leaves no process that could make another."""
    return any("pids.max" in group["set"] for group in budget.get("groups", ()))


def end(budget: dict[str, Any], *, seconds: float) -> bool:
    """Kill until no process is in the groups; False where some are left after `seconds`."""
    deadline = time.monotonic() + seconds
    folders = [group["folder"] for group in budget.get("groups", ())]
    while any(_listed(os.path.join(folder, "cgroup.procs")) for folder in folders):
        if time.monotonic() > deadline:
            return False
        kill(budget)
        time.sleep(_KILL_PAUSE)  # the kernel takes a moment to take the last process out
    return True


def _kill_listed(path: str, killed: set[int]) -> set[int]:
    """Kill the processes that a group lists, by descriptor: another process may get the number of one that ends.

    killed: those that were killed before. Returns the numbers of the others.
    """
    handles: dict[int, int] = {}
    try:
        for pid in _listed(path) - killed:
            with contextlib.suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        for pid in _listed(path) & handles.keys():  # so its descriptor was that of a process of the group
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
    finally:
        for handle in handles.values():
            os.close(handle)
    return set(handles)


def _listed(path: str) -> set[int]:
    """The processes of a group; none where there is no group."""
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return {int(word) for word in file.read().split()}
    return set()


def remove(budget: dict[str, Any]) -> None:
    """Remove the groups once no process is in them; one that is still there is tried again by the agent."""
    for group in budget.get("groups", ()):
        for _ in range(_REMOVE_ROUNDS):
            try:
                os.rmdir(group["folder"])
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.005)  # the kernel takes a moment to take the last process out
            else:
                break


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _own_shm(size: int) -> None:
    """A /dev/shm that ends with the replica, as do its System V segments and its message queues.

    What is left in those of the machine would fill its memory for ever.

    Where this process may not mount, the shared one stays.
    """
    if _libc.unshare(sum(NAMESPACES.values())) != 0:
        return
    # Slave: mounts of the machine still arrive here, ours never get out.
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount / as slave")
    options = f"size={size},mode=1777".encode()
    if _libc.mount(b"tmpfs", SHM.encode(), b"tmpfs", _MS_NOSUID_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), f"mount {SHM}")


def _count(budget: dict[str, Any], word: str) -> int:
    """A counter of one of the group's event files: lines of a word and a number."""
    path = budget.get("counters", {}).get(word, "")
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        for line in file.read().decode().splitlines():
            name, _, value = line.partition(" ")
            if name == word:
                return int(value)
    return 0


def _number(path: str) -> int:
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return int(file.read())
    return 0


def _write(path: str, text: bytes) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text)
    finally:
        os.close(file)
