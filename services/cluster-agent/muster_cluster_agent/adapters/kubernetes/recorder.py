"""Writes lines into the roots of runs: why pods are stopped, before they are, and how they ended, before they may go.

The order is law (kubernetes.md 3.3): a pod that is readable until its end is written cannot be forgotten, and one whose
end is written needs nothing to hold it. Holds: every path to GONE ends with Muster's finalizer off; lines about one run
that are due at the same time are written in one call; what the server refuses about one run holds up no other.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
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
from muster_cluster_agent.domain.retirement import RETIRED_AGENT
from muster_cluster_agent.errors import BackendError

GATHER_SECONDS: Final = 0.1
REMOVED_SECONDS: Final = 10.0
"""After which it is written down that a replica is removed: most runs are over by then, and their roots with them."""
_REFUSED_SECONDS: Final = 2.0  # after which a call that the server refused is made again
_MOST_FREED: Final = 4_000  # an event comes within seconds, in which an agent frees some hundreds
_AT_ONCE: Final = 32  # calls
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FORBIDDEN: Final = 403

_log = logs.get(__name__)


class _Batch:
    """What is written about one run at the same time. lines: by their keys. task: writes them, and says what failed."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.task: asyncio.Task[BackendError | None]


class Recorder:
    """What has to be written about replicas, on its way into the cluster."""

    def __init__(self, client: Client, cache: Cache, owner: Owner) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._due: dict[str, tuple[str, Observed]] = {}  # by the replica's name: its namespace, and how it ended
        self._removed: dict[str, tuple[float, Observed]] = {}  # by its name, and since when (monotonic seconds)
        self._batches: dict[tuple[str, str], _Batch] = {}  # by the namespace and the run's base name
        self._writing: set[asyncio.Task[BackendError | None]] = set()
        self._not_before: dict[str, float] = {}  # replicas of which a call was refused: monotonic seconds
        self._held: set[str] = set()  # replicas whose end is written and whose pods still have the finalizer
        self._freed: dict[str, None] = {}  # uids of the last pods that have lost it: the event of it may be to come
        self._retired = False
        self._wake = asyncio.Event()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        cache.end_listeners.append(self._seen)

    def _seen(self, name: str) -> None:
        """A line that is in the cluster is not written again where its answer was lost: its run may be over by then."""
        if self._due.pop(name, None) is not None:
            self.release_finalizer(name)

    def record(self, namespace: str, replica: Observed) -> None:
        """Writes the end of a replica down soon; the first end of a name counts."""
        if not self._retired and replica.name not in self._due and replica.name not in self._cache.ends:
            self._due[replica.name] = (namespace, replica)
            self._wake.set()

    def remove(self, replica: Observed) -> None:
        """Writes soon that a replica is removed, so that an agent that follows does not tell of it again."""
        self._cache.remove_end(replica.name)
        if self._retired:
            return
        self._removed[replica.name] = (time.monotonic(), replica)
        if len(self._removed) == 1:
            self._wake.set()

    def forget(self, workload_id: str, run: RunKey) -> None:
        """Lines about removed replicas of runs up to this one are not needed any more: their roots go."""
        for name, (_, gone) in [*self._removed.items()]:
            if gone.workload_id == workload_id and gone.key <= run:
                del self._removed[name]

    def retire(self) -> None:
        """Write no more lines: the roots are taken away for good, and none may come back. Finalizers still come off."""
        self._retired = True
        self._due.clear()
        self._removed.clear()

    def release_finalizer(self, name: str) -> None:
        """Takes the finalizer off the pod of a replica soon: its end is written down, or it never began."""
        self._held.add(name)
        self._wake.set()

    async def note_stop(self, pod: Pod, asked: StopRequest) -> None:
        """Write down why a pod is stopped. Raises BackendError where the API server does not answer.

        A root that does not take it, for want of a quota or by an admission, is no reason to let a pod run for ever.
        """
        replica = self._cache.observe(pod)
        due = {lines.stop_key(pod.name): asked.text()}
        try:
            await self.write_together(pod.namespace, base_of(replica), replica, due)
        except ApiError as error:
            if error.passing:
                raise
            _log.warning("why a replica is stopped is known to this agent alone", pod=pod.key, error=str(error))
            self._cache.take_lines(replica.workload_id, due)

    async def write_together(self, namespace: str, base: str, replica: Observed, due: dict[str, str]) -> None:
        """Add lines to a run's root in one call with all that are due in this turn of the event loop.

        The members of a gang are stopped or buried in one turn. Raises BackendError.
        """
        batch = self._batches.get((namespace, base))
        if batch is None:
            batch = self._batches[namespace, base] = _Batch()
            batch.task = asyncio.create_task(self._write_batch(namespace, base, replica), name=f"lines-{base}")
            self._writing.add(batch.task)
            batch.task.add_done_callback(self._writing.discard)
        batch.lines.update(due)
        error = await asyncio.shield(batch.task)
        if error is not None:
            raise error

    async def _write_batch(self, namespace: str, base: str, replica: Observed) -> BackendError | None:
        """What failed, as a value: each of the callers raises it."""
        await asyncio.sleep(0)
        batch = self._batches.pop((namespace, base))  # what comes from now on is written by the next call
        try:
            await self.put_lines(namespace, base, replica, batch.lines)
        except BackendError as error:
            if not self._takes_no_line(namespace, error):
                return error
            self._cache.take_lines(replica.workload_id, batch.lines)
        return None

    async def close(self) -> None:
        """End what is being written: the agent ends."""
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

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
                continue
            self._wake.set()
            if self._not_before:  # the server refuses some: the others go on
                await asyncio.sleep(GATHER_SECONDS)
            else:
                await backoff.pause()

    async def write(self) -> bool:
        """Writes what is due; False where some of it could not be written and is due again."""
        runs: dict[tuple[str, str], list[Observed]] = defaultdict(list)
        now = time.monotonic()
        self._not_before = {name: at for name, at in self._not_before.items() if at > now}
        for namespace, replica in self._due.values():
            if replica.name in self._not_before:
                continue
            runs[namespace, base_of(replica)].append(replica)
        for since, replica in [*self._removed.values()]:
            if since > now - REMOVED_SECONDS or replica.name in self._not_before:
                continue
            known = [root for root in self._cache.roots_of(replica.workload_id) if root.run == replica.key]
            if not known:  # its end is known here alone, or its root has gone: nothing is made for it
                del self._removed[replica.name]
            elif root := next((root for root in known if replica.name in root.lines), None):
                runs[root.namespace, base_of(replica)].append(replica)
        written = await self._side_by_side([partial(self._write_run, *run, each) for run, each in runs.items()])
        held = sorted(name for name in self._held if name not in self._not_before)
        self._held.difference_update(held)
        freed = await self._side_by_side([partial(self._release, name) for name in held])
        self._held.update(name for name, done in zip(held, freed, strict=True) if not done)
        return all(written) and all(freed) and not self._not_before

    async def _side_by_side(self, calls: Sequence[Callable[[], Coroutine[None, None, bool]]]) -> list[bool]:
        """Make calls about different runs or pods: many at once, and not so many that others wait behind them."""

        async def bounded(call: Callable[[], Coroutine[None, None, bool]]) -> bool:
            async with self._turns:
                return await call()

        return await asyncio.gather(*map(bounded, calls))

    async def _write_run(self, namespace: str, base: str, replicas: list[Observed]) -> bool:
        due = {
            replica.name: lines.REMOVED if replica.name in self._removed else lines.line_of(replica)
            for replica in replicas
            # Its run may have been released, and its root have gone, while others had their turn.
            if replica.name in self._removed or replica.name in self._due
        }
        if not due:
            return True
        replicas = [replica for replica in replicas if replica.name in due]
        try:
            await self.put_lines(namespace, base, replicas[0], due)
        except BackendError as error:
            if not self._takes_no_line(namespace, error):
                _log.warning("the end of replicas is not written down yet", run=base, error=str(error))
                self._try_later(error, *due)
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
                await self._patch(root, here)
        shards = [root for root in known if not root.full]
        next_shard = max((root.shard for root in known), default=-1) + 1
        while left:
            if not shards:
                shards.append(await self._make(namespace, base, replica, next_shard))
                next_shard += 1
            shard = shards.pop(0)
            here = dict(islice(left.items(), lines.LINES_IN_SHARD - len(shard.lines)))
            try:
                await self._patch(shard, here)
            except ApiError as error:
                if error.status != _NOT_FOUND or shard.uid == "":
                    raise
                if set(here.values()) == {lines.REMOVED}:  # the run is over, and its roots go: no root is made for them
                    left = {name: line for name, line in left.items() if name not in here}
                    continue
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
                self._try_later(error, name)
                return False
        except BackendError:
            return False
        self._freed[pod.uid] = None
        if len(self._freed) > _MOST_FREED:
            del self._freed[next(iter(self._freed))]
        return True

    async def _patch(self, shard: Root, due: dict[str, str]) -> None:
        change = {"metadata": {"managedFields": removal.UNTRACKED}, "data": due}
        await self._client.patch(f"/api/v1/namespaces/{shard.namespace}/configmaps/{shard.name}", change)
        self._cache.take_lines(shard.workload_id, due)

    def _try_later(self, error: BackendError, *names: str) -> None:
        """What the server refuses about some replicas must not hold up the others."""
        if isinstance(error, ApiError):
            self._not_before.update(dict.fromkeys(names, time.monotonic() + _REFUSED_SECONDS))

    async def _make(self, namespace: str, base: str, replica: Observed, number: int) -> Root:
        """Makes a missing root (0) again, or another shard."""
        if self._retired:
            raise BackendError(RETIRED_AGENT)
        labels = marks.run_labels(self._owner, replica.workload_id, replica.project, replica.key)
        name = shard_name(base, number) if number else base
        metadata: Manifest = {
            "name": name,
            "namespace": namespace,
            "labels": {**labels, marks.ROOT_OF: "run", marks.SHARD: str(number)},
            "finalizers": [marks.ROOT],  # a shard, too, says which names are used up
        }
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
