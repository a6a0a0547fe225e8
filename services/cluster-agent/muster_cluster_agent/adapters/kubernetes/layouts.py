"""Asks the mig-manager of a cluster for MIG layouts, by the label of a node that it follows (kubernetes.md 7.4).

Used by the Kubernetes back end. Holds: no layout is asked for while a pod of Muster or of another tenant holds a device
of the node. Each look reads the node itself: the followed copy may be older than the last patch.
"""

from __future__ import annotations

from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Json
from muster_cluster_agent.domain.kubernetes import layouts
from muster_cluster_agent.domain.kubernetes.layouts import Progress
from muster_cluster_agent.domain.layouts import LayoutAnswer
from muster_cluster_agent.errors import BackendError

_FORBIDDEN: Final = 403
NO_MIG_MANAGER: Final = (
    "the cluster file of the agent does not say `mig_manager: true`: add it, and apply what `muster clusters join` "
    "prints then"
)
_FOREIGN: Final = "a pod of another tenant holds a device of the node"
_SAID_NO: Final = (
    "the mig-manager set nvidia.com/mig.config.state to `failed`; its log on the node says why, and its ConfigMap "
    "lists the configurations. To try the same one again, order another first, such as `all-disabled`"
)

_log = logs.get(__name__)


class Layouts:
    """One cluster's layouts. allowed: the cluster file says that the cluster has a mig-manager."""

    def __init__(self, client: Client, cache: Cache, *, allowed: bool) -> None:
        self._client = client
        self._cache = cache
        self._allowed = allowed

    async def lay_out(self, node: str, config: str) -> LayoutAnswer | None:
        """Do the next step to a layout; return how it ended, or None if it has not. Raises nothing."""
        if not self._allowed:
            return LayoutAnswer(None, NO_MIG_MANAGER)
        if self._client.lead_left() <= 0:
            return None
        try:
            raw = await self._client.find(f"/api/v1/nodes/{node}")
            return None if raw is None else await self._step(raw, node, config)
        except ApiError as problem:
            if problem.status == _FORBIDDEN:
                return LayoutAnswer(None, f"the agent may not change the labels of the node: {problem.message}")
            _log.info("layout_not_asked_for", node=node, why=problem.message)
        except BackendError as problem:
            _log.info("layout_not_asked_for", node=node, why=str(problem))
        return None

    async def _step(self, raw: Json, node: str, config: str) -> LayoutAnswer | None:
        match layouts.progress(raw["metadata"].get("labels") or {}, config):
            case Progress.DONE:
                return LayoutAnswer(self._cache.nodes.report_of(raw))
            case Progress.FAILED:
                return LayoutAnswer(None, _SAID_NO)
            case Progress.WORKING:
                return None
            case Progress.UNASKED:
                return await self._ask(raw, node, config)

    async def _ask(self, raw: Json, node: str, config: str) -> LayoutAnswer | None:
        foreign = self._cache.nodes.report_of(raw).foreign
        if foreign.slots or foreign.devices:
            return LayoutAnswer(None, _FOREIGN)
        if any(pod.node == node and not pod.terminal for pod in self._cache.by_name.values()):
            return None  # of a leader that knew no better; the scheduler takes it away
        await self._client.patch(f"/api/v1/nodes/{node}", layouts.asking(raw, config))
        return None
