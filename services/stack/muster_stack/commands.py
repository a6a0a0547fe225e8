"""The verbs `muster up`, `down`, `status`: how a person starts, ends and sees a stack.

The `muster` command finds them by entry point, never by import: group `muster.commands`, the entry's name is the
verb, what it loads is a function that cyclopts can mount (`app.command(entry.load(), name=entry.name)`); it returns
the exit code, or None for 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from muster_client.cli.printable import hanging
from muster_stack import kubernetes_clusters, preflight
from muster_stack.errors import NotRunning, StackError, StartFailed
from muster_stack.keeper import sweep
from muster_stack.keeper.control import Stack
from muster_stack.keeper.instances import read_counts, write_counts
from muster_stack.keeper.state import LogLevel, State
from muster_stack.layout import Layout
from muster_stack.processes import send, wait_until

Data = Annotated[
    Path | None, Parameter(name=["--data"], help="The data folder (default: MUSTER_HOME, else ~/.muster).")
]

_START_DEADLINE: Final = 180.0  # seconds, downloads included
_USUAL_START: Final = 20.0  # seconds; a part that needs more has a reason that people want to read
_POLL: Final = 0.1
_MINUTE: Final = 60
_HOUR: Final = 3600


def up(
    *,
    data: Data = None,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], help="Return when it is ready.", negative="")] = False,
    instances: Annotated[str, Parameter(help="More than one process of a service: submission=2,scheduler=2.")] = "",
    hold: Annotated[bool, Parameter(help="Agents accept workloads and start nothing.", negative="")] = False,
    auth: Annotated[bool | None, Parameter(help="Calls need a token; `muster` here has one.")] = None,
    empty_kafka: Annotated[bool, Parameter(help="Kafka begins this start without records.", negative="")] = False,
    clusters: Annotated[
        list[str] | None,
        Parameter(name="--cluster", help="A Kubernetes cluster: kubeconfig[=FILE][,context=C][,name=N].", negative=""),
    ] = None,
    log_level: Annotated[LogLevel, Parameter(help="Of the services.")] = "info",
) -> int:
    """Start Muster on this machine: real Kafka and PostgreSQL, all services, two clusters of local processes."""
    layout = Layout.of(data)
    try:
        guarded = _needs_tokens(layout, auth=auth)
        _tell_instances(layout, instances)
        argv = keeper_command(
            layout, read_counts(instances), hold=hold, auth=guarded, empty_kafka=empty_kafka, log_level=log_level
        )
        preflight.check(layout)
        kubernetes_clusters.declare(layout, clusters or ())
        if detach:
            _show(start_detached(layout, argv, tell=_Progress(layout)))
            return 0
    except StackError as error:
        return _complain(error)
    sys.stdout.flush()
    return os.execv(argv[0], argv)  # noqa: S606 - the terminal's Ctrl-C is for the keeper, and a command line's memory is not needed


def _needs_tokens(layout: Layout, *, auth: bool | None) -> bool:
    """Whether calls need a token. Raises StackError if they did at the last start and `auth` is None."""
    if auth is None and State.load(layout).options.auth:
        raise StackError(
            f"calls to the stack in {layout.root} needed a token when it was started last: say --auth, or --no-auth to "
            "let everyone on this machine in without one"
        )
    return bool(auth)


def _tell_instances(layout: Layout, instances: str) -> None:
    """Say how many processes a service had at the last start, if this start names none."""
    before = State.load(layout).options.instances
    if before and not instances:
        sys.stderr.write(
            f"the last start used --instances {write_counts(before)}; repeat the option to have them again\n"
        )


def down(*, data: Data = None) -> int:
    """End the stack: services, Kafka, PostgreSQL and every replica, also what a killed `muster up` left running."""
    layout = Layout.of(data)
    try:
        ended = end(layout)
    except (StackError, TimeoutError) as error:
        return _complain(error)
    sys.stdout.write(f"{ended}\n")
    return 0


def status(*, data: Data = None, as_json: Annotated[bool, Parameter(name=["--json"], negative="")] = False) -> int:
    """Show what runs; exit code 0 only if everything is ready."""
    layout = Layout.of(data)
    try:
        seen = Stack(layout).status()
    except NotRunning as error:
        left = len(sweep.everything(layout))
        seen = {"ready": False, "services": {}, "left_behind": left}
        if not as_json:
            sys.stderr.write(f"{error}\n")
            if left:
                sys.stderr.write(f"{left} processes of a killed stack still run; `muster down` ends them\n")
            return 1
    except StackError as error:
        return _complain(error)
    if as_json:
        sys.stdout.write(json.dumps(seen) + "\n")
    else:
        _show(seen)
    return 0 if seen["ready"] else 1


def keeper_command(
    layout: Layout,
    instances: Mapping[str, int] | None = None,
    *,
    hold: bool = False,
    auth: bool = False,
    empty_kafka: bool = False,
    log_level: LogLevel = "info",
) -> list[str]:
    """The command line of the keeper. instances: by service, where there is more than one."""
    wanted = {"--hold": hold, "--auth": auth, "--empty-kafka": empty_kafka}
    flags = [flag for flag, given in wanted.items() if given]
    if instances:
        flags += ["--instances", write_counts(instances)]
    module = ["-m", "muster_stack.keeper"]
    return [sys.executable, *module, "--data", str(layout.root), "--log-level", log_level, *flags]


class _Progress:
    """Says on stderr what has become ready, a line a part, while `muster up -d` waits.

    A part that is not ready after _USUAL_START seconds is named with its reason, and again when the reason changes.
    """

    def __init__(self, layout: Layout, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._ready: set[str] = set()
        self._reasons: dict[str, str] = {}
        sys.stderr.write(f"starting a stack in {layout.root}; its log is {layout.log('keeper')}\n")

    def __call__(self, status: Mapping[str, Any]) -> None:
        elapsed = self._clock() - self._begun
        for name, row in status["services"].items():
            if row["state"] == "ready":
                if name not in self._ready:
                    self._ready.add(name)
                    sys.stderr.write(f"  {elapsed:5.1f} s  {name} is ready\n")
            elif elapsed >= _USUAL_START and (why := row.get("why")) and self._reasons.get(name) != why:
                self._reasons[name] = why
                sys.stderr.write(f"  {elapsed:5.1f} s  {name} waits: {why}\n")


def start_detached(
    layout: Layout,
    argv: list[str],
    *,
    seconds: float = _START_DEADLINE,
    tell: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Starts a keeper that outlives us and waits until everything is ready; returns the status. Raises StartFailed.

    `tell` hears of each status on the way.
    """
    layout.make()
    log = layout.log("keeper")
    begin = log.stat().st_size if log.exists() else 0
    keeper = _spawn_for_good(argv, log)
    deadline = time.monotonic() + seconds
    while not _has_ended(keeper) and time.monotonic() < deadline:
        with suppress(NotRunning):  # it is still fetching, or has not yet opened its socket
            known = State.load(layout).keeper
            if known is not None and known.pid == keeper:  # not another one, which holds the folder already
                return Stack(layout).wait_ready(max(deadline - time.monotonic(), 0), give_up=True, tell=tell)
        time.sleep(_POLL)
    with log.open("rb") as output:
        output.seek(begin)
        told = output.read().decode(errors="replace").strip()
    raise StartFailed(told or f"the stack did not start; its log is {log}")


