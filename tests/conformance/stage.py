"""What a case works with: an agent process on a platform, the bus beside it, and the workloads that it makes.

Holds: a workload of a case has an id that no other case has; a stage that is shared is used by cases that neither end
its agent nor change its epoch.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster_kernel import ids
from tests.conformance import programs
from tests.conformance.bus import PATIENCE, Bus
from tests.conformance.platforms import Platform
from tests.support.agents import AgentProcess, training, workload_id
from tests.support.waiting import eventually

CREATED: Final = fleet_pb2.REPLICA_STATE_CREATED
STARTING: Final = fleet_pb2.REPLICA_STATE_STARTING
READY: Final = fleet_pb2.REPLICA_STATE_READY
SUCCEEDED: Final = fleet_pb2.REPLICA_STATE_SUCCEEDED
FAILED: Final = fleet_pb2.REPLICA_STATE_FAILED
LOST: Final = fleet_pb2.REPLICA_STATE_LOST
GONE: Final = fleet_pb2.REPLICA_STATE_GONE
IMAGE: Final = "team/image:1"
_LOG: Final = 4_000  # characters of an agent's log, for a failed case
_NUMBERS: Final = itertools.count(50_000)


@dataclass
class Stage:
    """One agent. namespace: of the project p; spare: nodes that no case has taken yet.

    beside: makes another agent of the same cluster, which does not run yet. empty_bus: makes Kafka lose everything, in
    a case that has one of its own.
    """

    platform: Platform
    agent: AgentProcess
    bus: Bus
    namespace: str
    spare: list[str]
    beside: Callable[[], AgentProcess]
    empty_bus: Callable[[], Awaitable[None]]
    started: int = 0  # the number of the agent's last start

    def work(self, command: str, **fields: Any) -> Work:
        """A workload of its own; see Work.assignment for the fields."""
        return Work(self, workload_id(next(_NUMBERS)), command, fields)

    async def running(self, node: str = "n-0") -> Work:
        """A workload of its own that runs WAITS on a node and is READY."""
        work = self.work(programs.WAITS, runs=[run(node=node)])
        await work.assign()
        await work.state(READY)
        return work

    async def passed(self) -> None:
        """Waits until the agent has done a workload that was written after all else."""
        probe = self.work(programs.ends(0))
        await probe.assign()
        await probe.state(GONE)
        await probe.release()

    def node(self) -> str:
        """A node that no other case uses."""
        return self.spare.pop()

    async def up(self) -> None:
        """Starts the agent and waits for its inventory."""
        await asyncio.to_thread(self.agent.start)
        # A report of the agent before it may be read only now.
        try:
            told = await self.bus.first(
                lambda m: (
                    isinstance(m, agent_pb2.InventoryReported) and m.inventory.full and m.order.start > self.started
                )
            )
        except TimeoutError:
            raise AssertionError(f"the agent told no inventory; it said:\n{self.agent.log()[-_LOG:]}") from None
        self.started = told.order.start

    async def kill(self) -> None:
        """Kills the agent."""
        await asyncio.to_thread(self.agent.kill)

    def end(self) -> None:
        """Asks the agent to end."""
        assert self.agent.process is not None
        self.agent.process.terminate()


@dataclass
class Work:
    """One workload of a case, and what was reported of it."""

    stage: Stage
    id: str
    command: str
    fields: dict[str, Any] = field(default_factory=dict)
    running: str = ""  # the command of the last assignment

    def assignment(self, **changed: Any) -> fleet_pb2.Assignment:
        """Its desired state: one worker on n-0, unless the fields say otherwise.

        runs: where its replicas are. generation, attempt, revision: of the spec, of the start, of the assignment.
        instance: the agent that is meant. Other fields are those of the spec.
        """
        said = {"image": IMAGE, **self.fields, **changed}
        generation, attempt = said.pop("generation", 1), said.pop("attempt", 0)
        revision, instance, grace = said.pop("revision", 0), said.pop("instance", ""), said.pop("grace", 2)
        older: Sequence[fleet_pb2.Revision] = said.pop("older", ())
        self.running = said.pop("command", self.command)
        made = training(0, self.running, attempt=attempt, **said)
        made.workload_id, made.name, made.namespace = self.id, f"w{self.id[-6:]}", self.stage.namespace
        made.revision, made.agent_instance, made.grace_seconds = revision, instance, grace
        made.revisions[0].generation = generation
        own = made.revisions.pop()
        made.revisions.extend([*older, own])
        return made

    async def assign(self, **changed: Any) -> fleet_pb2.Assignment:
        """Writes its desired state."""
        made = self.assignment(**changed)
        await self.stage.bus.assign(made)
        return made

    async def release(self, **said: Any) -> None:
        """Writes its tombstone."""
        await self.stage.bus.release(self.id, **said)

    def name(self, role: str = "worker", index: int = 0, *, generation: int = 1, attempt: int = 0, k: int = 0) -> str:
        """The name of one of its replicas."""
        return ids.replica_name(self.id, generation, attempt, role, index, k)

    async def state(
        self, state: int, *, name: str = "", attempt: int | None = None, within: float = PATIENCE
    ) -> fleet_pb2.ReplicaStatus:
        """The first report of a replica in that state; name: of that replica."""
        status = await self.told_of({state}, name=name, attempt=attempt, within=within)
        if state == READY and programs.is_counted(self.running):
            # A process is READY once it is made; its program may not have come to its first line.
            await eventually(lambda: self.starts(status.name))
        return status

    async def told_of(
        self, states: Collection[int], *, name: str = "", attempt: int | None = None, within: float = PATIENCE
    ) -> fleet_pb2.ReplicaStatus:
        """The first report of a replica in one of these states."""

        def wanted(message: Message) -> bool:
            return (
                isinstance(message, agent_pb2.ReplicaStatusChanged)
                and message.status.state in states
                and name in {"", message.status.name}
                and attempt in {None, message.attempt}
            )

        try:
            found = await self.stage.bus.first(wanted, workload=self.id, within=within)
        except TimeoutError:
            asked = " or ".join(sorted(fleet_pb2.ReplicaState.Name(each) for each in states))  # type: ignore[arg-type]
            raise AssertionError(f"{name or 'no replica'} was not told {asked}; told was {self.told()}") from None
        status: fleet_pb2.ReplicaStatus = found.status
        return status

    async def refused(self, code: str) -> agent_pb2.AssignmentRefused:
        """The first refusal with that code."""
        try:
            found = await self.stage.bus.first(
                lambda m: isinstance(m, agent_pb2.AssignmentRefused) and m.reason.code == code, workload=self.id
            )
        except TimeoutError:
            raise AssertionError(f"it was not refused with {code}; told was {self.told()}") from None
        assert isinstance(found, agent_pb2.AssignmentRefused)
        return found

    def reports(self, name: str = "") -> list[agent_pb2.ReplicaStatusChanged]:
        """What was told of its replicas, or of one of them."""
        return [
            message
            for message in self.stage.bus.of(self.id)
            if isinstance(message, agent_pb2.ReplicaStatusChanged) and name in {"", message.status.name}
        ]

    def is_in_turn(self, first: str, then: str) -> bool:
        """Whether the first replica was told GONE before anything was told of the other one."""
        told = [(message.status.name, message.status.state) for message in self.reports()]
        return told.index((first, GONE)) < [name for name, _ in told].index(then)

    def states(self, name: str = "") -> list[str]:
        """The states told of a replica in order, without repetitions."""
        words = [fleet_pb2.ReplicaState.Name(m.status.state).removeprefix("REPLICA_STATE_") for m in self.reports(name)]
        return [word for word, _ in itertools.groupby(words)]

    def told(self) -> str:
        """Everything that was told of it, in short, for a failed case."""
        words = []
        for message in self.stage.bus.of(self.id):
            if isinstance(message, agent_pb2.ReplicaStatusChanged):
                state = fleet_pb2.ReplicaState.Name(message.status.state).removeprefix("REPLICA_STATE_")
                words.append(f"{message.status.name[23:]} {state} {message.status.message}".strip())
            elif isinstance(message, agent_pb2.AssignmentRefused):
                words.append(f"refused {message.reason.code}: {message.reason.message}")
        return "; ".join(words) or "nothing"

    async def finish(self, code: int, name: str = "") -> None:
        """A replica that runs WAITS ends with a code."""
        await self.stage.platform.finish(self.id, name or self.name(), code)

    async def starts(self, name: str = "") -> int:
        """How often a replica's command was started."""
        return await self.stage.platform.starts(self.id, name or self.name())

    async def nothing_left(self) -> None:
        """Waits until nothing of it is there beside its data. Raises TimeoutError."""
        await eventually(lambda: self.stage.platform.left(self.id), lambda found: not found)


def run(role: str = "worker", count: int = 1, node: str = "n-0", first: int = 0, k: int = 0) -> fleet_pb2.ReplicaRun:
    """Replicas on a node."""
    return fleet_pb2.ReplicaRun(role=role, first_index=first, count=count, node=node, k=k)


def gang(framework: int, workers: int, **fields: Any) -> dict[str, Any]:
    """The fields of a gang on n-0 and n-1."""
    half = (workers + 1) // 2
    runs = [run(count=half), *([run(count=workers - half, node="n-1", first=half)] if workers > half else [])]
    return {"kind": options_pb2.KIND_DISTRIBUTED, "framework": framework, "workers": workers, "runs": runs, **fields}
