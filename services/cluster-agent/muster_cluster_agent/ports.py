"""What the agent needs from a back end. The local one is the first, Kubernetes the next.

One contract suite (tests/contracts/test_agent_backend.py) runs over every implementation, and over one whose calls time
out after having worked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster_cluster_agent.domain.actions import Answer, BackendAction
from muster_cluster_agent.domain.fleet import Fleet
from muster_cluster_agent.domain.model import NodeView, Observed


@dataclass(frozen=True, slots=True)
class Changed:
    """Something happened to these workloads; `fleet`: also to nodes or devices. Empty: look at everything again."""

    workloads: frozenset[str] = frozenset()
    fleet: bool = False


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a replica's log and the position after it."""

    data: bytes
    position: int


class Backend(Protocol):
    """Where replicas live."""

    async def list(self, workload_id: str | None = None) -> Sequence[Observed]:
        """Every replica that is not removed, or those of one workload. Raises BackendError where it cannot be said."""
        ...

    def watch(self) -> AsyncIterator[Changed]:
        """What changes from now on. It may end at any time and may say a thing twice; list again after it ended."""
        ...

    async def act(self, action: BackendAction) -> Answer:
        """Does one action. Twice is as good as once. Raises nothing: what is not known is Outcome.UNKNOWN."""
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

    async def read_log(self, name: str, position: int, limit: int) -> LogPiece:
        """At most `limit` bytes of a replica's log from `position` on; empty where there is nothing (yet)."""
        ...

    async def log_tail(self, name: str, limit: int) -> bytes:
        """The last lines of a replica's log, at most `limit` bytes."""
        ...
