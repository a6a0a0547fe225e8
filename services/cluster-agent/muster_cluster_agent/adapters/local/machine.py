"""What this machine offers to replicas: the interpreter, mpirun, the shims, and the environment they start from.

Found once when the local back end opens. Holds: nothing of the agent's own settings reaches a replica.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster_cluster_agent import shims
from muster_cluster_agent.adapters.local.state import replace_file

_KEPT: Final = (
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
    "LD_LIBRARY_PATH",
    "MUSTER_STACK_ID",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)
_MOST_LINKS: Final = 40
_SHIMS: Final = Path(shims.__file__).parent


@dataclass(frozen=True, slots=True)
class Machine:
    """Paths and variables, as they are handed to every launch."""

    python: str
    shims: str
    tools: str
    mpi_prefix: str
    torch_python: str
    base_env: tuple[tuple[str, str], ...]
    interpreters: tuple[str, ...]  # folders without which none of these programs runs


def find(tools: Path) -> Machine:
    """Looks around; `tools` is a folder into which agent-rsh is written, since a wheel keeps no execute bits."""
    scripts = Path(sys.executable).parent
    path = f"{scripts}:{os.environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    shim = tools / "agent-rsh"
    replace_file(shim, f'#!/bin/sh\nexec "{sys.executable}" -I -S "{_SHIMS / "rsh.py"}" "$@"\n'.encode())
    shim.chmod(0o755)
    mpirun = shutil.which("mpirun", path=path)
    torchrun = shutil.which("torchrun", path=path)
    beside = Path(torchrun).parent / "python" if torchrun else Path(sys.executable)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return Machine(
        python=sys.executable,
        shims=str(_SHIMS),
        tools=str(tools),
        mpi_prefix=str(Path(mpirun).parent.parent) if mpirun else "",
        torch_python=str(beside) if beside.exists() else sys.executable,
        base_env=tuple({**kept, "PATH": path}.items()),
        interpreters=interpreters(sys.executable, str(beside), mpirun or ""),
    )


def interpreters(*programs: str) -> tuple[str, ...]:
    """Return the folders of this interpreter and of the programs: where they are installed, across all their links."""
    found = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    for program in programs:
        path = program
        for _ in range(_MOST_LINKS):
            if not path:
                break
            found.add(os.path.dirname(os.path.dirname(path)))
            path = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else ""
    found.update(map(os.path.realpath, tuple(found)))
    return tuple(sorted(map(os.path.normpath, found)))
