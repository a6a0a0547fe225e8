"""StreamLogs: the log of a workload, pulled through the agent of the cluster where it is or was.

A workload that has no place yet has no log; with `follow` the call waits until it has one, or until it has ended
without. What has ended can be read as long as its agent keeps the log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from muster.api.v1 import workloads_pb2 as api
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.moments import moment_of
from muster_submission.adapters.agents import Agents
from muster_submission.adapters.feed import Feed
from muster_submission.adapters.peers import Call, Peers
from muster_submission.adapters.reading import Reading
from muster_submission.domain import phases
from muster_submission.domain.access import Verb
from muster_submission.domain.phases import ENDED
from muster_submission.errors import BadQuestion, LogTrouble, Stopping
from muster_submission.handlers.access import Rights
from muster_submission.rpc.guarding import guarded
from muster_submission.rpc.reading import find

_BREATH: Final = 1.0
_REPLICA_LIMIT: Final = 100


class LogReading:
    """Serves logs."""

    def __init__(self, reading: Reading, feed: Feed, agents: Agents, peers: Peers) -> None:
        self._reading = reading
        self._feed = feed
        self._agents = agents
        self._peers = peers

    async def read(
        self, request: api.StreamLogsRequest, rights: Callable[[], Awaitable[Rights]], call: Call
    ) -> AsyncGenerator[api.StreamLogsResponse]:
        """The pieces of a log. Raises NoSuchWorkload, PermissionDenied, NoAgent, LogTrouble and ReaderTooSlow.

        rights: those of the caller as they are now; asked again as long as the log is read. call: goes along where
        another instance has the stream of the agent.
        """
        if len(request.replica) > _REPLICA_LIMIT:
            raise BadQuestion(f"replica has {len(request.replica)} characters: expected a name such as worker-0")
        if request.HasField("since"):
            moment_of(request.since, "since")
        shown = await find(self._reading, request.workload, await rights(), Verb.WORKLOADS_LOGS)
        if not shown.cluster and request.follow:
            shown = await self._placed(shown, rights)
        if not shown.cluster:
            raise LogTrouble(f"{shown.name} has no log: it is {phases.PHASES[shown.phase - 1]} and was never placed")
        peer = await self._peers.elsewhere(shown.cluster, call)
        if peer is not None:
            passed = api.StreamLogsRequest()
            passed.CopyFrom(request)
            passed.workload.CopyFrom(api.WorkloadRef(id=shown.id))
            async with aclosing(self._peers.logs(peer, shown.cluster, passed, call)) as answers:
                async for answer in answers:
                    yield answer
            return
        pieces = self._agents.read(
            shown.cluster,
            shown.id,
            replica=request.replica,
            follow=request.follow,
            tail_lines=request.tail_lines,
            since=request.since if request.HasField("since") else None,
        )
        # A caller that goes away stops the agent now, not at some later collection. First ends what reads the pieces:
        # an iterator that still waits for the next one cannot be closed.
        watched = guarded(pieces, lambda: _check(shown, rights))
        async with aclosing(pieces), aclosing(watched):
            async for piece in watched:
                answer = api.StreamLogsResponse(replica=piece.replica, data=piece.data)
                if piece.HasField("at"):
                    answer.at.CopyFrom(piece.at)
                yield answer

    async def _placed(self, shown: wl.Workload, rights: Callable[[], Awaitable[Rights]]) -> wl.Workload:
        """The workload once it has a place, or has ended."""
        with self._feed:
            while not self._feed.closed:
                position = (await self._reading.reach()).head
                now = await self._reading.by_id(shown.id)
                if now is None or now.cluster or phases.PHASES[now.phase - 1] in ENDED:
                    return now or shown
                await self._feed.moved(position, _BREATH)
                await _check(shown, rights)
        raise Stopping("this instance stops: read the log again", retry_after=1.0)


async def _check(shown: wl.Workload, rights: Callable[[], Awaitable[Rights]]) -> None:
    (await rights()).require(Verb.WORKLOADS_LOGS, project=shown.project)
