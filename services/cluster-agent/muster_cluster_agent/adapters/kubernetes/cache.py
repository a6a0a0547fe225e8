"""What the cluster's objects are now, by workload: the copy from which the agent answers without asking.

Filled by four followers. Holds: a replica is read from its pod while that is there, and from the line in its run's root
afterwards; a replica is GONE only once its line is in the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.device_cache import DeviceCache
from muster_cluster_agent.adapters.kubernetes.kai_cache import KaiCache
from muster_cluster_agent.adapters.kubernetes.list_watch import Follower, Kind
from muster_cluster_agent.adapters.kubernetes.node_cache import NodeCache
from muster_cluster_agent.adapters.kubernetes.objects import ProjectObjects
from muster_cluster_agent.domain import usage
from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.kubernetes import device_parts, kai_cards, lines, marks, substates
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceNames
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.nodes import Counting, KubernetesNode, charged_units
from muster_cluster_agent.domain.kubernetes.observing import observed
from muster_cluster_agent.domain.kubernetes.pods import Pod, pod_of
from muster_cluster_agent.domain.kubernetes.roots import Namespace, Root, WorkloadRoot, namespace_of, root_of
from muster_cluster_agent.domain.model import NodeView, Observed, RunKey
from muster_cluster_agent.ports import Changed

_FLEET_SECONDS: Final = 1.0  # at most one inventory a second, however many pods of others change
BOOT_SETTLES: Final = 60.0
"""Seconds that a container has to run before its node's boot is taken for the one on which it runs."""
_MOST_AWAITED: Final = 1_000  # namespaces
_CLOCK_SECONDS: Final = 5.0  # a silent node becomes a lost one by the clock alone

_log = logs.get(__name__)


