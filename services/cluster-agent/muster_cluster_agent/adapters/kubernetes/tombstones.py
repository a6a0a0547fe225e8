"""The tombstones that the agent has read: which runs are released, and why their pods stop.

Used by the Kubernetes back end. A tombstone stands on Kafka until its workload is assigned anew, which the scheduler
does only after the run is GONE. So what it says needs no line in the cluster. Bounded: a tombstone is forgotten once
its runs are closed.
"""

from __future__ import annotations

from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.model import Release, RunKey
from muster_cluster_agent.domain.reconcile import RELEASED


class Tombstones:
    """The newest tombstone of each workload. read: whether every one that is on Kafka at the start was read."""

    def __init__(self) -> None:
        self.read = False
        self._releases: dict[str, Release] = {}

    def take(self, release: Release) -> None:
        """Take a tombstone, in the order in which they are read."""
        self._releases[release.workload_id] = release

    def covers(self, workload_id: str, run: RunKey) -> bool:
        """Return whether a run is released."""
        release = self._releases.get(workload_id)
        return release is not None and run <= release.key

    def stop_request_for(self, pod: Pod) -> StopRequest | None:
        """Return why a pod stops; None: no tombstone says it."""
        replica = pod.replica
        if replica is None or not self.covers(replica.workload_id, (replica.generation, replica.attempt)):
            return None
        release = self._releases[replica.workload_id]
        return StopRequest(release.reason or RELEASED, release.grace)

    def forget(self, workload_id: str, run: RunKey) -> None:
        """Forget a tombstone whose runs are closed."""
        if workload_id in self._releases and self._releases[workload_id].key <= run:
            del self._releases[workload_id]
