"""`muster demo`: checks the machine, plays the acts on a stack of its own, and shows what was proved.

Exit code 0 only if every act happened, or was explained on a cluster that lacks it, and nothing was left running.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
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
from muster_stack.demo import cluster_acts
from muster_stack.demo.acts import ACTS, TRIGGERS_TOPIC, Act
from muster_stack.demo.diary import Diary, DidNotHappen
from muster_stack.demo.house import House, own_stack
from muster_stack.demo.kubernetes import KubernetesDemo
from muster_stack.demo.scene import PROJECT, Scene
from muster_stack.demo.screen import Outcome, Screen
from muster_stack.errors import NoRoom, StackError
from muster_stack.keeper.control import Stack
from muster_stack.kubernetes_clusters import read_option
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
    cluster: Annotated[
        str, Parameter(help="On a Kubernetes cluster: kubeconfig[=FILE][,context=C][,name=N]. It is left as it was.")
    ] = "",
    image: Annotated[str, Parameter(help="Of pods: it has sh and python3.")] = "python:3.12-slim",
    mpi_image: Annotated[str, Parameter(help="Of pods with MPI: it has sshd, OpenMPI and mpi4py.")] = "",
    torch_image: Annotated[str, Parameter(help="Of pods with torchrun: it has torch.")] = "",
) -> int:
    """Run every kind of workload on a stack of its own, and check that each really happened.

    On a Kubernetes cluster some acts may be explained instead: the cluster lacks what they show, such as portions of a
    GPU. The last line is then one JSON object.
    """
    console = Console(highlight=False)
    every = cluster_acts.ACTS if cluster else ACTS
    acts = [act for act in every if not only or set(only) & set(act.workloads)]
    if not acts:
        names = ", ".join(name for act in every for name in act.workloads)
        sys.stderr.write(f"--only {' '.join(only or ())}: no such workload; there are {names}\n")
        return 2
    try:
        on_cluster = None
        if cluster:
            images = {"python": image, "mpi": mpi_image, "torch": torch_image}
            on_cluster = KubernetesDemo(read_option(cluster), images)
            on_cluster.check()
        _check_machine(acts, on_cluster)
        return asyncio.run(_run(acts, console, on_cluster))
    except NoRoom as problem:
        sys.stderr.write(f"{problem}\n")
    except (StackError, MusterError) as problem:
        sys.stderr.write(f"the demo did not get going: {problem}\n")
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("interrupted; nothing is left running on this machine\n")
        return _INTERRUPTED
    return 1


def _check_machine(acts: Sequence[Act], on_cluster: KubernetesDemo | None) -> None:
    preflight.check(Layout.of(Path(tempfile.gettempdir()) / "muster-demo"), memory=_MEMORY)
    needed = [name for name in ("torch", "mpi4py") if importlib.util.find_spec(name) is None]
    if needed and len(acts) == len(ACTS) and on_cluster is None:
        raise NoRoom(f"not installed: {', '.join(needed)}; `make demo` installs what the demo needs")


async def _run(acts: Sequence[Act], console: Console, on_cluster: KubernetesDemo | None) -> int:
    _cancel_on_signals()
    begun = time.monotonic()
    left = 0
    try:
        with Screen(console) as screen:
            clusters = {on_cluster.name: on_cluster.declaration()} if on_cluster else None
            async with own_stack(screen.starting, clusters) as house:
                screen.say(f"the stack is up after {time.monotonic() - begun:.0f} s: {len(house.services)} processes")
                outcomes, farewell = await _play(acts, screen, house, on_cluster)
    finally:  # also where it was interrupted
        if on_cluster:
            left = on_cluster.clean()
            sys.stderr.write("".join(f"cluster {on_cluster.name}: {remark}\n" for remark in on_cluster.remarks))
    counts = _counts(outcomes, left)
    outcomes.append(_clean(house, time.monotonic() - begun))
    screen.checks(outcomes, time.monotonic() - begun)
    for part in farewell:
        console.print()
        console.print(part, markup=False, soft_wrap=isinstance(part, str))
    if on_cluster:
        sys.stdout.write(f"{json.dumps(counts)}\n")
    good = all(outcome.happened or outcome.explained for outcome in outcomes)
    return 0 if good and not left and not (on_cluster and on_cluster.remarks) else 1


def _counts(outcomes: Sequence[Outcome], left: int) -> dict[str, int]:
    return {
        "acts": len(outcomes),
        "proved": sum(each.happened for each in outcomes),
        "explained": sum(each.explained for each in outcomes),
        "left_over": left,
    }


def _cancel_on_signals() -> None:
    """A closed terminal and a polite kill end the demo as Ctrl-C does: in order."""
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _play(
    acts: Sequence[Act], screen: Screen, house: House, on_cluster: KubernetesDemo | None
) -> tuple[list[Outcome], list[RenderableType]]:
    """Plays the acts, all at once; how each ended, and what to show at the very end."""
    diary = Diary()
    outcomes: dict[str, Outcome] = {}
    async with Muster(house.services["submission"]["grpc"]) as muster:
        # Outside of the group, which would wrap what they raise.
        scene = await _prepare(muster, diary, house, on_cluster)
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(diary.keep(muster), name="watch"),
                tasks.create_task(_redraw(acts, screen, diary, outcomes), name="screen"),
            ]
            await asyncio.gather(*(_attempt(act, scene, outcomes) for act in acts))
            screen.playing(acts, diary, outcomes)
            for task in beside:
                task.cancel()
        farewell = await _farewell(muster, diary, scene.project)
        if on_cluster:
            screen.say(f"the demo leaves cluster {on_cluster.name}")
            await on_cluster.leave(muster)
    return [outcomes[act.title] for act in acts], farewell


def _outsider(house: House) -> dict[str, str]:
    """How a program outside connects to Kafka, under an identity of its own."""
    name = Stack(house.layout).grant_producer(TRIGGERS_TOPIC, "demo")
    identity = Identities(house.layout.bus_identities).of(name)
    return client_options(house.services["kafka"]["bootstrap"], identity)


async def _prepare(muster: Muster, diary: Diary, house: House, on_cluster: KubernetesDemo | None) -> Scene:
    """The scene, once every node reported, and then a project: a quota names a node pool that is known."""
    kafka = await asyncio.to_thread(_outsider, house)
    if on_cluster:
        return await on_cluster.prepare(muster, diary, kafka)
    async with asyncio.timeout(_WORLD_SECONDS):
        while True:
            seen = [node async for node in muster.nodes.list()]
            if len(seen) >= _NODES:
                break
            await asyncio.sleep(_REDRAW)
    quotas = [pool_quota("default", 8), pool_quota("batch", 3)]
    await muster.projects.create(PROJECT, quotas=quotas, key="demo-project")
    return Scene(muster, diary, kafka, house.layout.root / "agents")


async def _attempt(act: Act, scene: Scene, outcomes: dict[str, Outcome]) -> None:
    """Plays one act to its proof or its failure; the others go on either way."""
    begun = time.monotonic()
    try:
        told, happened, explained = await act.play(scene), True, False
    except cluster_acts.Explained as reason:
        told, happened, explained = str(reason), False, True
    except (DidNotHappen, MusterError, OSError, LookupError, ValueError) as problem:
        told, happened, explained = f"{type(problem).__name__}: {problem}", False, False
    outcomes[act.title] = Outcome(act.title, told, time.monotonic() - begun, happened=happened, explained=explained)


async def _redraw(acts: Sequence[Act], screen: Screen, diary: Diary, outcomes: dict[str, Outcome]) -> None:
    while True:
        screen.playing(acts, diary, outcomes)
        await asyncio.sleep(_REDRAW)


async def _farewell(muster: Muster, diary: Diary, project: str) -> list[RenderableType]:
    """What `muster why`, `muster list` and `muster usage` answer here."""
    now = datetime.now(UTC)
    listed = [each async for each in muster.list(project=project)]
    used = list(await muster.usage(project=project))
    parts: list[RenderableType] = list(diary.explanations)
    parts.append(tables.workloads(listed, now))
    return [*parts, tables.usage(used)] if used else parts


def _clean(house: House, seconds: float) -> Outcome:
    left = house.left_behind()
    told = "no process is left, the folder is gone" if not left else f"{left} processes still run"
    return Outcome("nothing left running", told, seconds, happened=not left)
