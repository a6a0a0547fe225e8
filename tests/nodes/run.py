"""`make test-node`: Muster on two real nodes, through all services; the last line is one JSON object.

Each key is true, or null where it does not work here, as the committed list `nulls.json` says: by the error with which
its act ends, or why there is none. What is not in that list has to be true, and what is in it must not be. left_over:
objects of Muster in the cluster after everything was deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import httpx

from muster_client import Muster, MusterError, pool_quota
from muster_stack.demo.diary import Diary, DidNotHappen
from tests.nodes import faults, kinds
from tests.nodes.scene import PROJECT, Scene
from tests.nodes.site import GPUS, NAMES, Site, missing, site
from tests.support.kubernetes_stack import kubernetes_stack, left_over
from tests.support.stacks import RunningStack
from tests.support.waiting import eventually

NULLS: Final = Path(__file__).with_name("nulls.json")
_PROBLEMS: Final = (
    *(DidNotHappen, MusterError, TimeoutError, AssertionError, LookupError, OSError),
    *(httpx.HTTPError, grpc.RpcError),
)
_TAIL: Final = 1500  # characters of each log, where the run itself fails
# What an agent keeps while it works for a cluster: its Lease and its state, namespaces, and the programs of each.
_KEPT: Final = ("namespaces/", "leases/", "configmaps/muster-lab/muster-agent")
_PROGRAMS: Final = "/muster-programs-"
ACTS: Final[Mapping[str, Callable[[Scene], Awaitable[None]]]] = {
    "mpi": kinds.mpi,
    "torchrun": kinds.torchrun,
    "torchrun_elastic": kinds.torchrun_elastic,
    "colossal": kinds.colossal,
    "inference": kinds.inference,
    "slots_seen": kinds.slots_seen,
    "mig_seen": kinds.mig_seen,
    "foreign_taken": faults.foreign_taken,
    "kubelet_lost": faults.kubelet_lost,
    "kubelet_back": faults.kubelet_back,
    "rebooted": faults.rebooted,
    "out_of_service": faults.out_of_service,
    "claims_seen": kinds.claims_seen,  # the last: the devices of its node are named from then on
}


def main() -> int:
    """Plays every act, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(ACTS), default=list(ACTS))
    chosen = parser.parse_args().only
    lacking = missing() or ("" if os.geteuid() == 0 else "it takes root: nodes have namespaces of their own")
    if lacking:
        print(lacking, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="muster-nodes-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL runs as another user, who must get through
        try:
            return asyncio.run(_run(Path(folder), chosen))
        except Exception:
            for log in sorted(Path(folder).rglob("*.log")):
                say(f"{log.relative_to(folder)} ends with:\n{log.read_text(errors='replace')[-_TAIL:]}")
            raise


async def _run(folder: Path, chosen: list[str]) -> int:
    began = time.monotonic()
    listed: Mapping[str, str] = json.loads(await asyncio.to_thread(NULLS.read_text, encoding="utf-8"))
    async with site(folder) as found:
        await asyncio.to_thread(found.until_ready)
        say(f"two nodes are ready after {time.monotonic() - began:.0f} s")
        with kubernetes_stack(folder / "muster", found.cluster, None, {"allow": ["hostPath"]}) as stack:
            outcome, seconds = await _play(found, stack, chosen, listed)
            left = await asyncio.to_thread(left_over, found.cluster)
    for line in left:
        say(line)
    unplayed = {name: None for name in listed if name not in ACTS}
    result: dict[str, Any] = {**outcome, **unplayed, "left_over": len(left), "running_s": seconds}
    print(json.dumps(result))
    good = all(value is (None if name in listed else True) for name, value in outcome.items())
    return 0 if good and not left else 1


async def _play(
    found: Site, stack: RunningStack, chosen: list[str], listed: Mapping[str, str]
) -> tuple[dict[str, bool | None], dict[str, float]]:
    """How each act ended, in their order, and how long workloads took to run."""
    outcome: dict[str, bool | None] = {}
    async with Muster(stack.server) as muster:
        diary = Diary()
        scene = Scene(muster, diary, found)
        keeping = asyncio.create_task(diary.keep(muster))
        try:
            await _prepare(muster)
            for name in chosen:
                outcome[name] = await _attempt(name, scene, listed)
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
    return outcome, scene.seconds


async def _attempt(name: str, scene: Scene, listed: Mapping[str, str]) -> bool | None:
    """Whether an act held; None: it did not, as the list says."""
    began = time.monotonic()
    try:
        await ACTS[name](scene)
    except _PROBLEMS as problem:
        say(f"{name} did not hold after {time.monotonic() - began:.0f} s: {problem}")
        if not isinstance(problem, DidNotHappen):
            traceback.print_exc()
        await _clear(scene)
        return None if name in listed and listed[name] in str(problem) else False
    say(f"{name} holds, {time.monotonic() - began:.0f} s")
    return True


async def _clear(scene: Scene) -> None:
    """Ends what an act that did not hold has left, so that the next one finds the cluster empty."""
    left = [each.id async for each in scene.muster.list(project=PROJECT)]
    with suppress(DidNotHappen, MusterError, TimeoutError):
        await scene.end(*left)
    with suppress(OSError, LookupError, AssertionError, TimeoutError):
        for node in scene.site.nodes.values():
            await asyncio.to_thread(node.mend)
        await asyncio.to_thread(scene.site.until_ready)


async def _prepare(muster: Muster) -> None:
    """Both nodes are known, and there is a project."""

    async def nodes() -> int:
        return len([each async for each in muster.nodes.list()])

    await eventually(nodes, lambda count: count == len(NAMES))
    await muster.projects.create(PROJECT, quotas=[pool_quota("default", GPUS * len(NAMES))])


def say(text: str) -> None:
    """A line for people."""
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