class Cache:
    """The cluster as it was last seen. clock: seconds since 1970."""

    def __init__(
        self,
        client: Client,
        owner: Owner,
        counting: Counting,
        own: str,
        clock: Callable[[], float] = time.time,
        *,
        names: DeviceNames | None = None,
        source: DeviceSource = DeviceSource.AUTO,
        kai: KaiSettings | None = None,
    ) -> None:
        """own: the agent's own namespace. names, source, kai: of devices, as the cluster file says."""
        self._counting = counting
        self._own = own
        self._clock = clock
        self.by_name: dict[str, Pod] = {}
        """Muster's own pods by the replica's name."""
        self.pods = Follower(
            client,
            Kind("pods", "/api/v1/pods"),
            lambda raw: pod_of(raw, owner, self.by_name.get(raw["metadata"]["name"])),
            self._pod_changed,
        )
        self.roots = Follower(
            client,
            Kind("configmaps", "/api/v1/configmaps", f"{marks.SELECTOR},{marks.ORIGIN}={owner.origin},{marks.ROOT_OF}"),
            lambda raw: root_of(raw, owner),
            self._root_changed,
        )
        self.devices = DeviceCache(
            client,
            owner,
            names or DeviceNames(),
            source,
            self._devices_changed,
            self._claim_changed,
        )
        self.kai = KaiCache(owner.cluster, kai, counting, self._devices_changed) if kai is not None else None
        """The cards where KAI gives them; None: it gives none."""
        self.nodes = NodeCache(client, counting, self._inventory_changed, self.devices, clock, self.kai)
        self.namespaces = Follower(
            client, Kind("namespaces", "/api/v1/namespaces", marks.PROJECT), namespace_of, self._namespace_changed
        )
        self.objects = ProjectObjects(client, owner, self.namespaces.items, self._inventory_changed)
        self.namespace_listeners: list[Callable[[str], None]] = []
        """Called with the name of each namespace that goes, or is another one than before."""
        self._awaiting: dict[str, set[str]] = {}  # workloads that a namespace did not take, by its name
        self.run_roots: dict[str, Root] = {}
        """Roots of runs and shards of them, by `namespace/name`."""
        self.workload_roots: dict[str, WorkloadRoot] = {}
        """Roots of what outlives runs, by the workload's id."""
        self.ends: dict[str, Observed | None] = {}
        """Replicas that are GONE by name; None: removed."""
        self.stops: dict[str, StopRequest] = {}
        """Why replicas are asked to stop, by name."""
        self.removing: set[str] = set()
        """Replicas that are removed and whose lines do not say so yet."""
        self.pod_listeners: list[Callable[[Pod], None]] = []
        """Called with each pod of Muster's own that is new or has changed."""
        self.vanished: dict[str, float] = {}
        """Replicas whose pods' objects were taken away by others, and since when: they may run."""
        self.released: set[str] = set()
        """Replicas whose pods Muster itself does not hold any more: it has taken its finalizer off."""
        self.never_ran: Callable[[Pod], bool] = lambda _: False
        """Whether a pod may go without a line about its end: it never ran."""
        self.end_listeners: list[Callable[[str], None]] = []
        """Called with the name of each replica whose end is written down in the cluster."""
        self._held: set[str] = set()  # replicas whose pods were seen with Muster's finalizer
        self._pods_of: dict[str, set[str]] = defaultdict(set)  # names of replicas with a pod, by workload
        self._ends_of: dict[str, set[str]] = defaultdict(set)
        self._roots_of: dict[str, set[str]] = defaultdict(set)
        self._ends_without_line: set[str] = set()  # replicas whose lines have gone before their pods
        self._boots: dict[str, str] = {}  # of the node on which a replica's container was first seen
        self._listed = False
        self._changed: set[str] = set()
        self._fleet_changed = False
        self._wake = asyncio.Event()

    @property
    def followers(
        self,
    ) -> tuple[Follower[Pod], Follower[Root | WorkloadRoot], Follower[KubernetesNode], Follower[Namespace]]:
        """Everything that is followed."""
        return self.pods, self.roots, self.nodes.follower, self.namespaces

    async def listed(self) -> None:
        """Waits until every kind was listed once: nothing is concluded from what is not known yet."""
        for follower in self.followers:
            await follower.listed.wait()
        await self.objects.listed()
        await self.devices.listed()
        self._listed = True
        for root in [*self.run_roots.values()]:
            self._take_root(root, root.lines)
        now = self._clock()
        self.nodes.add_missing((pod.node for pod in self.by_name.values()), now)
        self.look_at_nodes(now)

    # ------------------------------------------------------------------------------------------------------- reading

    def of(self, workload_id: str) -> list[Observed]:
        """The replicas of one workload that are not removed."""
        names = self._pods_of.get(workload_id, set()) | self._ends_of.get(workload_id, set())
        found = (self.replica(name) for name in sorted(names))
        return [one for one in found if one is not None]

    def names(self) -> list[str]:
        """Return the name of every replica that has a pod or an end, removed ones included."""
        return [*{**self.by_name, **self.ends}]

    def used_names(self) -> list[str]:
        """Return the name of every replica that has an end, or a pod of which a container has started."""
        begun = [name for name, pod in self.by_name.items() if any(one.ran for one in pod.containers)]
        return [*dict.fromkeys((*begun, *self.ends))]

    def all(self) -> list[Observed]:
        """All replicas that are not removed."""
        found = (self.replica(name) for name in self.names())
        return [one for one in found if one is not None]

    def replica(self, name: str) -> Observed | None:
        """A replica; None: it was never here, or is removed."""
        if name in self.ends:
            return self.ends[name]
        pod = self.by_name.get(name)
        return None if pod is None else self.observe(pod)

    def observe(self, pod: Pod, gone_at: float | None = None, evidence: str = "") -> Observed:
        """The replica that a pod of Muster's own is."""
        # Before a container of it ran, another boot of its node is no evidence: it may first start after it.
        node = self.nodes.items.get(pod.replica.node) if pod.replica is not None else None
        boot = self._boots.get(pod.name) or (node.boot if node is not None else "")
        # A pod of HAMi or KAI asks for units of the resource as well: they are the devices that it was assigned.
        units = () if pod.devices else charged_units(pod.amounts.extended, self._counting, node)
        charge = usage.charge(pod.shares, units, _known_devices(pod, node))
        asked, given = self.stops.get(pod.name), self._given(pod)
        found = observed(pod, boot=boot, charge=charge, asked=asked, gone_at=gone_at, evidence=evidence, given=given)
        if pod.name in self.vanished:
            return replace(found, lost=True, ready=False)
        start = substates.start_step_of(pod)
        return replace(found, start=start) if substates.is_settled(start, self._clock()) else found

    def _given(self, pod: Pod) -> tuple[str, ...] | None:
        """Return the UUIDs of the devices that a pod has; None: the cluster has given it none yet."""
        if pod.source is DeviceSource.KAI:
            return self.kai.given(pod) if self.kai is not None else ()
        if pod.part is None:
            return self.devices.given(pod)
        here = self.nodes.by_hami(pod.node)
        return device_parts.given(pod.allocation, pod.devices, listed=here is not None and bool(here.devices))

    def differs(self, pod: Pod) -> bool:
        """Return whether the cluster gave a pod fewer or more devices than its replica is charged for."""
        if pod.source is DeviceSource.KAI:
            cards = self.nodes.cards(pod.node)
            return self.kai is not None and cards is not None and self.kai.differs(pod, cards)
        if pod.part is None:
            return self.devices.differs(pod)
        return device_parts.differs(pod.allocation, pod.devices, bound=bool(pod.node))

    def pods_of(self, workload_id: str) -> list[Pod]:
        """The pods of a workload that are there, by name."""
        return [self.by_name[name] for name in sorted(self._pods_of.get(workload_id, ())) if name in self.by_name]

    def roots_of(self, workload_id: str) -> list[Root]:
        """Every root and shard of a workload, in the order of runs and shards."""
        found = (self.run_roots[key] for key in self._roots_of.get(workload_id, ()))
        return sorted(found, key=lambda root: (root.run, root.shard))

    def views(self) -> Mapping[str, NodeView]:
        """The nodes as reconciling needs them: the same mapping as long as nothing of them has changed."""
        if self.nodes.due:
            self.look_at_nodes(self._clock())
        return self.nodes.views

    async def changes(self) -> AsyncIterator[Changed]:
        """What changes from now on; the inventory at most once a second."""
        told = 0.0
        while True:
            self.views()
            fleet = self._fleet_changed and time.monotonic() - told >= _FLEET_SECONDS
            if not self._changed and not fleet:
                await self._wait(told)
                continue
            changed, self._changed = frozenset(self._changed), set()
            if fleet:
                self._fleet_changed = False
                told = time.monotonic()
            yield Changed(changed, fleet=fleet)

    def tell(self, workload_id: str) -> None:
        """A workload has to be looked at."""
        self._changed.add(workload_id)
        self._wake.set()

    async def _wait(self, told: float) -> None:
        self._wake.clear()
        left = max(0.0, told + _FLEET_SECONDS - time.monotonic()) if self._fleet_changed else _CLOCK_SECONDS
        try:
            async with asyncio.timeout(left):
                await self._wake.wait()
        except TimeoutError:
            if not self._fleet_changed:
                self.look_at_nodes(self._clock())

    # ------------------------------------------------------------------------------------------------ what comes in

    def _pod_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        self.nodes.note_other(key, _of_others(old), _of_others(new))
        ours = new if new is not None and new.replica is not None else old
        if ours is None or ours.replica is None:
            return
        workload_id = ours.replica.workload_id
        if ours is not new:
            self._pod_gone(ours)
        else:
            self.vanished.pop(ours.name, None)
            self.by_name[ours.name] = ours
            if self.kai is not None:
                self.kai.note(ours)
            if marks.GONE in ours.finalizers:
                self._held.add(ours.name)
            self._pods_of[workload_id].add(ours.name)
            for hear in self.pod_listeners:
                hear(ours)
        self.tell(workload_id)

    def _pod_gone(self, pod: Pod) -> None:
        """A pod's object has gone. One that Muster held and has not released has lost its finalizer to others.

        It may run, also where it was seen without its finalizer: others may take that off first and delete it later.
        """
        if pod.replica is None:
            return
        released = pod.name in self.ends or pod.name in self.released or self.never_ran(pod)
        if pod.name in self._held and not released:
            self.vanished[pod.name] = self._clock()
            _log.warning("a pod has vanished without its finalizer; its replica is lost", pod=pod.key)
            return
        self.drop(pod)

    def drop(self, pod: Pod) -> None:
        """Forgets a pod."""
        self.by_name.pop(pod.name, None)
        if self.kai is not None:
            self.kai.forget(pod)
        self.vanished.pop(pod.name, None)
        self.released.discard(pod.name)
        self._held.discard(pod.name)
        self._boots.pop(pod.name, None)
        self.stops.pop(pod.name, None)
        if pod.replica is None:
            return
        _discard(self._pods_of, pod.replica.workload_id, pod.name)
        if pod.name in self._ends_without_line:
            self._ends_without_line.discard(pod.name)
            self._forget_end(pod.replica.workload_id, pod.name)

    def note_boot(self, pod: Pod, now: float) -> None:
        """Remembers on which boot of its node a container runs, once the node's own news are sure to be newer."""
        node = self.nodes.items.get(pod.node)
        started = [one.started_at for one in pod.containers if one.ran and one.started_at is not None]
        if node is None or pod.name in self._boots or not started or not self.nodes.follower.sound:
            return
        if now - min(started) >= BOOT_SETTLES:
            self._boots[pod.name] = node.boot

    def forget_ends(self, workload_id: str, run: RunKey) -> None:
        """Forgets ends of runs up to this one that stand in no root."""
        for name in self._ends_of.get(workload_id, set()) - self._written_lines(workload_id):
            if marks.run_of_name(name) <= run:
                self._forget_end(workload_id, name)

    def unwritten_ends(self, workload_id: str, run: RunKey) -> dict[str, str]:
        """The lines of a run's ends that stand in no root, as far as it was seen."""
        found = {}
        for name in self._ends_of.get(workload_id, set()) - self._written_lines(workload_id):
            if marks.run_of_name(name) == run:
                end = self.ends[name]
                found[name] = lines.REMOVED if end is None else lines.line_of(end)
        return found

    def _devices_changed(self, node: str) -> None:
        self.nodes.devices_changed(node)

    def _claim_changed(self, name: str) -> None:
        """The claim of a replica is allocated, or released: its pod is looked at again."""
        pod = self.by_name.get(name)
        if pod is None or pod.replica is None:
            return
        for hear in self.pod_listeners:
            hear(pod)
        self.tell(pod.replica.workload_id)

    def _inventory_changed(self) -> None:
        self._fleet_changed = True
        self._wake.set()

    def _namespace_changed(self, key: str, old: Namespace | None, new: Namespace | None) -> None:
        self.objects.namespace_changed(key)
        if old is not None and (new is None or new.terminating or new.uid != old.uid):
            for hear in self.namespace_listeners:
                hear(key)
        if new is not None and not new.terminating:
            for workload_id in self._awaiting.pop(key, ()):
                self.tell(workload_id)

    def await_namespace(self, name: str, workload_id: str) -> None:
        """Tell of a workload as soon as a namespace that does not take it now is another one, or is there."""
        if len(self._awaiting) > _MOST_AWAITED:  # all are tried again by the clock, too
            self._awaiting.clear()
        self._awaiting.setdefault(name, set()).add(workload_id)

    def _root_changed(self, key: str, old: Root | WorkloadRoot | None, new: Root | WorkloadRoot | None) -> None:
        root = new if new is not None else old
        if isinstance(root, WorkloadRoot):
            if new is None:
                self.workload_roots.pop(root.workload_id, None)
            else:
                self.workload_roots[root.workload_id] = root
        elif root is not None:
            self._run_root_changed(key, root, gone=new is None)
            if old is not None or root.lines:  # one that was made a moment ago says nothing new
                self.tell(root.workload_id)

    def _run_root_changed(self, key: str, root: Root, *, gone: bool) -> None:
        before = self.run_roots.pop(key, None)
        _discard(self._roots_of, root.workload_id, key)
        if not gone:
            self.run_roots[key] = root
            self._roots_of[root.workload_id].add(key)
        if not self._listed:  # whether its lines count is known once the pods are
            return
        known = before.lines if before is not None else {}
        missing = known.keys() if gone else known.keys() - root.lines.keys()
        if missing:  # lines move to another root when a namespace is deleted
            for name in missing - self._written_lines(root.workload_id):
                self._forget_line(root.workload_id, name)
        if not gone:
            self._take_root(root, {name: line for name, line in root.lines.items() if known.get(name) != line})

    def _take_root(self, root: Root, written: Mapping[str, str]) -> None:
        """Take lines of a root, of those that it may tell."""
        self.take_lines(root.workload_id, {key: line for key, line in written.items() if self._may_tell(root, key)})

    def _may_tell(self, root: Root, key: str) -> bool:
        """Whether a line of a root counts: who may write ConfigMaps in one namespace ends no pod of another."""
        pod = self.by_name.get(lines.replica_name(key))
        return pod is None or root.namespace in {pod.namespace, self._own}

    def take_lines(self, workload_id: str, written: Mapping[str, str]) -> None:
        """What is written down in a root. A line that cannot be read is one in the log."""
        for name, line in written.items():
            stopped = lines.stopped_name(name)
            if stopped:
                self.stops[stopped] = lines.stop_request_of(line)
                continue
            try:
                end = lines.replica_of(name, line)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                _log.warning("the end of a replica cannot be read", replica=name, error=repr(error))
                continue
            self._ends_without_line.discard(name)
            if end is None:
                self.removing.discard(name)
            self.ends[name] = None if name in self.removing else end
            self._ends_of[workload_id].add(name)
            for hear in self.end_listeners:
                hear(name)

    def remove_end(self, name: str) -> None:
        """A replica that is GONE is removed: its name stays used up. Its line says so later."""
        self.removing.add(name)
        self.ends[name] = None

    def _written_lines(self, workload_id: str) -> set[str]:
        """Return the keys of all lines in the workload's roots."""
        return {name for root in self.roots_of(workload_id) for name in root.lines}

    def _forget_line(self, workload_id: str, name: str) -> None:
        stopped = lines.stopped_name(name)
        if name in self.ends:  # else the line did not count: its root was not the pod's own
            self._forget_end(workload_id, name)
        elif stopped and stopped not in self.by_name:  # a pod that is there was asked to stop, and still is
            self.stops.pop(stopped, None)

    def _forget_end(self, workload_id: str, name: str) -> None:
        """The line about a replica has gone. Its pod, which may be seen to go later, must not look alive until then."""
        self.removing.discard(name)
        if name in self.by_name:
            self.ends[name] = None
            self._ends_without_line.add(name)
            return
        self.ends.pop(name, None)
        _discard(self._ends_of, workload_id, name)

    def look_at_nodes(self, now: float) -> None:
        """Judge the nodes again. The workloads on those that are in another state now are due."""
        changed = self.nodes.judge(now, lambda: {pod.node for pod in self.by_name.values()})
        if not changed:
            return
        for pod in self.by_name.values():
            if pod.node in changed and pod.replica is not None:
                self.tell(pod.replica.workload_id)


def _known_devices(pod: Pod, node: KubernetesNode | None) -> Mapping[str, Device]:
    """Return what is known of the devices that were assigned to a pod, by name."""
    if node is None:
        return {}
    if pod.source is DeviceSource.KAI:
        return kai_cards.devices_of(pod, node)
    return {device.uuid: device for device in node.hami.devices} if node.hami is not None else {}


def _of_others(pod: Pod | None) -> Pod | None:
    """The pod where it is not Muster's and holds something of a node."""
    return pod if pod is not None and pod.replica is None and pod.node and not pod.terminal else None


def _discard(index: dict[str, set[str]], key: str, item: str) -> None:
    """Takes an item out of an index, and its set where that is empty: workloads come and go for months."""
    found = index.get(key)
    if found is not None:
        found.discard(item)
        if not found:
            del index[key]