def _spawn_for_good(argv: list[str], log: Path) -> int:
    """Starts a process in a session of its own that outlives us; returns its pid. A Popen would claim it as its own."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    output = [(os.POSIX_SPAWN_OPEN, number, str(log), flags, 0o600) for number in (1, 2)]
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *output]
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)


def _has_ended(child: int) -> bool:
    return os.waitpid(child, os.WNOHANG)[0] == child


def end(layout: Layout) -> str:
    """Ends a running stack, or what a killed one left behind; returns what was done. Raises TimeoutError."""
    try:
        Stack(layout).stop()
    except NotRunning:
        _end_silent_keeper(layout)
        left = sweep.end_everything(layout)
        return f"nothing ran in {layout.root}" if not left else f"ended {left} processes that a killed stack had left"
    return f"the stack in {layout.root} is down; its data stays there"


def _end_silent_keeper(layout: Layout) -> None:
    keeper = State.load(layout).keeper
    if keeper is None or not keeper.alive():
        return
    # It is there and does not answer: without it, what it kept can be ended.
    send(keeper, signal.SIGKILL)
    wait_until(lambda: not keeper.alive(), seconds=10, what="the keeper's end")


def _complain(error: Exception) -> int:
    sys.stderr.write(f"{error}\n")
    return 1


def _show(seen: Mapping[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("SERVICE", "STATE", "PID", "RESTARTS", "UPTIME", "ADDRESS"):
        table.add_column(column, justify="right" if column in {"PID", "RESTARTS", "UPTIME"} else "left")
    for name, row in seen["services"].items():
        address = next((row[kind] for kind in ("grpc", "bootstrap", "socket") if kind in row), "")
        address += f" http://{row['rest']}" if "rest" in row else ""
        uptime = _duration(time.time() - row["since"]) if row["pid"] else ""
        table.add_row(name, row["state"], str(row["pid"] or ""), str(row["restarts"]), uptime, address)
    Console().print(table)
    for name, row in seen["services"].items():
        if row.get("why"):
            sys.stdout.write(hanging(f"{name}: {row['why']}") + "\n")
    for name, level in seen.get("confinement", {}).items():
        sys.stdout.write(hanging(_confinement(name, level)) + "\n")
    if application := seen.get("application"):
        sys.stdout.write(f"calls need a token; the administrator's application is in {application}\n")
    if unregistered := seen.get("unregistered"):
        sys.stdout.write(f"not registered yet: {', '.join(unregistered)}\n")


def _confinement(cluster: str, level: str) -> str:
    word, _, why = level.partition(": ")
    if word == "none":
        return f"replicas of {cluster} are not confined, they can do what the stack itself can do: {why}"
    return f"replicas of {cluster} are confined: {level}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
