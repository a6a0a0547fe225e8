"""Devices that drivers list and claims hold, as they were last seen: ResourceSlices and ResourceClaims of the cluster.

Used by `cache.py`. Holds: where the API server serves neither of the two, or the cluster file wants none, every node
counts its devices; a device that a claim of others holds is theirs, whatever their pods ask for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from muster_cluster_agent.adapters.kubernetes.client import Client
from muster_cluster_agent.adapters.kubernetes.list_watch import Follower, Kind
from muster_cluster_agent.domain.kubernetes import device_claims, device_slices
from muster_cluster_agent.domain.kubernetes.device_claims import Claim, claim_of
from muster_cluster_agent.domain.kubernetes.device_slices import (
    DeviceKey,
    DeviceNames,
    DeviceSlice,
    NodeDevices,
    slice_of,
)
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.nodes import ToldApart
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.resources import DEVICE_CLAIM, DEVICE_SLICE

_SLICES: Final = Kind(DEVICE_SLICE.plural, DEVICE_SLICE.everywhere, optional=True)
_CLAIMS: Final = Kind(DEVICE_CLAIM.plural, DEVICE_CLAIM.everywhere, optional=True)
MISSING_SECONDS: Final = 600.0
"""How long a driver may be away before its devices are forgotten."""
_NOTHING: Final = NodeDevices()


class DeviceCache:
    """Devices of one cluster.

    changed: called with the name of each node whose devices, or what others hold of them, have changed. claimed: called
    with the name of each replica whose claim has changed.
    """

    def __init__(
        self,
        client: Client,
        owner: Owner,
        names: DeviceNames,
        source: DeviceSource,
        changed: Callable[[str], None],
        claimed: Callable[[str], None],
    ) -> None:
        self.source = source
        self._changed = changed
        self._claimed = claimed
        self._slices = Follower(client, _SLICES, lambda raw: slice_of(raw, names), self._slice_changed)
        self.claims = Follower(client, _CLAIMS, lambda raw: claim_of(raw, owner, names.driver), self._claim_changed)
        self._slices_on: dict[str, dict[str, DeviceSlice]] = defaultdict(dict)  # by node and the slice's name
        self._devices: dict[str, NodeDevices] = {}
        self._told = False  # whether the nodes were reported with their devices since these are known
        self._missing_since: dict[str, float] = {}  # nodes with devices that are not listed, in seconds since 1970
        self._foreign: dict[DeviceKey, set[str]] = defaultdict(set)  # claims of others, by what they hold

    @property
    def followers(self) -> tuple[Follower[DeviceSlice | None], Follower[Claim]] | tuple[()]:
        """What is followed."""
        return (self._slices, self.claims) if self.source in {DeviceSource.AUTO, DeviceSource.SLICES} else ()

    @property
    def sound(self) -> bool:
        """Whether the copy follows the server, as far as this lets the agent read it."""
        return all(each.sound or each.unavailable for each in self.followers)

    @property
    def known(self) -> bool:
        """Whether devices and claims were listed: without the claims it is not known what others hold."""
        return self._slices.listed.is_set() and self.claims.listed.is_set()

    @property
    def found(self) -> bool:
        """Whether some node has devices that are told apart."""
        return any(here.devices for here in self.apart().values())

    async def listed(self) -> None:
        """Waits until both kinds were listed, or it is known that they cannot be."""
        for each in self.followers:
            await each.answered.wait()

    def apart(self) -> Mapping[str, NodeDevices]:
        """Return the devices of each node whose drivers list some."""
        return self._devices if self.known else {}

    def on(self, node: str) -> NodeDevices:
        """Return the devices that a node's drivers list."""
        return self._devices.get(node, _NOTHING)

    def told_apart(self, node: str) -> ToldApart | None:
        """Return the devices of a node; None: it counts them."""
        here = self._devices.get(node) if self.known else None
        if here is None:
            return ToldApart(()) if self.source in {DeviceSource.SLICES, DeviceSource.HAMI} else None
        return ToldApart(
            devices=device_slices.reported(here),
            foreign=tuple(sorted(each.uuid for each in here.devices if self._foreign.get(each.key))),
        )

    def usable(self, node: str) -> frozenset[str]:
        """Return the UUIDs of the devices that a replica may have: all but those that their driver evicts from."""
        here = self._devices.get(node) if self.known else None
        return frozenset(each.uuid for each in here.devices if not each.evicts) if here is not None else frozenset()

    def claim(self, pod: Pod) -> Claim | None:
        """Return the claim of a replica's pod, as far as it was seen."""
        found = self.claims.items.get(pod.key)
        return found if found is not None and found.ours else None

    def given(self, pod: Pod) -> tuple[str, ...] | None:
        """Return the UUIDs of the devices that a pod has; None: the cluster has not allocated them to its claim.

        Nothing is named while no driver of its node lists any: what is not known is no loss of a device.
        """
        if not pod.devices:
            return ()
        node = pod.node or (pod.replica.node if pod.replica is not None else "")
        found = device_claims.given(self.claim(pod), pod.devices, self.on(node))
        return found if found is None or node in self._devices else ()

    def differs(self, pod: Pod) -> bool:
        """Return whether the cluster gave a pod fewer or more devices than its replica is charged for."""
        return bool(pod.devices) and device_claims.differs(self.claim(pod), pod.devices)

    def holds(self, pod: Pod) -> bool:
        """Return whether the devices of a pod may still be in use.

        Without the right to read claims the end of its containers has to do: a pod must not be held for ever.
        """
        return not self.claims.unavailable and device_claims.holds(self.claim(pod), pod)

    def forget(self, node: str) -> None:
        """Forget devices of a node without an object that no driver lists."""
        if node not in self._slices_on:
            self._devices.pop(node, None)

    def look(self, now: float) -> None:
        """Judge again what time alone changes. now: seconds since 1970."""
        if self.known and not self._told:  # such as rights that were granted after the agent's start
            self._told = True
            for node in self._devices:
                self._changed(node)
        if self.claims.unavailable:  # no event tells that what was held counts no more
            for claim in self.ours().values():
                self._claimed(claim.name)
        self._forget_missing(now)

    def _forget_missing(self, now: float) -> None:
        """Forget devices that no driver has listed for long and no claim of Muster holds: their driver was removed."""
        missing = {node: here for node, here in self._devices.items() if here.missing}
        self._missing_since = {node: self._missing_since.get(node, now) for node in missing}
        late = [node for node, since in self._missing_since.items() if now - since >= MISSING_SECONDS]
        held = {key for claim in self.ours().values() for key in claim.allocated or ()} if late else set()
        for node in late:
            here = missing[node]
            if any(each.key in held for each in here.devices if each.uuid in here.missing):
                continue
            self._devices[node] = device_slices.without_missing(here)
            if node not in self._slices_on:
                del self._devices[node]
            self._changed(node)

    def ours(self) -> Mapping[str, Claim]:
        """Return the claims of this agent, by `namespace/name`."""
        return {key: claim for key, claim in self.claims.items.items() if claim.ours}

    def _slice_changed(self, key: str, old: DeviceSlice | None, new: DeviceSlice | None) -> None:
        for one in (old, new):
            if one is None:
                continue
            here = self._slices_on[one.node]
            here.pop(key, None)
            if one is new:
                here[key] = one
            if not here:
                del self._slices_on[one.node]
            found = device_slices.devices_of(here.values(), self._devices.get(one.node))
            if found.devices or here:
                self._devices[one.node] = found
            else:
                self._devices.pop(one.node, None)
            self._changed(one.node)

    def _claim_changed(self, key: str, old: Claim | None, new: Claim | None) -> None:
        pools = set()
        for one in (old, new):
            if one is None or one.ours:
                continue
            for device in one.allocated or ():
                pools.add(device.pool)
                self._foreign[device].discard(key)
                if one is new:
                    self._foreign[device].add(key)
                if not self._foreign[device]:
                    del self._foreign[device]
        for node, here in [*self._devices.items()] if pools else ():
            if any(each.key.pool in pools for each in here.devices):
                self._changed(node)
        for one in (old, new):
            if one is not None and one.ours:
                self._claimed(one.name)
                break
