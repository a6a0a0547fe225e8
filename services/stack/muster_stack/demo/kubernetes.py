"""`muster demo --cluster`: the same acts on a Kubernetes cluster, which is left as it was found.

Called by the command. Holds: what is deleted there has the labels of the demo's own cluster, of which nothing was there
before; what other installations of Muster have in the same cluster is not touched.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from muster_client import Muster, MusterError, pool_quota
from muster_stack.demo.diary import Diary
from muster_stack.demo.scene import START, Scene
from muster_stack.demo.texts import InPods
from muster_stack.errors import StackError
from muster_stack.kubernetes_clusters import LONGEST_NAME, KubernetesCluster

NAMESPACE: Final = "muster-demo"
"""Of the demo's agent."""
PROJECT: Final = "muster-demo"
NARROW: Final = "muster-demo-narrow"
"""A project that may have one GPU."""
_PREFIX: Final = "demo-"
_GPUS: Final = 64  # that the project deserves: all that its acts ask for at the same time
_LOOK_AGAIN: Final = 0.5
_INVENTORY_SECONDS: Final = 60.0
_CLEARED_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class KubernetesDemo:
    """A demo on a cluster. images: of pods, by what they have.

    name: the cluster's id in Muster, which no installation of it has.
    """

    cluster: KubernetesCluster
    images: Mapping[str, str]
    failures: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return it."""
        return f"{_PREFIX}{self.cluster.name}"[:LONGEST_NAME].rstrip("-")

    def check(self) -> None:
        """Raise StackError where something of an earlier demo is left there, or the cluster cannot be asked."""
        count = self._cleanup()
        if count:
            raise StackError(f"{count} objects of cluster {self.name} are there already; {self._removal()}")

    def declaration(self) -> str:
        """Return the cluster file of the demo's agent."""
        said = {
            "cluster": self.name,
            "backend": "kubernetes",
            "kubeconfig": str(self.cluster.kubeconfig),
            "namespace": NAMESPACE,
            **({"context": self.cluster.context} if self.cluster.context else {}),
        }
        return yaml.safe_dump(said)

    async def prepare(self, muster: Muster, diary: Diary, kafka: Mapping[str, str]) -> Scene:
        """Return the scene, once the cluster's nodes are known and the projects are there. Raises StackError."""
        deadline = time.monotonic() + _INVENTORY_SECONDS
        while not (nodes := [each async for each in muster.nodes.list()]):
            if time.monotonic() > deadline:
                raise StackError(f"cluster {self.name} has told no node within {_INVENTORY_SECONDS:g} s")
            await asyncio.sleep(_LOOK_AGAIN)
        gpus = any(node.devices for node in nodes)
        await muster.projects.create(PROJECT, quotas=[pool_quota("default", _GPUS)], key=PROJECT)
        await muster.projects.create(NARROW, quotas=[pool_quota("default", 1, limit=1)], key=NARROW)
        texts = InPods(self.name, self.images, PROJECT, dict.fromkeys(("background", "urgent"), NARROW), gpus)
        return Scene(muster, diary, kafka, Path(), texts, PROJECT, gpus, self.images)

    async def leave(self, muster: Muster) -> None:
        """Delete every workload, and let the agent delete what it made for them."""
        for workload in [each async for each in muster.list()]:
            await muster.delete(workload.id, key=f"demo-end-{workload.id}")
        deadline = time.monotonic() + START
        while left := [each.name async for each in muster.list()]:
            if time.monotonic() > deadline:
                self.failures.append(f"not deleted: {', '.join(left)}")
                break
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            await muster.clusters.leave(self.name)
            told = await muster.clusters.retire(self.name)
            self.failures.extend([*told.obstacles, *told.failures])
        except MusterError as problem:
            self.failures.append(problem.message)

    def clean(self) -> int:
        """Delete the rest as an administrator; how many objects are left then, or were in the way before.

        What is left is said on stderr.
        """
        self._cleanup("--yes")
        deadline = time.monotonic() + _CLEARED_SECONDS
        while (left := self._cleanup()) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)
        if left:
            self.failures.append(f"{left} objects; {self._removal()}")
        for failure in self.failures:
            sys.stderr.write(f"left in cluster {self.name}: {failure}\n")
        return max(left, len(self.failures))

    def _removal(self) -> str:
        """Return how an administrator deletes what a demo has left."""
        command = f"muster clusters cleanup {self.name} --kubeconfig {self.cluster.kubeconfig} --namespaces"
        return f"if a demo left them, `{command} --yes` deletes them"

    def _cleanup(self, *more: str) -> int:
        """Count what the demo's agent has made there. Raises StackError where nobody can tell."""
        where = ["--kubeconfig", str(self.cluster.kubeconfig)]
        where += ["--context", self.cluster.context] if self.cluster.context else []
        command = [str(Path(sys.executable).with_name("muster")), "clusters", "cleanup", self.name]
        done = subprocess.run(
            [*command, *where, "--namespaces", "--json", *more], capture_output=True, text=True, check=False
        )
        try:
            told: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise StackError(f"what cluster {self.name} has is not known: {done.stderr}") from None
        self.failures.extend(told["failures"])
        return sum(told["objects"].values())
