"""What /proc knows: who lives, since when, whose child it is, and which replica it belongs to.

Called by supervisors (to end their tree) and by the agent (to find strays). Standard library only.
Holds: a process is named by (pid, start time), since pids are used again; a zombie counts as dead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

MARK: Final = "MUSTER_REPLICA"
AGENT_MARK: Final = "MUSTER_AGENT"
"""The agent whose replica it is: two stacks of one machine, one of them restored from a copy, use the same names."""
K = TypeVar("K", bound=Hashable)
_MARKS: Final = (f"{MARK}=".encode(), f"{AGENT_MARK}=".encode())


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are used here."""

    pid: int
    parent: int
    state: str
    start: int


def boot_id() -> str:
    """The kernel's boot id: another one means that nothing recorded before is alive."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def stat(pid: int) -> Stat | None:
    """The process's stat, or None where there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The command's name stands in parentheses and may itself hold spaces and parentheses: fields count from the last
    # one.
    fields = text[text.rfind(b")") + 2 :].split()
    return Stat(pid=pid, parent=int(fields[1]), state=fields[0].decode(), start=int(fields[19]))


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot (field 22); None where it does not live."""
    found = stat(pid)
    return found.start if found is not None and found.state not in "ZX" else None


def alive(pid: int, start: int) -> bool:
    """Whether the very process that was recorded still lives."""
    return pid > 0 and start_time(pid) == start


def pids() -> list[int]:
    """Every process id of now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> list[int]:
    """Every living process below `root`, in no particular order; sessions and groups do not matter."""
    return families({root: (root,)})[root]


def families(roots: Mapping[K, Iterable[int]]) -> dict[K, list[int]]:
    """Every living process below each group of processes, by one look at all; sessions and groups do not matter."""
    children: dict[int, list[int]] = {}
    for pid in pids() if roots else ():
        found = stat(pid)
        if found is not None and found.state not in "ZX":
            children.setdefault(found.parent, []).append(pid)
    return {name: _below(children, group) for name, group in roots.items()}


def _below(children: Mapping[int, list[int]], roots: Iterable[int]) -> list[int]:
    below: list[int] = []
    queue = list(roots)
    while queue:
        mine = children.get(queue.pop(), [])
        below.extend(mine)
        queue.extend(mine)
    return below


class Mark(NamedTuple):
    """To whom a process belongs by its environment. agent: the instance of the agent; empty: it is not named there."""

    replica: str
    agent: str

    def belongs_to(self, agent: str) -> bool:
        """Whether this is a replica of an agent. A process that names no agent may be any agent's."""
        return self.agent in {"", agent}


def mark_of(pid: int) -> Mark | None:
    """To whom a process belongs. None: it carries no mark, or its environment may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return None
    entries = [entry for entry in environment.split(b"\0") if entry.startswith(_MARKS)]
    carried = dict(entry.decode(errors="replace").split("=", 1) for entry in entries)
    return Mark(carried[MARK], carried.get(AGENT_MARK, "")) if carried.get(MARK) else None


def marked(agent: str) -> dict[str, list[int]]:
    """All living processes of an agent's replicas, by replica."""
    found: dict[str, list[int]] = {}
    for pid, replica in _carriers(agent):
        if start_time(pid) is not None:
            found.setdefault(replica, []).append(pid)
    return found


def _carriers(agent: str) -> Iterator[tuple[int, str]]:
    """Each process that carries the mark of one of an agent's replicas, with the replica. It may be dead."""
    for pid in pids():
        mark = mark_of(pid)
        if mark is not None and mark.belongs_to(agent):
            yield pid, mark.replica


def send(pid: int, start: int, number: signal.Signals) -> bool:
    """Signals the recorded process and no other: the pidfd is opened before the start time is compared."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if start_time(pid) != start:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def kill_all(targets: list[int]) -> None:
    """SIGSTOP first, then SIGKILL: a tree that forks while it is being killed would otherwise outrun us."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def end_marked(agent: str, replica: str, *, seconds: float) -> bool:
    """Kill every process of an agent's replica until none is left. Returns False if some are after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        left = [pid for pid, name in _carriers(agent) if name == replica and start_time(pid) is not None]
        if not left:
            return True
        if time.monotonic() > deadline:
            return False
        kill_all(left)
        time.sleep(0.005)  # the kernel needs a moment to take a killed process out of /proc
