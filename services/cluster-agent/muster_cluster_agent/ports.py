"""What the agent needs from a back end. The local one is the first, Kubernetes the next.

One contract suite (tests/contracts/test_agent_backend.py) runs over every implementation, and over one whose calls time
out after having worked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster_cluster_agent.domain.actions import Answer, BackendAction, Refuse
from muster_cluster_agent.domain.findings import Finding
from muster_cluster_agent.domain.fleet import Difference, Fleet
from muster_cluster_agent.domain.layouts import LayoutAnswer
from muster_cluster_agent.domain.model import NodeView, Observed, RunKey, Status
from muster_cluster_agent.domain.retirement import Retirement
from muster_cluster_agent.domain.usage import Sample

WORKERS: Final = 8
"""Workloads that are worked on at the same time, where the back end says nothing else."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Something happened to these workloads. fleet: to nodes or devices, so that the inventory is reported again.

    everything: every workload has to be looked at, as where neither of the two is said.
    """

    workloads: frozenset[str] = frozenset()
    fleet: bool = False
    everything: bool = False


class Backend(Protocol):
    """Where replicas live."""

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        """Every replica that is not removed, or those of one workload. Raises BackendError where it cannot be said."""
        ...

    def portions(self) -> AsyncIterator[Sequence[Observed]]:
        """Yield every replica that has used devices and is not removed, some at a time: other tasks run in between."""
        ...

    def observed_at(self) -> float:
        """Of when its replicas and nodes are known, in seconds since 1970: now, while it can be seen."""
        ...

    def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on. It may end at any time and may say a thing twice; list again after it ended."""
        ...

    async def act(self, action: BackendAction) -> Answer:
        """Does one action. Twice is as good as once. Raises nothing: what is not known is Outcome.UNKNOWN.

        A replica is refused while a device of it has no room next to replicas that are not GONE (domain/holdings.py).
        """
        ...

    async def close_runs(self, workload_id: str, run: RunKey) -> None:
        """Takes away what runs up to this one had beside their replicas, which are all removed. Raises BackendError."""
        ...

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        """Do the next step to a MIG layout of a node; None: it has not ended. Twice is as good as once. Raises nothing.

        config: the name of a configuration of the cluster's mig-manager.
        """
        ...

    async def fleet(self) -> Fleet:
        """The nodes and devices of now, and what the cluster can do."""
        ...

    async def nodes(self) -> Mapping[str, NodeView]:
        """The nodes as reconciling needs them."""
        ...

    async def replicas_with_logs(self, workload_id: str) -> Sequence[str]:
        """Names of the workload's replicas of which a log is kept, also of removed ones; the newest run last."""
        ...

    def read_log(
        self, name: str, *, since: float | None = None, tail: int = 0, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """A replica's log in pieces of at most 64 KiB, whose lines may be torn; nothing where none is kept.

        since: from the first line on that was written at this moment (seconds since 1970) or later, to the second.
        tail: its last so many lines; 0: all of it. follow: until the replica has ended, and not only what is there now.
        """
        ...

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        ...

    async def check(self) -> Sequence[Finding]:
        """Return the findings of a check of the cluster. Raises nothing."""
        ...

    async def retire(self, *, force: bool, dry_run: bool) -> Retirement:
        """Delete what was made in a cluster that leaves the fleet. Raises nothing.

        force: also what runs or holds data. dry_run: only says what stands in the way.
        """
        ...

    async def dead_man(self) -> float | None:
        """The dead-man's deadline that a heartbeat made now tells: seconds without one that the bus acknowledged.

        It is the largest that any replica is held to; None: not every replica ends by itself.
        """
        ...

    async def renew(self, sent_at: float, dead_man: float | None) -> None:
        """The bus has acknowledged the heartbeat of `sent_at` (monotonic clock) that told this dead-man's deadline."""
        ...


class NumberStore(Protocol):
    """Numbers that outlive the process."""

    def read_number(self, name: str) -> int:
        """A kept number; 0 where there is none."""
        ...


class AgentState(NumberStore, Protocol):
    """What an agent keeps of itself, where its back end can keep it.

    instance: who it is, for ever. start: how often it has started; it only grows. It is also the chassis'
    IdentityStore, which remembers the bus.
    """

    instance: str
    start: int

    async def keep_number(self, name: str, value: int) -> None:
        """Keeps a number durably."""
        ...

    async def known(self) -> str | None:
        """The id of the bus that this agent last spoke to, or None before the first time."""
        ...

    async def replace(self, cluster_id: str) -> None:
        """Remembers a new bus."""
        ...


@dataclass(frozen=True, slots=True)
class StatusReport:
    """A replica changed.

    endpoints: the workload's own. without_effect: a sentence about fields of the spec that have none here. folders:
    where its run works, and what outlives it.
    """

    status: Status
    endpoints: tuple[str, ...] = ()
    without_effect: str = ""
    log_tail: bytes = b""
    traceparent: str | None = None
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InventoryReport:
    """All nodes (`fleet`), or what has changed since the last report (`difference`)."""

    fleet: Fleet
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """One assignment that is held, with its replicas as they are."""

    workload_id: str
    generation: int
    attempt: int
    epoch: int
    replicas: tuple[Status, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldReport:
    """Every assignment that is held."""

    assignments: tuple[Held, ...]
    highest_epoch: int


@dataclass(frozen=True, slots=True)
class RefusalReport:
    """An assignment that cannot be done."""

    refusal: Refuse
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """How the change of a node's MIG layout ended. revision: of the record that it answers."""

    node: str
    revision: int
    answer: LayoutAnswer


@dataclass(frozen=True, slots=True)
class BeatReport:
    """The agent lives. `sent_at`: monotonic seconds. healthy: the back end answers. dead_man: as `Backend` has it."""

    sent_at: float
    healthy: bool = True
    dead_man: float | None = None


@dataclass(frozen=True, slots=True)
class SampleReport:
    """Intervals in which replicas held devices: one record."""

    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be understood, with its bytes as they were."""

    reason: str
    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = field(default=())


Report = (
    StatusReport | InventoryReport | HeldReport | RefusalReport | LayoutReport | BeatReport | SampleReport | DeadLetter
)


class Secrets(Protocol):
    """The credentials of workloads, which submission keeps."""

    async def of(self, workload_id: str) -> Mapping[str, str]:
        """What a workload of this cluster holds: reference -> value. Raises SecretsError without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """A workload of which folders are kept. used: seconds since 1970 of its last start."""

    workload_id: str
    used: float


@dataclass(frozen=True, slots=True)
class Deleted:
    """Workloads that will not run again. unknown: submission has no row of them, any more or yet."""

    deleted: frozenset[str]
    unknown: frozenset[str] = frozenset()


class Folders(Protocol):
    """A back end that keeps folders of workloads over their runs."""

    async def kept(self, most: int) -> Sequence[Kept]:
        """The next workloads of which folders are kept although nothing of them is here.

        most: folders to look at. Each call goes on where the last one ended; after the last folder comes the first.
        """
        ...

    async def forget(self, workload_ids: Iterable[str]) -> None:
        """Removes the folders and logs of workloads; those of which a replica is here keep them."""
        ...


class Registry(Protocol):
    """Who knows which workloads are deleted."""

    async def find_deleted(self, workload_ids: Sequence[str]) -> Deleted:
        """Which of at most 1,000 workloads will not run again. Raises SecretsError without an answer."""
        ...


class Reporter(Protocol):
    """Where reports go. In order, at least once; what it cannot keep it asks for again by a resync."""

    def tell(self, report: Report) -> None:
        """Queues a report; never blocks."""
        ...
