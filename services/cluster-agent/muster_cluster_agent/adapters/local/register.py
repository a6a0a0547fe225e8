"""The replicas that are in the state folder, by name, by workload and by device.

The local back end's memory of its disk. Holds: all indexes name the same replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from muster_cluster_agent.adapters.local.replicas import Replica
from muster_cluster_agent.domain.holdings import Holding


class Register:
    """Replicas by name; iterating goes over a copy, so that what is found on the way may be added."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._by_name: dict[str, Replica] = {}
        self._by_workload: dict[str, dict[str, Replica]] = {}
        self._by_device: dict[str, dict[str, Replica]] = {}

    def add(self, replica: Replica) -> None:
        """Makes a replica known; one of the same name is replaced."""
        self._by_name[replica.name] = replica
        self._by_workload.setdefault(replica.workload_id, {})[replica.name] = replica
        for device in replica.devices:
            self._by_device.setdefault(device, {})[replica.name] = replica

    def drop(self, replica: Replica) -> None:
        """Forgets a replica."""
        self._by_name.pop(replica.name, None)
        _leave(self._by_workload, replica.workload_id, replica.name)
        for device in replica.devices:
            _leave(self._by_device, device, replica.name)

    def get(self, name: str) -> Replica | None:
        """The replica of that name."""
        return self._by_name.get(name)

    def of(self, workload_id: str) -> Sequence[Replica]:
        """The replicas of one workload."""
        return tuple(self._by_workload.get(workload_id, {}).values())

    def on(self, device: str) -> Sequence[Replica]:
        """The replicas that were given that device or a part of it, also those that are gone."""
        return tuple(self._by_device.get(device, {}).values())

    def holdings(self, devices: Iterable[str]) -> list[Holding]:
        """What replicas that are not GONE hold of these devices."""
        return [
            Holding(replica.name, share)
            for device in devices
            for replica in self.on(device)
            if not replica.gone
            for share in replica.shares
            if share.device == device
        ]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Replica]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)


def _leave(index: dict[str, dict[str, Replica]], key: str, name: str) -> None:
    """Removes a replica from one entry of an index, and the entry with its last replica."""
    there = index.get(key, {})
    there.pop(name, None)
    if not there:
        index.pop(key, None)
