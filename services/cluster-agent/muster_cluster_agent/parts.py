"""The parts of an agent that depend on its back end, as the composition root gets them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from muster_cluster_agent.adapters.support import Support
from muster_cluster_agent.ports import WORKERS, AgentState, Backend, Folders


@dataclass(frozen=True, slots=True)
class Parts:
    """A back end that is open, and what goes with it.

    folders: where it keeps folders of workloads over their runs; None: nowhere. eternal: tasks of its own by name.
    workers: workloads that are worked on at the same time.
    """

    cluster: str
    backend: Backend
    state: AgentState
    support: Support
    folders: Folders | None = None
    workers: int = WORKERS
    eternal: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
