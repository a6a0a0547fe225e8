"""Writes lines into the roots of runs: why pods are stopped, before they are, and how they ended, before they may go.

The order is law (kubernetes.md 3.3): a pod that is readable until its end is written cannot be forgotten, and one whose
end is written needs nothing to hold it. Holds: every path to GONE ends with Muster's finalizer off; what is to be
written about one run at one time is one call.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from muster_chassis import logs
from muster_chassis.backoff import Backoff
from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.domain.kubernetes import lines, marks
from muster_cluster_agent.domain.kubernetes.lines import StopRequest
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import base_of, shard_name
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.kubernetes.roots import Root
from muster_cluster_agent.domain.model import Observed, RunKey
from muster_cluster_agent.errors import BackendError

GATHER_SECONDS: Final = 0.1
REMOVED_SECONDS: Final = 2.0
"""After which it is written down that a replica is removed: most runs are over by then, and their roots with them."""
_MOST_FREED: Final = 4_000  # an event comes within seconds, in which an agent frees some hundreds
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403

_log = logs.get(__name__)


class _Stopping:
    """Pods of one run that are stopped at the same time. lines: why, by `lines.stop_key`. task: writes them."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.task: asyncio.Task[None]


class Recorder:
    """What has to be written about replicas, on its way into the cluster."""

    def __init__(self, client: Client, cache: Cache, owner: Owner) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._due: dict[str, tuple[str, Observed]] = {}  # by the replica's name: its namespace, and how it ended
        self._removed: dict[str, tuple[float, Observed]] = {}  # by its name, and since when (monotonic seconds)
        self._stopping: dict[tuple[str, str], _Stopping] = {}  # by the namespace and the run's base name
        self._held: set[str] = set()  # replicas whose end is written and whose pods still have the finalizer
        self._freed: dict[str, None] = {}  # uids of the last pods that have lost it: the event of it may be to come
        self._wake = asyncio.Event()
        cache.end_listeners.append(self._seen)

    def _seen(self, name: str) -> None:
        """A line that is in the cluster is not written again where its answer was lost: its run may be over by then."""
        if self._due.pop(name, None) is not None:
            self.release_finalizer(name)

    def record(self, namespace: str, replica: Observed) -> None:
        """Writes the end of a replica down soon; the first end of a name counts."""
        if replica.name not in self._due and replica.name not in self._cache.ends:
            self._due[replica.name] = (namespace, replica)
            self._wake.set()

    def remove(self, replica: Observed) -> None:
        """Writes soon that a replica is removed, so that an agent that follows does not tell of it again."""
        self._cache.remove_end(replica.name)
        self._removed[replica.name] = (time.monotonic(), replica)
        if len(self._removed) == 1:
            self._wake.set()

    def forget(self, workload_id: str, run: RunKey) -> None:
        """Lines about removed replicas of runs up to this one are not needed any more: their roots go."""
        for name, (_, gone) in [*self._removed.items()]:
            if gone.workload_id == workload_id and gone.key <= run:
                del self._removed[name]

    def release_finalizer(self, name: str) -> None:
        """Takes the finalizer off the pod of a replica soon: its end is written down, or it never began."""
        self._held.add(name)
        self._wake.set()

    async def note_stop(self, pod: Pod, asked: StopRequest) -> None:
        """Writes down why a pod is stopped, together with others of its run. Raises BackendError.

        The call begins with the next turn of the event loop: the members of a gang are stopped in one turn.
        """
        if pod.replica is None:
            raise ValueError(f"pod {pod.key} is no replica")
        key = (pod.namespace, base_of(pod.replica))
        stopping = self._stopping.get(key)
        if stopping is None:
            replica = self._cache.observe(pod)
            stopping = _Stopping()
            stopping.task = asyncio.create_task(self._write_stops(key, replica, stopping), name=f"stops-{key[1]}")
            self._stopping[key] = stopping
        stopping.lines[lines.stop_key(pod.name)] = asked.text()
        await asyncio.shield(stopping.task)

    async def _write_stops(self, key: tuple[str, str], replica: Observed, stopping: _Stopping) -> None:
        await asyncio.sleep(0)
        del self._stopping[key]  # what comes from now on is written by the next call
        namespace, base = key
        try:
            await self.put_lines(namespace, base, replica, stopping.lines)
        except BackendError as error:
            if not self._takes_no_line(namespace, error):
                raise
            self._cache.take_lines(replica.workload_id, stopping.lines)

    async def run(self) -> None:
        """For ever: gathers for a moment, then writes each run's lines in one call."""
        backoff = Backoff(first=0.5, last=10.0)
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REMOVED_SECONDS if self._removed else None):
                    await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            if await self.write():
                backoff.reset()
            else:
                self._wake.set()
                await backoff.pause()

    async def write(self) -> bool:
        """Writes what is due; False where some of it could not be written and is due again."""
        runs: dict[tuple[str, str], list[Observed]] = defaultdict(list)
        for namespace, replica in self._due.values():
            runs[namespace, base_of(replica)].append(replica)
        late = time.monotonic() - REMOVED_SECONDS
        for since, replica in [*self._removed.values()]:
            if since > late:
                continue
            known = [root for root in self._cache.roots_of(replica.workload_id) if root.run == replica.key]
            if not known:  # its end is known here alone, or its root has gone: nothing is made for it
                del self._removed[replica.name]
            elif root := next((root for root in known if replica.name in root.lines), None):
                runs[root.namespace, base_of(replica)].append(replica)
        written = [await self._write_run(namespace, base, replicas) for (namespace, base), replicas in runs.items()]
        held, self._held = sorted(self._held), set()
        freed = await asyncio.gather(*(self._release(name) for name in held))
        self._held.update(name for name, done in zip(held, freed, strict=True) if not done)
        return all(written) and all(freed)

    async def _write_run(self, namespace: str, base: str, replicas: list[Observed]) -> bool:
        due = {
            replica.name: lines.REMOVED if replica.name in self._removed else lines.line_of(replica)
            for replica in replicas
        }
        try:
            await self.put_lines(namespace, base, replicas[0], due)
        except BackendError as error:
            if not self._takes_no_line(namespace, error):
                _log.warning("the end of replicas is not written down yet", run=base, error=str(error))
                return False
            _log.warning("the end of replicas cannot be written down", run=base, error=str(error))
            self._cache.take_lines(replicas[0].workload_id, due)
        for replica in replicas:
            if due[replica.name] == lines.REMOVED:
                self._removed.pop(replica.name, None)
            if self._due.pop(replica.name, None) is not None:
                self._cache.tell(replica.workload_id)
                self._held.add(replica.name)
        return True

    async def put_lines(self, namespace: str, base: str, replica: Observed, due: dict[str, str]) -> None:
        """Adds lines to a run's root or to a shard of it. Raises ApiError or Unreachable.

        Lines that replace others go where those are; a shard that is full takes no new name.
        """
        known = [root for root in self._cache.roots_of(replica.workload_id) if root.run == replica.key]
        left = dict(due)
        for root in known:
            here = {name: left.pop(name) for name in [*left] if name in root.lines}
            if here:
                await self._patch(root.namespace, root.name, here)
        shards = [root for root in known if not root.full]
        next_shard = max((root.shard for root in known), default=-1) + 1
        while left:
            if not shards:
                shards.append(await self._make(namespace, base, replica, next_shard))
                next_shard += 1
            shard = shards.pop(0)
            here = dict(islice(left.items(), lines.LINES_IN_SHARD - len(shard.lines)))
            try:
                await self._patch(shard.namespace, shard.name, here)
            except ApiError as error:
                if error.status != _NOT_FOUND or shard.uid == "":
                    raise
                shards.insert(0, await self._make(namespace, base, replica, shard.shard))  # others took it away
                continue
            left = {name: line for name, line in left.items() if name not in here}

    def _takes_no_line(self, namespace: str, error: BackendError) -> bool:
        """Whether a namespace takes nothing any more, since it is going: what is known is kept in memory alone."""
        if not isinstance(error, ApiError) or error.status not in {_FORBIDDEN, _NOT_FOUND}:
            return False
        found = self._cache.namespaces.items.get(namespace)
        return found is None or found.terminating

    async def _release(self, name: str) -> bool:
        """Takes Muster's finalizer off a pod; False where that has to be tried again."""
        pod = self._cache.by_name.get(name)
        if pod is None or marks.GONE not in pod.finalizers or pod.uid in self._freed:
            return True
        self._cache.released.add(name)
        try:
            await removal.release(self._client, path_of(pod), pod.uid, pod.finalizers, (marks.GONE,))
        except ApiError as error:
            if not error.gone_or_changed:  # it has gone, or another pod has its name
                _log.warning("a pod keeps its finalizer for now", pod=pod.key, error=str(error))
                return False
        except BackendError:
            return False
        self._freed[pod.uid] = None
        if len(self._freed) > _MOST_FREED:
            del self._freed[next(iter(self._freed))]
        return True

    async def _patch(self, namespace: str, name: str, due: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        raw = await self._client.patch(path, {"data": due})
        self._cache.take_lines(raw["metadata"]["labels"][marks.WORKLOAD], due)

    async def _make(self, namespace: str, base: str, replica: Observed, number: int) -> Root:
        """Makes a missing root (0) again, or another shard."""
        labels = marks.run_labels(self._owner, replica.workload_id, replica.project, replica.key)
        name = shard_name(base, number) if number else base
        metadata: Manifest = {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, marks.ROOT_OF: "run", marks.SHARD: str(number)},
        }
        if not number:
            metadata["finalizers"] = [marks.ROOT]
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            await self._client.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
        except ApiError as error:
            if error.status != _CONFLICT or error.reason != "AlreadyExists":
                raise
        return Root(name, namespace, "", replica.workload_id, replica.project, replica.key, number, {})


def path_of(pod: Pod) -> str:
    """Where the API has a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
