"""KAI-Scheduler as replicas.md 5.1 describes it: it chooses the cards that pods share, and reserves each of them.

A stand-in: the real KAI is not run by any test. Pods that share a card have the same group. A reservation pod takes the
card of a group from the device plugin, for as long as a pod of the group is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

import aiohttp

Object = dict[str, Any]
SCHEDULER: Final = "kai-scheduler"
QUEUE: Final = "muster"
RESERVATIONS: Final = "kai-resource-reservation"
MEBIBYTES: Final = 81_920
"""Of each card."""
GROUP: Final = "runai-gpu-group"
CONFIG_MAP: Final = "runai/shared-gpu-configmap"
_MERGE: Final = "application/merge-patch+json"
_CONFLICT: Final = 409
_GONE: Final = 404


class Kai:
    """call: calls the API server.

    spread: nodes on which each pod has cards of its own. instead: by node, the groups that a pod is given in place of
    those that it asks for. portions: what ConfigMaps say, in place of what pods ask for, by node.
    """

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self._used: dict[str, dict[str, dict[str, float]]] = defaultdict(dict)  # by node, group and the pod's path
        self._given: set[str] = set()  # paths of pods that have their groups, which may not be seen yet
        self._reserved: dict[str, str] = {}  # the path of its reservation pod, by group
        self.spread: set[str] = set()
        self.instead: dict[str, list[str]] = {}
        self.portions: dict[str, str] = {}

    async def bind(self, path: str, pod: Object, node: str) -> bool:
        """What KAI does before it binds a pod; False: it does not schedule it."""
        if "kai.scheduler/queue" not in pod["metadata"]["labels"]:
            return False
        asked = pod["metadata"]["annotations"]
        if path in self._given or ("gpu-fraction" not in asked and "gpu-memory" not in asked):
            return True
        self._given.add(path)
        portion = float(asked.get("gpu-fraction") or int(asked["gpu-memory"]) / MEBIBYTES)
        count = int(asked.get("gpu-fraction-num-devices", 1))
        groups = self.instead.get(node, self._chosen(node, portion, count))
        for group in groups:
            self._used[node].setdefault(group, {})[path] = portion
            await self.reserve(node, group)
        labels = {GROUP: groups[0]} if count == 1 and groups else {f"{GROUP}/{group}": group for group in groups}
        name = f"{pod['metadata']['name'][:40]}-shared-gpu"
        data = {
            "RUNAI-VISIBLE-DEVICES": ",".join(groups),
            "RUNAI_NUM_OF_GPUS": self.portions.get(node, f"{portion:.2f}"),
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-0"}, "data": data}
        await self._make(f"{path.partition('/pods/')[0]}/configmaps", body)
        said = {"metadata": {"labels": labels, "annotations": {CONFIG_MAP: name}}}
        await self._call("PATCH", path, said, content=_MERGE)
        return True

    async def reserve(self, node: str, group: str) -> None:
        """A reservation pod takes the card of a group, if none has."""
        if group in self._reserved:
            return
        name = f"gpu-reservation-{node}-{group[:8]}"
        self._reserved[group] = f"/api/v1/namespaces/{RESERVATIONS}/pods/{name}"
        await self._make("/api/v1/namespaces", {"apiVersion": "v1", "metadata": {"name": RESERVATIONS}})
        container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {GROUP: group}},
            "spec": {"nodeName": node, "containers": [container]},
        }
        await self._make(f"/api/v1/namespaces/{RESERVATIONS}/pods", body)

    async def release(self, path: str) -> None:
        """A pod has ended: the cards that it shared with none are free."""
        for groups in self._used.values():
            for group in [group for group, pods in groups.items() if pods.pop(path, None) is not None and not pods]:
                del groups[group]
                await self._delete(self._reserved.pop(group))

    def _chosen(self, node: str, portion: float, count: int) -> list[str]:
        """The groups that have room, fullest first, and new ones."""
        room = [group for group, pods in self._used[node].items() if sum(pods.values()) + portion <= 1]
        room.sort(key=lambda group: -sum(self._used[node][group].values()))
        found = [] if node in self.spread else room[:count]
        return [*found, *(f"{uuid4()}" for _ in range(count - len(found)))]

    async def _make(self, path: str, body: Object) -> None:
        try:
            await self._call("POST", path, body)
        except aiohttp.ClientResponseError as error:
            if error.status != _CONFLICT:
                raise

    async def _delete(self, path: str) -> None:
        try:
            await self._call("DELETE", path, {"gracePeriodSeconds": 0})
        except aiohttp.ClientResponseError as error:
            if error.status != _GONE:
                raise
