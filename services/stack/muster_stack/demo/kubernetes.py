"""`muster demo --cluster`: the same acts on a Kubernetes cluster, which the demo leaves again.

Called by the command. Holds: what is deleted there has the labels of the demo's own cluster, of which nothing was there
before; what other installations of Muster have in the same cluster is not touched.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
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

_PREFIX: Final = "demo-"
_GPUS: Final = 64  # that the project deserves: all that its acts ask for at the same time
_LOOK_AGAIN: Final = 0.5
_INVENTORY_SECONDS: Final = 60.0
_CLEARED_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class KubernetesDemo:
    """A demo on a cluster. images: of pods, by what they have.

    remarks: what did not go as it should when the demo left the cluster.
    """

    cluster: KubernetesCluster
    images: Mapping[str, str]
    remarks: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the cluster's id in Muster, which is also that of the project."""
        return f"{_PREFIX}{self.cluster.name}"[:LONGEST_NAME].rstrip("-")

    @property
    def narrow(self) -> str:
        """Return the name of a project that may have one GPU."""
        return f"{self.name}-narrow"

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
            "namespace": f"muster-{self.name}",
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
        await muster.projects.create(self.name, quotas=[pool_quota("default", _GPUS)], key=self.name)
        await muster.projects.create(self.narrow, quotas=[pool_quota("default", 1, limit=1)], key=self.narrow)
        texts = InPods(self.name, self.images, self.name, dict.fromkeys(("background", "urgent"), self.narrow), gpus)
        return Scene(muster, diary, kafka, document=texts, project=self.name, gpus=gpus, images=self.images)

    async def leave(self, muster: Muster) -> None:
        """Delete every workload, and let the agent delete what it made for them."""
        try:
            for workload in [each async for each in muster.list()]:
                await muster.delete(workload.id, key=f"demo-end-{workload.id}")
            deadline = time.monotonic() + START
            while left := [each.name async for each in muster.list()]:
                if time.monotonic() > deadline:
                    self.remarks.append(f"not deleted within {START:g} s: {', '.join(left)}")
                    break
                await asyncio.sleep(_LOOK_AGAIN)
            await muster.clusters.leave(self.name)
            told = await muster.clusters.retire(self.name)
            self.remarks.extend([*told.obstacles, *told.failures])
        except MusterError as problem:
            self.remarks.append(problem.message)

    def clean(self) -> int:
        """Delete the rest as an administrator; how many objects are left then, or -1: it is not known.

        A second Ctrl-C does not interrupt it: that would leave something behind.
        """
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        left = -1
        deadline = time.monotonic() + _CLEARED_SECONDS
        try:
            while left and time.monotonic() < deadline:
                try:
                    self._cleanup("--yes")
                    left = self._cleanup()
                except StackError as problem:  # a cluster that does not answer may do so a moment later
                    left = -1
                    sys.stderr.write(f"{problem}\n")
                if left:
                    time.sleep(_LOOK_AGAIN)
        finally:
            signal.signal(signal.SIGINT, before)
        if left:
            self.remarks.append(f"{'some' if left < 0 else left} objects may be left; {self._removal()}")
        return left

    def _removal(self) -> str:
        """Return how an administrator deletes what a demo has left."""
        words = ["muster", "clusters", "cleanup", self.name, *self._where(), "--namespaces", "--yes"]
        return f"if a demo left them, `{shlex.join(words)}` deletes them"

    def _where(self) -> list[str]:
        context = ["--context", self.cluster.context] if self.cluster.context else []
        return ["--kubeconfig", str(self.cluster.kubeconfig), *context]

    def _cleanup(self, *more: str) -> int:
        """Count what the demo's agent has made there. Raises StackError where that is not known."""
        command = [str(Path(sys.executable).with_name("muster")), "clusters", "cleanup", self.name]
        words = [*command, *self._where(), "--namespaces", "--json", *more]
        done = subprocess.run(words, capture_output=True, text=True, check=False, start_new_session=True)
        try:
            told: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise StackError(f"what cluster {self.name} has is not known: {done.stderr.strip()}") from None
        return sum(told["objects"].values())
