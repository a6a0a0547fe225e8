"""What every act has at hand: the client, the diary, the documents, and the evidence that can be gathered.

Called by the acts. Holds: everything goes through the public gRPC API, except what a person would look at from
outside (HTTP answers, the process table) and the events, which outsiders put on Kafka.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from muster.api.v1 import triggers_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster, Phase
from muster_kernel import ids
from muster_stack.demo.diary import Diary, DidNotHappen, Entry
from muster_stack.demo.texts import Texts, on_this_machine
from muster_stack.processes import environment, pids

PROJECT: Final = "research"
START: Final = 150.0  # seconds that anything may take at most to begin or to end
_DIGEST: Final = 16  # characters by which an agent names the folder of a workload
_WORKLOAD_MARK: Final = "MUSTER_WORKLOAD_ID"


@dataclass(frozen=True, slots=True)
class Scene:
    """One run of the demo.

    kafka: how an outsider's producer (aiokafka) connects. gpus: whether there is any. images: of pods, by what they
    have: `python`, `mpi` and `torch`; empty where none was named.
    """

    muster: Muster
    diary: Diary
    kafka: Mapping[str, str]
    agents: Path = Path()  # the state folders of the clusters' agents, where these run on this machine
    document: Texts = on_this_machine
    project: str = PROJECT
    gpus: bool = True
    images: Mapping[str, str] = field(default_factory=dict)

    def kept(self, workload_id: str, name: str) -> bool:
        """Whether a workload has a file in the folder that it keeps over its starts."""
        pattern = f"*/work/{ids.digest(workload_id)[:_DIGEST]}/keep/{name}"
        return any(self.agents.glob(pattern))

    def trigger(self, name: str) -> triggers_pb2.Trigger:
        """A trigger of the demo."""
        told = yaml.safe_load(self.document(name))
        return triggers_pb2.Trigger(
            name=told["name"],
            project=told["project"],
            template=told["template"],
            event_type=told["eventType"],
            event_sources=told["eventSources"],
            environment=told["environment"],
            enabled=True,
        )

    async def submit(self, name: str, **more: str) -> workload_pb2.Workload:
        """Submits a document through the public API; more: values of its placeholders."""
        return await self.muster.submit(self.document(name, **more), key=f"demo-{name}")

    async def delete(self, workload: str) -> None:
        """Deletes a workload and waits for it."""
        await self.muster.delete(workload, key=f"demo-delete-{workload}")
        await self.diary.becomes(workload, Phase.DELETED, seconds=START)

    async def completed(self, workload: str) -> Entry:
        """Its story once it has completed. Raises DidNotHappen."""
        return await self.diary.becomes(workload, Phase.COMPLETED, seconds=START)

    async def log(self, workload: str, replica: str = "") -> str:
        """What its replicas wrote, one after the other."""
        return await log_of(self.muster, workload, replica)

    async def summary(self, workload: str) -> dict[str, Any]:
        """The JSON object that the program printed at its end. Raises DidNotHappen where its log has none."""
        return summary_of(await self.log(workload))


async def log_of(muster: Muster, workload: str, replica: str = "") -> str:
    """What a workload's replicas, or one of them, wrote, one after the other."""
    parts: dict[str, bytes] = {}
    async for piece in muster.logs(workload, replica=replica):
        parts[piece.replica] = parts.get(piece.replica, b"") + piece.data
    return "\n".join(part.decode(errors="replace") for _, part in sorted(parts.items()))


def summary_of(log: str) -> dict[str, Any]:
    """The last line of a log that is a JSON object."""
    for line in reversed(log.splitlines()):
        if line.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            return found
    raise DidNotHappen(f"the log has no summary; it ends with: {log[-300:].strip() or 'nothing'}")


def exit_codes(entry: Entry) -> list[int]:
    """The exit codes that its replicas are reported with."""
    return [replica.exit_code for replica in entry.workload.replicas if replica.HasField("exit_code")]


def processes_of(workload: str) -> list[int]:
    """The living processes that carry this workload's id in their environment."""
    return [pid for pid in pids() if pid != os.getpid() and environment(pid).get(_WORKLOAD_MARK) == workload]
