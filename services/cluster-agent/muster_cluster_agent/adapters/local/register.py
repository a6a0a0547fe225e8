"""The replicas that are in the state folder, by name and by workload.

The local back end's memory of its disk. Holds: both indexes name the same replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster_cluster_agent.adapters.local.replicas import Replica


class Register:
    """Replicas by name; iterating goes over a copy, so that what is found on the way may be added."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._by_name: dict[str, Replica] = {}
        self._by_workload: dict[str, dict[str, Replica]] = {}

    def add(self, replica: Replica) -> None:
        """Makes a replica known; one of the same name is replaced."""
        self._by_name[replica.name] = replica
        self._by_workload.setdefault(replica.workload_id, {})[replica.name] = replica

    def drop(self, replica: Replica) -> None:
        """Forgets a replica."""
        self._by_name.pop(replica.name, None)
        siblings = self._by_workload.get(replica.workload_id, {})
        siblings.pop(replica.name, None)
        if not siblings:
            self._by_workload.pop(replica.workload_id, None)

    def get(self, name: str) -> Replica | None:
        """The replica of that name."""
        return self._by_name.get(name)

    def of(self, workload_id: str) -> Sequence[Replica]:
        """The replicas of one workload."""
        return tuple(self._by_workload.get(workload_id, {}).values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Replica]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)
