"""The cluster's nodes as they were last seen: for reconciling, and for the inventory.

Used by `cache.py`. Holds: a node whose object has gone stays known as long as a pod of Muster's own is bound to it; a
node is judged once for many changes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.device_cache import DeviceCache
from muster_cluster_agent.adapters.kubernetes.kai_cache import KaiCache
from muster_cluster_agent.adapters.kubernetes.list_watch import Follower, Kind
from muster_cluster_agent.domain.fleet import Node
from muster_cluster_agent.domain.kubernetes import hami, nodes
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.hami import Registered
from muster_cluster_agent.domain.kubernetes.nodes import Counting, KubernetesNode, ToldApart
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.model import NodeView

_NODES: Final = Kind("nodes", "/api/v1/nodes")


class NodeCache:
    """The nodes of one cluster.

    changed: called after each change of the inventory. devices: those that are told apart. clock: seconds since 1970.
    kai: the cards where KAI gives them; None: it gives none.
    """

    def __init__(
        self,
        client: Client,
        counting: Counting,
        changed: Callable[[], None],
        devices: DeviceCache,
        clock: Callable[[], float] = time.time,
        kai: KaiCache | None = None,
    ) -> None:
        self._counting = counting
        self._changed = changed
        self._devices = devices
        self._clock = clock
        self._kai = kai
        self.follower = Follower(client, _NODES, nodes.node_of, self._node_changed)
        self.views: Mapping[str, NodeView] = {}
        """The nodes as reconciling needs them, as they were last judged: the same mapping while nothing changes."""
        self.due = False
        """Whether a node has changed since they were last judged."""
        self._gone: dict[str, KubernetesNode] = {}
        self._reported: dict[str, Node] = {}
        self._cards: dict[str, tuple[str, ...]] = {}  # virtual cards by node, as long as nothing of it has changed
        self._stale: set[str] = set()  # nodes whose report has to be made again
        self._drained_by: dict[str, float] = {}  # nodes that a taint announces to go, and when
        self._others: dict[str, dict[str, Pod]] = defaultdict(dict)  # pods that are not Muster's, by node and key

    @property
    def items(self) -> Mapping[str, KubernetesNode]:
        """The nodes that have an object, by name."""
        return self.follower.items

    def add_missing(self, names: Iterable[str], now: float) -> None:
        """Note nodes to which pods are bound and which have no object: their machines may live on."""
        for name in names:
            if name and name not in self.items and name not in self._gone:
                self._gone[name] = nodes.without_object(name, now)

    def by_hami(self, name: str) -> Registered | None:
        """Return what HAMi has registered of a node; None: something else gives its devices."""
        node = self.items.get(name)
        read = self._devices.source in {DeviceSource.AUTO, DeviceSource.HAMI} and name not in self._devices.apart()
        return node.hami if node is not None and read else None

    def source_of(self, name: str) -> DeviceSource:
        """Return what gives those devices of a node that are told apart."""
        if self._kai is not None:
            return DeviceSource.KAI
        return DeviceSource.SLICES if self.by_hami(name) is None else DeviceSource.HAMI

    def shared(self) -> bool:
        """Return whether HAMi or KAI gives the devices of some reported node, also parts of them."""
        if self._kai is not None:
            return any(node.devices for node in self._reported.values())
        return any((found := self.by_hami(name)) is not None and found.devices for name in self.items)

    def unread(self) -> frozenset[str]:
        """Return the nodes with pods of others of which it cannot be read what HAMi gave them."""
        return frozenset(
            name
            for name, others in self._others.items()
            if any(pod.allocation is not None and pod.allocation.problem for pod in others.values())
        )

    def judge(self, now: float, used: Callable[[], AbstractSet[str]]) -> AbstractSet[str]:
        """Return the names of the nodes that are in another state now.

        used: names those to which Muster's pods are bound; called only after a change, since it looks at every pod.
        """
        self.due = False
        known = {**self._gone, **self.items}
        views = {name: nodes.view(node, now, self._counting, self._usable(name)) for name, node in known.items()}
        if views == self.views:
            return frozenset()
        changed = {name for name, view in views.items() if self.views.get(name) != view}
        self.views = views
        for name in self._gone.keys() - used():
            del self._gone[name]
        return changed

    def report(self) -> tuple[Node, ...]:
        """Return the nodes as they are reported."""
        for name in self._stale:
            node = self.items.get(name)
            if node is None:
                self._reported.pop(name, None)
            else:
                others, drained_by = self._others.get(name, {}).values(), self._drained_by.get(name)
                apart = self._told_apart(name)
                self._reported[name] = nodes.reported(node, others, self._counting, drained_by, apart)
        self._stale.clear()
        return tuple(self._reported[name] for name in sorted(self._reported))

    def report_of(self, raw: nodes.Json) -> Node:
        """Return a node as it is reported, of its JSON, with what others hold of it as far as that is known."""
        node = nodes.node_of(raw)
        others, drained_by = self._others.get(node.name, {}).values(), self._drained_by.get(node.name)
        return nodes.reported(node, others, self._counting, drained_by, self._told_apart(node.name))

    def cards(self, name: str) -> tuple[str, ...] | None:
        """Return the virtual cards of a node; None: it is not known."""
        if name not in self.items:
            return None
        if name not in self._cards:
            found = self._told_apart(name)
            self._cards[name] = tuple(device.uuid for device in found.devices) if found is not None else ()
        return self._cards[name]

    def _usable(self, name: str) -> frozenset[str]:
        """Return the UUIDs of the devices of a node that a replica may have."""
        if self._kai is not None:
            return frozenset(self.cards(name) or ())
        found = self.by_hami(name)
        if found is None:
            return self._devices.usable(name)
        return frozenset(device.uuid for device in found.devices if device.healthy)

    def _told_apart(self, name: str) -> ToldApart | None:
        """Return the devices of a node; None: it counts them."""
        node, others = self.items.get(name), self._others.get(name, {}).values()
        if self._kai is not None:
            return self._kai.told_apart(node, others) if node is not None else None
        found = self.by_hami(name)
        if found is None:
            return self._devices.told_apart(name)
        return ToldApart(found.devices, hami.foreign(found, (pod.allocation for pod in others)))

    def note_other(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Note what a pod that is not Muster's holds of a node now; None: nothing."""
        if old is not None and (new is None or new.node != old.node):
            found = self._others.get(old.node, {})
            found.pop(key, None)
            if not found:
                self._others.pop(old.node, None)
            self._report_again(old.node)
        if new is not None and (old is None or _held(old) != _held(new)):
            self._others[new.node][key] = new
            self._report_again(new.node)

    def devices_changed(self, name: str) -> None:
        """Note that a node has other devices, or that others hold other ones."""
        if name not in self.items:
            self._devices.forget(name)
        self.due = True
        self._report_again(name)

    def _node_changed(self, key: str, old: KubernetesNode | None, new: KubernetesNode | None) -> None:
        if new is not None:
            self._gone.pop(key, None)
        elif old is not None:
            self._gone[key] = nodes.without_object(key, self._clock(), uid=old.uid, boot=old.boot)
            self._devices.forget(key)
        drained_by = None if new is None else nodes.drained_by(new, self._counting, self._clock())
        if drained_by is None:
            self._drained_by.pop(key, None)
        else:  # the first time counts: the node changes again while it has the taint
            self._drained_by[key] = min(drained_by, self._drained_by.get(key, drained_by))
        self.due = True  # judged once for many: a list of 1,000 nodes is 1,000 changes
        self._report_again(key)

    def _report_again(self, name: str) -> None:
        self._cards.pop(name, None)
        self._stale.add(name)
        self._changed()


def _held(pod: Pod) -> tuple[object, ...]:
    """Return what a pod of others holds, and where."""
    return pod.node, pod.amounts, pod.allocation, pod.parted, pod.groups
