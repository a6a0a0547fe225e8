"""A whole stack whose one cluster is a real API server, and what it does there as the API server's watch tells it.

Used by the benchmarks of the Kubernetes back end. Holds: times are this process's monotonic clock, at the arrival of an
event.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from tests.support.kubernetes import TOKEN, Cluster
from tests.support.stacks import RunningStack, running_stack

NAME: Final = "lab"
_WORKLOAD: Final = "muster.io/workload"


@contextmanager
def kubernetes_stack(folder: Path, found: Cluster, rate: float | None) -> Iterator[RunningStack]:
    """The stack. rate: the agent's calls a second; None: its default."""
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(found.kubeconfig())
    said: dict[str, Any] = {"cluster": NAME, "backend": "kubernetes", "kubeconfig": str(kubeconfig)}
    said |= {"namespace": "muster-lab", "binder": "direct"}
    if rate is not None:
        said["rate"] = {"calls": rate, "burst": rate}
    with running_stack(folder / "stack", {NAME: yaml.safe_dump(said)}) as stack:
        yield stack


@dataclass
class Pods:
    """Pods of workloads as a watch tells them: when one was made, and when it first ran."""

    made: dict[str, float] = field(default_factory=dict)
    ran: dict[str, float] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)

    def take(self, event: dict[str, Any]) -> None:
        """One event."""
        metadata = event["object"]["metadata"]
        workload = (metadata.get("labels") or {}).get(_WORKLOAD)
        if workload is None:
            return
        read = time.monotonic()
        if event["type"] == "DELETED":
            self.there.discard(metadata["name"])
            return
        self.there.add(metadata["name"])
        self.made.setdefault(workload, read)
        if event["object"]["status"].get("phase") == "Running":
            self.ran.setdefault(workload, read)


@asynccontextmanager
async def watched(found: Cluster) -> AsyncIterator[Pods]:
    """The pods of the cluster from now on, until the block ends. Raises RuntimeError where the watch ended early."""
    pods = Pods()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(headers=headers, connector=connector, read_bufsize=1 << 24) as session:
        async with session.get(f"{found.url}/api/v1/pods", params={"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]
        query = {"watch": "true", "resourceVersion": version}

        async def follow() -> None:
            async with session.get(f"{found.url}/api/v1/pods", params=query, timeout=timeout) as events:
                async for line in events.content:
                    pods.take(json.loads(line))

        following = asyncio.create_task(follow())
        try:
            yield pods
            if following.done():
                raise RuntimeError("the watch of the pods ended before its end")
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
