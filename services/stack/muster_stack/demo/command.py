"""`muster demo`: checks the machine, plays the acts on a stack of its own, and shows what was proved.

Exit code 0 only if every act happened and nothing was left running.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from rich.console import Console, RenderableType

from muster_client import Muster, MusterError, pool_quota
from muster_client.cli.render import tables
from muster_stack import preflight
from muster_stack.bus.identities import Identities, client_options
from muster_stack.demo.acts import ACTS, TRIGGERS_TOPIC, Act
from muster_stack.demo.diary import Diary, DidNotHappen
from muster_stack.demo.house import House, own_stack
from muster_stack.demo.scene import PROJECT, Scene
from muster_stack.demo.screen import Outcome, Screen
from muster_stack.errors import NoRoom, StackError
from muster_stack.keeper.control import Stack
from muster_stack.layout import Layout

_MEMORY: Final = 3_500_000_000  # bytes: the stack, and six processes that import torch
_REDRAW: Final = 0.1
_WORLD_SECONDS: Final = 60.0
_NODES: Final = 4
_INTERRUPTED: Final = 130


def demo(
    *,
    only: Annotated[
        list[str] | None, Parameter(name="--only", negative="", help="Only acts of these workloads.")
    ] = None,
) -> int:
    """Run every kind of workload on a stack of its own, and check that each really happened."""
    console = Console(highlight=False)
    acts = [act for act in ACTS if not only or set(only) & set(act.workloads)]
    if not acts:
        names = ", ".join(name for act in ACTS for name in act.workloads)
        sys.stderr.write(f"--only {' '.join(only or ())}: no such workload; there are {names}\n")
        return 2
    try:
        _check_machine(acts)
        return asyncio.run(_run(acts, console))
    except NoRoom as problem:
        sys.stderr.write(f"{problem}\n")
    except (StackError, MusterError) as problem:
        sys.stderr.write(f"the demo did not get going: {problem}\n")
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("interrupted; nothing is left running\n")
        return _INTERRUPTED
    return 1


def _check_machine(acts: Sequence[Act]) -> None:
    preflight.check(Layout.of(Path(tempfile.gettempdir()) / "muster-demo"), memory=_MEMORY)
    needed = [name for name in ("torch", "mpi4py") if importlib.util.find_spec(name) is None]
    if needed and len(acts) == len(ACTS):
        raise NoRoom(f"not installed: {', '.join(needed)}; `make demo` installs what the demo needs")


async def _run(acts: Sequence[Act], console: Console) -> int:
    _cancel_on_signals()
    begun = time.monotonic()
    with Screen(console) as screen:
        async with own_stack(screen.starting) as house:
            screen.say(f"the stack is up after {time.monotonic() - begun:.0f} s: {len(house.services)} processes")
            outcomes, farewell = await _play(acts, screen, house)
    outcomes.append(_clean(house, time.monotonic() - begun))
    screen.checks(outcomes, time.monotonic() - begun)
    for part in farewell:
        console.print()
        console.print(part, markup=False, soft_wrap=isinstance(part, str))
    return 0 if all(outcome.happened for outcome in outcomes) else 1


def _cancel_on_signals() -> None:
    """A closed terminal and a polite kill end the demo as Ctrl-C does: in order."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _play(acts: Sequence[Act], screen: Screen, house: House) -> tuple[list[Outcome], list[RenderableType]]:
    """Plays the acts, all at once; how each ended, and what to show at the very end."""
    diary = Diary()
    outcomes: dict[str, Outcome] = {}
    async with Muster(house.services["submission"]["grpc"]) as muster, asyncio.TaskGroup() as tasks:
        await _prepare(muster)
        agents = house.layout.root / "agents"
        scene = Scene(muster, diary, await asyncio.to_thread(_outsider, house), agents)
        beside = [
            tasks.create_task(diary.keep(muster), name="watch"),
            tasks.create_task(_redraw(acts, screen, diary, outcomes), name="screen"),
        ]
        await asyncio.gather(*(_attempt(act, scene, outcomes) for act in acts))
        screen.playing(acts, diary, outcomes)
        farewell = await _farewell(muster, diary)
        for task in beside:
            task.cancel()
    return [outcomes[act.title] for act in acts], farewell


def _outsider(house: House) -> dict[str, str]:
    """How a program outside connects to Kafka, under an identity of its own."""
    name = Stack(house.layout).grant_producer(TRIGGERS_TOPIC, "demo")
    identity = Identities(house.layout.bus_identities).of(name)
    return client_options(house.services["kafka"]["bootstrap"], identity)


async def _prepare(muster: Muster) -> None:
    """Every node of both clusters reported, and then a project: a quota names a node pool that somebody knows."""
    async with asyncio.timeout(_WORLD_SECONDS):
        while True:
            seen = [node async for node in muster.nodes.list()]
            if len(seen) >= _NODES:
                break
            await asyncio.sleep(_REDRAW)
    quotas = [pool_quota("default", 8), pool_quota("batch", 3)]
    await muster.projects.create(PROJECT, quotas=quotas, key="demo-project")


async def _attempt(act: Act, scene: Scene, outcomes: dict[str, Outcome]) -> None:
    """Plays one act to its proof or its failure; the others go on either way."""
    begun = time.monotonic()
    try:
        told, happened = await act.play(scene), True
    except (DidNotHappen, MusterError, OSError, LookupError, ValueError) as problem:
        told, happened = f"{type(problem).__name__}: {problem}", False
    outcomes[act.title] = Outcome(act.title, told, time.monotonic() - begun, happened=happened)


async def _redraw(acts: Sequence[Act], screen: Screen, diary: Diary, outcomes: dict[str, Outcome]) -> None:
    while True:
        screen.playing(acts, diary, outcomes)
        await asyncio.sleep(_REDRAW)


async def _farewell(muster: Muster, diary: Diary) -> list[RenderableType]:
    """What `muster why`, `muster list` and `muster usage` answer here."""
    now = datetime.now(UTC)
    listed = [each async for each in muster.list(project=PROJECT)]
    used = list(await muster.usage(project=PROJECT))
    parts: list[RenderableType] = list(diary.explanations)
    parts.append(tables.workloads(listed, now))
    return [*parts, tables.usage(used)] if used else parts


def _clean(house: House, seconds: float) -> Outcome:
    left = house.left_behind()
    told = "no process is left, the folder is gone" if not left else f"{left} processes still run"
    return Outcome("nothing left running", told, seconds, happened=not left)
