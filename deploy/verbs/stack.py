"""`demo`, `compose-up` and `compose-down`: Muster running.

Called by people. What the demo checks, shows and leaves is muster_stack's; here is only what must be installed first.
"""

from __future__ import annotations

import shutil

from verbs.bootstrap import setup_with_torch
from verbs.machine import STACK, shortage_here
from verbs.paths import BIN, ROOT
from verbs.shell import VerbFailed, become, run, say


def demo() -> int:
    """Installs what is missing, torch included, and becomes `muster demo`."""
    missing = shortage_here(STACK, ROOT)
    if missing:
        raise VerbFailed(missing)
    setup_with_torch(needed=True)
    become([BIN / "muster", "demo"])


def compose_up() -> int:
    """Starts Kafka and PostgreSQL in containers and waits until they are healthy."""
    run([*docker_compose(), "up", "--detach", "--wait"])
    say("Kafka on 127.0.0.1:9092, PostgreSQL on 127.0.0.1:5432 (docker-compose.yml says how to change both)")
    return 0


def compose_down() -> int:
    """Stops them; their volumes stay (`docker compose down --volumes` removes those too)."""
    run([*docker_compose(), "down"])
    return 0


def docker_compose() -> list[str]:
    """The command, where there is one."""
    docker = shutil.which("docker")
    if docker is None:
        raise VerbFailed(
            "docker is not on the PATH. `make demo` needs no docker: it brings its own Kafka and PostgreSQL."
        )
    return [docker, "compose", "--file", str(ROOT / "docker-compose.yml")]
