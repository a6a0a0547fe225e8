"""The machine's control groups as far as this agent may use them: one group for all replicas, one below it for each.

Looked for once, when the local back end opens. Knows both versions of the kernel's interface; a controller counts only
after a group was made and a limit written to it, since a read-only mount looks the same.
Holds: all agents of a machine share the group of all replicas, whose limits leave the servers of the stack their
memory and their CPU time; the group of a replica is named after it and its agent, and its supervisor removes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.domain.budgets import Budget

PARENT: Final = "muster-replicas"
CONTROLLERS: Final = ("memory", "pids", "cpu")
_RESERVED_SHARE: Final = 6  # a sixth of the memory stays with the servers, and at least
_LEAST_RESERVED: Final = 1 << 30
_STEP: Final = 1 << 28  # so that limits are amounts that a person can read
_ALL_PROCESSES: Final = 16  # replicas together: that many times the budget of one
_PERIOD: Final = 100_000  # microseconds: the kernel's own period of CPU limits


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller that may be used. folder: the group of all replicas; unified: the kernel's second version."""

    name: str
    folder: Path
    unified: bool


@dataclass(frozen=True, slots=True)
class Groups:
    """What of the machine may be limited. memory: bytes that all replicas of the machine may use together."""

    controllers: Mapping[str, Controller]
    memory: int

    @property
    def missing(self) -> tuple[str, ...]:
        """The controllers that this agent may not use."""
        return tuple(name for name in CONTROLLERS if name not in self.controllers)

    def described(self, name: str, budget: Budget) -> dict[str, Any]:
        """The part of a replica's spec by which its supervisor sets limits (`limits.py`). name: of the replica's group.

        No other agent of the machine may use the name: `limits.end` kills all that is in the group.
        """
        groups: dict[Path, dict[str, Any]] = {}
        for controller in self.controllers.values():
            folder = controller.folder / name
            # One thread that moves itself spares the first version a lock of the whole kernel: some 10 ms a start.
            join = "cgroup.procs" if controller.unified else "tasks"
            group = groups.setdefault(folder, {"folder": str(folder), "join": join, "set": {}})
            group["set"].update(_limits(controller, budget))
        told: dict[str, Any] = {
            "memory": budget.memory,
            "processes": budget.processes,
            "file": budget.disk,
            "shm": min(budget.memory, self.memory),
            "groups": list(groups.values()),
            "counters": {},
        }
        if memory := self.controllers.get("memory"):
            own = memory.folder / name
            told["counters"]["oom_kill"] = str(own / ("memory.events" if memory.unified else "memory.oom_control"))
            told["peak"] = str(own / ("memory.peak" if memory.unified else "memory.max_usage_in_bytes"))
        if pids := self.controllers.get("pids"):
            told["counters"]["max"] = str(pids.folder / name / "pids.events")
        else:
            told["user_processes"] = _ALL_PROCESSES * budget.processes
        return told


def find(processes: int) -> Groups:
    """Look for controllers and make the group of all replicas. processes: the budget of one replica."""
    total = _memory_of_the_machine()
    memory = total - max(total // _RESERVED_SHARE, min(_LEAST_RESERVED, total // 2))
    memory -= memory % _STEP
    found = {}
    for name in CONTROLLERS:
        for parent, unified in _candidates(name):
            controller = Controller(name, parent / PARENT, unified)
            if _usable(controller, memory, processes):
                found[name] = controller
                break
    return Groups(found, memory)


def _limits(controller: Controller, budget: Budget) -> dict[str, str]:
    match controller.name, controller.unified:
        case "memory", True:
            return {"memory.max": str(budget.memory)}
        case "memory", False:
            return {"memory.limit_in_bytes": str(budget.memory)}
        case "pids", _:
            return {"pids.max": str(budget.processes)}
        case _, True:
            quota = f"{budget.cpu_limit * _PERIOD // 1000}" if budget.cpu_limit else "max"
            # 1024 shares are weight 100 in the second version.
            return {"cpu.weight": str(min(10_000, max(1, budget.cpu_shares * 100 // 1024))), "cpu.max": quota}
        case _:
            quota = str(budget.cpu_limit * _PERIOD // 1000) if budget.cpu_limit else "-1"
            return {"cpu.shares": str(min(262_144, budget.cpu_shares)), "cpu.cfs_quota_us": quota}


def _usable(controller: Controller, memory: int, processes: int) -> bool:
    """Make the group of all replicas with its limit, and try a group below it."""
    trial = controller.folder / f"trial-{os.getpid()}"
    try:
        controller.folder.mkdir(exist_ok=True)
        if controller.unified:
            _write(controller.folder.parent / "cgroup.subtree_control", f"+{controller.name}")
            _write(controller.folder / "cgroup.subtree_control", f"+{controller.name}")
        for name, value in _shared(controller, memory, processes).items():
            _write(controller.folder / name, value)
        trial.mkdir(exist_ok=True)
        for name, value in _limits(controller, Budget(memory, processes, 0, 1024, 0)).items():
            _write(trial / name, value)
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()
    return True


def _shared(controller: Controller, memory: int, processes: int) -> dict[str, str]:
    """The limits of all replicas together.

    CPU: all of what is idle. Where others want it as well, a tenth of what one other session of the machine gets. An
    idle group (cpu.idle) would make way faster, and let nothing of a replica go on while two services start.
    """
    match controller.name:
        case "memory":
            return {"memory.max" if controller.unified else "memory.limit_in_bytes": str(memory)}
        case "pids":
            return {"pids.max": str(_ALL_PROCESSES * processes)}
        case _:
            return {"cpu.weight": "10"} if controller.unified else {"cpu.shares": "102"}


def _candidates(name: str) -> Iterable[tuple[Path, bool]]:
    """Where the group of all replicas could be made: in the agent's own group, in one above it, else at the top."""
    own = _own_groups()
    for root, unified, names in _mounts():
        if unified:
            with contextlib.suppress(OSError):
                if name not in (root / "cgroup.controllers").read_text().split():
                    continue
            path = own.get("", "/")
        elif name in names:
            path = own.get(name, "/")
        else:
            continue
        here = root / path.lstrip("/")
        # In the second version a group with processes gives no controllers to those below it, so a group above is used.
        for folder in (here, *here.parents):
            if folder.is_dir() and (folder == root or root in folder.parents):
                yield folder, unified


def _own_groups() -> dict[str, str]:
    """This process's groups by controller; the second version's under the empty name."""
    groups = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            groups.update(dict.fromkeys(names.split(","), path))
    return groups


def _mounts() -> Iterable[tuple[Path, bool, frozenset[str]]]:
    """Mounted hierarchies: where, whether of the second version, and with which controllers."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind in {"cgroup", "cgroup2"}:
                yield Path(before.split(" ")[4]), kind == "cgroup2", frozenset(options.split(","))


def _memory_of_the_machine() -> int:
    """Bytes of memory, within the limit of the container that this process is in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for root, unified, names in _mounts():
        if unified or "memory" in names:
            path = _own_groups().get("" if unified else "memory", "/").lstrip("/")
            file = "memory.max" if unified else "memory.limit_in_bytes"
            for folder in (root / path, root):
                with contextlib.suppress(OSError, ValueError):
                    total = min(total, int((folder / file).read_text()))
    return total


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
