"""What the acts on real nodes have at hand: the client, the stories of workloads, the cluster, and the documents.

Workloads find the demo's programs in /programs, those of these tests in /tests, and the tests' packages, torch among
them, in /packages: folders of the node, which are this machine's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import torch
import yaml

from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase
from muster_client.errors import NotFound
from muster_cluster_agent.domain.kubernetes import marks
from muster_kernel.reasons import ChangeReason
from muster_stack.demo.acts import UNDECIDED, require
from muster_stack.demo.diary import Diary, DidNotHappen, Entry
from muster_stack.demo.scene import log_of, summary_of
from tests.nodes.configs import IMAGE
from tests.nodes.site import Site
from tests.support.kubernetes_stack import NAME
from tests.support.waiting import eventually

PROJECT: Final = "lab"
WAITS: Final = "sh -c 'trap \"exit 0\" TERM; sleep 3600 & wait'"
PATIENCE: Final = 180.0  # seconds that anything may take at most
TORCH: Final = {"PYTHONPATH": "/packages", "OMP_NUM_THREADS": "1"}
_PROGRAMS: Final = Path(str(resources.files("muster_stack.demo") / "workloads")).resolve()
_PACKAGES: Final = Path(torch.__file__).resolve().parents[1]
FOLDERS: Final = {"programs": _PROGRAMS, "packages": _PACKAGES, "tests": Path(__file__).parent / "programs"}
"""Folders of the node that every pod sees under these names."""


@dataclass
class Scene:
    """One run. seconds: from a submission until Running, by the name of the workload."""

    muster: Muster
    diary: Diary
    site: Site
    seconds: dict[str, float] = field(default_factory=dict)
    lonely: str = ""  # the workload whose kubelet is dead

    async def submit(self, name: str, command: str, *, kind: str = "TrainingWorkload", **fields: Any) -> str:
        """The id of a workload with these fields of the language, some given in short; it need not run yet."""
        made = await self.muster.submit(document(name, command, kind, fields))
        return made.id

    async def run(self, name: str, command: str, **said: Any) -> Entry:
        """The story of a workload that is Running."""
        began = time.monotonic()
        entry = await self.running(await self.submit(name, command, **said))
        self.seconds[name] = round(time.monotonic() - began, 1)
        return entry

    async def running(self, workload: str) -> Entry:
        """Its story once it is Running with every replica ready."""
        return await self.until(workload, _is_ready, "runs")

    async def require_placed(self, workload: str) -> None:
        """Raise DidNotHappen with the reason of `why` if the scheduler finds no place for a workload."""

        async def look() -> str:
            entry = self.diary.entries.get(workload)
            if entry is not None and entry.workload.replicas:
                return "placed"
            try:
                told = await self.muster.why(workload)
            except NotFound:  # the scheduler has not heard of it yet
                return ""
            if told.reason.code == ChangeReason.PLACED:  # the stream of its events may be behind
                return "placed"
            return told.reason.message if told.reason.code not in UNDECIDED else ""

        said = await eventually(look, within=PATIENCE, every=0.1)
        require(said == "placed", said)

    async def until(self, workload: str, met: Any, what: str, *, within: float = PATIENCE) -> Entry:
        """Its story once `met` holds of it. Raises DidNotHappen."""
        return await self.diary.until(workload, met, seconds=within, what=what)

    async def completed(self, workload: str) -> dict[str, Any]:
        """The JSON object that its program printed at its end, once it has completed. Raises DidNotHappen."""
        await self.diary.becomes(workload, Phase.COMPLETED, seconds=PATIENCE)
        return summary_of(await log_of(self.muster, workload))

    async def end(self, *workloads: str) -> None:
        """Deletes workloads and waits until nothing of them is left in the cluster."""
        for workload in workloads:
            await self.muster.delete(workload)
        for workload in workloads:
            await self.diary.becomes(workload, Phase.DELETED, seconds=PATIENCE)
            await eventually(partial(self._pods, workload), lambda left: not left, within=PATIENCE)

    async def _pods(self, workload: str) -> Mapping[str, Any]:
        return self.pods(workload)

    def pods(self, workload: str) -> dict[str, Any]:
        """Its pods, by name."""
        return self.site.pods(f"{marks.WORKLOAD}={workload}")


def _is_ready(entry: Entry) -> bool:
    return entry.phase == Phase.RUNNING.word and all(each.state == "READY" for each in entry.workload.replicas)


def replica(entry: Entry, role: str = "worker", index: int = 0) -> workload_pb2.Replica:
    """A replica of a workload, as it is now."""
    for each in entry.workload.replicas:
        if (each.role, each.index) == (role, index):
            return each
    raise DidNotHappen(f"{entry.workload.name} has no {role}-{index}")


def document(name: str, command: str, kind: str, fields: Mapping[str, Any]) -> str:
    """A document of the language.

    fields: values by their names; `environment` and `volumes` by the names of their items. Every workload runs in this
    cluster and sees the folders of programs and packages.
    """
    said: dict[str, Any] = {"name": name, "image": IMAGE, "command": command, "clusters": [NAME], **fields}
    folders = {
        label: {"value": {"path": str(path), "mountPath": f"/{label}", "readOnly": True}}
        for label, path in FOLDERS.items()
    }
    environment = {key: {"value": text} for key, text in said.pop("environment", {}).items()}
    ports = {key: {"value": port} for key, port in said.pop("ports", {}).items()}
    spec: dict[str, Any] = {key: {"value": value} for key, value in said.items()}
    if kind != "InferenceWorkload":  # services take no folders of the node
        spec["volumes"] = {"items": folders}
    if environment:
        spec["environment"] = {"items": environment}
    if ports:
        spec["ports"] = {"items": ports}
    head = {"apiVersion": "run.ai/v2alpha1", "kind": kind, "metadata": {"name": name, "namespace": f"runai-{PROJECT}"}}
    return yaml.safe_dump({**head, "spec": spec})
