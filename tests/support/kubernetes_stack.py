"""A whole stack whose one cluster is a real API server, the moments at which it makes pods there, and what it leaves.

Used by the benchmarks, the chaos run and the real nodes of the Kubernetes back end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
import httpx
import yaml

from muster_cluster_agent.domain.kubernetes import marks
from tests.support.kubernetes import TOKEN, Cluster, session_with
from tests.support.stacks import RunningStack, running_stack
from tests.support.waiting import eventually_now

NAME: Final = "lab"
DIRECT: Final[Mapping[str, Any]] = {"binder": "direct"}
"""Pods name their nodes themselves: the cluster has no scheduler of its own."""
_CLEARED_SECONDS: Final = 60.0  # from the last end of a workload until nothing of any is left
# What an agent keeps while it works for a cluster: its Lease and its state, namespaces, and the programs of each.
_KEPT: Final = ("namespaces/", "leases/", "configmaps/muster-lab/muster-agent")
_PROGRAMS: Final = "/muster-programs-"


@contextmanager
def kubernetes_stack(
    folder: Path, found: Cluster, rate: float | None, more: Mapping[str, Any] = DIRECT
) -> Iterator[RunningStack]:
    """The stack.

    rate: the agent's calls of the API server a second; None: its default. more: further keys of the cluster file.
    """
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(found.kubeconfig())
    said: dict[str, Any] = {"cluster": NAME, "backend": "kubernetes", "kubeconfig": str(kubeconfig)}
    said |= {"namespace": "muster-lab", **more}
    if rate is not None:
        said["rate"] = {"calls": rate, "burst": rate}
    with running_stack(folder / "stack", {NAME: yaml.safe_dump(said)}) as stack:
        yield stack


def left_over(found: Cluster) -> list[str]:
    """Objects of Muster that are still there a minute after everything has ended, for people."""

    def now() -> list[str]:
        try:
            labelled = found.labelled(marks.SELECTOR)
        except httpx.HTTPError as error:
            return [repr(error)]
        return sorted(item for item in labelled if not item.startswith(_KEPT) and _PROGRAMS not in item)

    try:
        eventually_now(now, lambda left: not left, within=_CLEARED_SECONDS, every=1.0)
    except TimeoutError:
        return [f"{item} is still there" for item in now()]
    return []


@asynccontextmanager
async def pods_made(found: Cluster) -> AsyncIterator[Mapping[str, float]]:
    """When the first pod of each workload was made, by its id, as a watch tells it from now on until the block ends.

    Monotonic seconds, at the arrival of the event. Raises RuntimeError if the watch ended before the block.
    """
    made: dict[str, float] = {}
    path = f"{found.url}/api/v1/pods"
    async with session_with(TOKEN) as session:
        async with session.get(path, params={"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]

        async def follow() -> None:
            query = {"watch": "true", "resourceVersion": version}
            async with session.get(path, params=query, timeout=aiohttp.ClientTimeout(total=None)) as events:
                async for line in events.content:
                    labels = json.loads(line)["object"]["metadata"].get("labels") or {}
                    if marks.WORKLOAD in labels:
                        made.setdefault(labels[marks.WORKLOAD], time.monotonic())

        following = asyncio.create_task(follow())
        try:
            yield made
            if following.done():
                raise RuntimeError("the watch of the pods ended before its end")
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
