"""The agents that are connected, and the logs that are being pulled through them.

An agent opens the stream; questions go out on it and pieces of logs come back, each with the id of its question. All
logs of an agent share its stream, so a reader that does not keep up holds the others back for a bounded time and is
then cut off. A reader that goes away sends StopLog.
Holds: per reader at most BUFFERED pieces are in memory; a cluster has one stream, the newest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import agent_gateway_pb2 as pb
from muster.fleet.v1.fleet_pb2 import Finding, Retirement
from muster_chassis import identity, logs, metrics
from muster_submission.errors import LogTrouble, NoAgent, ReaderTooSlow

_log = logs.get(__name__)
BUFFERED: Final = 64
"""Pieces of one log that wait for their reader."""
PATIENCE: Final = 5.0
"""Seconds for which a reader may hold its agent's stream back."""
CHECK_SECONDS: Final = 20.0
"""Within which an agent has to answer a check: it asks its API server some hundred questions."""
RETIRE_SECONDS: Final = 120.0
"""Within which an agent has to have deleted what it has made; asked again, it goes on."""
_QUESTIONS: Final = 1000

CONNECTED = metrics.gauge(
    "muster_agents_connected",
    unit="streams",
    meaning="Agents that keep a stream open; logs come over it.",
    action="Below the number of clusters: look at that agent's log.",
)
READERS = metrics.gauge(
    "muster_log_readers",
    unit="readers",
    meaning="Logs that are being read through agents.",
    action="None needed.",
)


class _Gone(Exception):
    """The agent's stream has ended."""


class LogSession:
    """One log on its way: written by the agent's stream, read by one caller."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._pieces: deque[pb.LogChunk] = deque()
        self._end: Exception | None = None
        self._room = asyncio.Event()
        self._news = asyncio.Event()

    async def put(self, piece: pb.LogChunk) -> bool:
        """Hands a piece to the reader; False where it did not keep up and is cut off."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(self._pieces) >= BUFFERED and self._end is None:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            self.end(ReaderTooSlow(f"nobody took the log for {PATIENCE:g} s: read it again, with tail_lines"))
        if self._end is not None:
            return False
        self._pieces.append(piece)
        self._news.set()
        return True

    def end(self, why: Exception) -> None:
        """Ends the reading once the waiting pieces are read."""
        self._end = self._end or why
        self._room.set()
        self._news.set()

    async def next(self) -> pb.LogChunk:
        """The next piece. Raises what ended the reading."""
        while not self._pieces:
            if self._end is not None:
                raise self._end
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return self._pieces.popleft()


class AgentStream:
    """One agent's stream: what it is to be asked, and who waits for its answers."""

    def __init__(self, cluster: str, instance: str) -> None:
        self.id = identity.event_id()
        self.cluster = cluster
        self.instance = instance
        self.questions: asyncio.Queue[pb.ConnectResponse | None] = asyncio.Queue(_QUESTIONS)
        """What goes out; None ends the stream."""
        self._sessions: dict[str, LogSession] = {}
        self._answers: dict[str, asyncio.Future[pb.ConnectRequest]] = {}

    def ask(self, question: pb.ConnectResponse) -> None:
        """Sends a question. Raises NoAgent where the agent takes none."""
        try:
            self.questions.put_nowait(question)
        except asyncio.QueueFull:
            raise NoAgent(self.cluster) from None

    def open(self, pull: pb.PullLog) -> LogSession:
        """Asks for a log."""
        session = LogSession(pull.request_id)
        self._sessions[pull.request_id] = session
        try:
            self.ask(pb.ConnectResponse(pull_log=pull))
        except NoAgent:
            del self._sessions[pull.request_id]
            raise
        READERS.inc()
        return session

    def close(self, session: LogSession, *, finished: bool) -> None:
        """Nobody reads this log any more; the agent is told unless it has finished by itself."""
        if self._sessions.pop(session.request_id, None) is None:
            return
        READERS.dec()
        session.end(_Gone())
        if not finished:
            try:
                self.ask(pb.ConnectResponse(stop_log=pb.StopLog(request_id=session.request_id)))
            except NoAgent:
                _log.warning("an agent takes no questions, a log is not stopped there", cluster=self.cluster)

    async def request(self, request_id: str, question: pb.ConnectResponse, seconds: float) -> pb.ConnectRequest:
        """Asks a question that has one answer. Raises NoAgent where none comes within so many seconds."""
        answer: asyncio.Future[pb.ConnectRequest] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        try:
            self.ask(question)
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise NoAgent(self.cluster, f"no answer within {seconds:g} s; it may still be working") from None
        finally:
            del self._answers[request_id]

    def resolve(self, request_id: str, message: pb.ConnectRequest) -> None:
        """Takes the answer to a question. One that is not waited for any more is dropped."""
        waiting = self._answers.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def answer(self, piece: pb.LogChunk) -> None:
        """Takes a piece that the agent has sent. Pieces for nobody are dropped: their reader has just gone."""
        session = self._sessions.get(piece.request_id)
        if session is not None and not await session.put(piece):
            self.close(session, finished=False)

    def end(self) -> None:
        """The stream is over: readers are told, and nothing is asked any more."""
        for session in list(self._sessions.values()):
            session.end(NoAgent(self.cluster))
            self._sessions.pop(session.request_id, None)
            READERS.dec()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(NoAgent(self.cluster))
        if not self.questions.full():
            self.questions.put_nowait(None)


class Agents:
    """The connected agents by cluster."""

    def __init__(self) -> None:
        self._streams: dict[str, AgentStream] = {}

    def connect(self, cluster: str, instance: str) -> AgentStream:
        """Takes an agent in; an older stream of the cluster ends."""
        older = self._streams.pop(cluster, None)
        if older is not None:
            _log.info("an agent connected anew", cluster=cluster, instance=instance, before=older.instance)
            older.end()
        stream = AgentStream(cluster, instance)
        self._streams[cluster] = stream
        CONNECTED.set(len(self._streams))
        return stream

    def disconnect(self, stream: AgentStream) -> None:
        """The stream has ended."""
        stream.end()
        if self._streams.get(stream.cluster) is stream:
            del self._streams[stream.cluster]
        CONNECTED.set(len(self._streams))

    def end(self) -> None:
        """Ends all streams: the process stops."""
        for stream in list(self._streams.values()):
            self.disconnect(stream)

    async def check(self, cluster: str) -> Sequence[Finding]:
        """Ask a cluster's agent to check its cluster. Raises NoAgent."""
        request_id = identity.event_id()
        question = pb.ConnectResponse(run_check=pb.RunCheck(request_id=request_id))
        return (await self._stream(cluster).request(request_id, question, CHECK_SECONDS)).checked.findings

    async def retire(self, cluster: str, *, force: bool, dry_run: bool) -> Retirement:
        """Ask a cluster's agent to delete what it has made. Raises NoAgent."""
        request_id = identity.event_id()
        asked = pb.Retire(request_id=request_id, force=force, dry_run=dry_run)
        question = pb.ConnectResponse(retire=asked)
        return (await self._stream(cluster).request(request_id, question, RETIRE_SECONDS)).retired.retirement

    def _stream(self, cluster: str) -> AgentStream:
        """The newest stream of a cluster's agent. Raises NoAgent."""
        stream = self._streams.get(cluster)
        if stream is None:
            raise NoAgent(cluster)
        return stream

    async def read(
        self,
        cluster: str,
        workload_id: str,
        *,
        replica: str,
        follow: bool,
        tail_lines: int,
        since: Timestamp | None = None,
    ) -> AsyncGenerator[pb.LogChunk]:
        """The pieces of a log. Raises NoAgent, LogTrouble and ReaderTooSlow."""
        stream = self._stream(cluster)
        pull = pb.PullLog(
            request_id=identity.event_id(),
            workload_id=workload_id,
            replica=replica,
            follow=follow,
            tail_lines=tail_lines,
            since=since,
        )
        session, finished = stream.open(pull), False
        try:
            while not finished:
                piece = await session.next()
                finished = piece.last or bool(piece.trouble)
                if piece.data:
                    yield piece
                if piece.trouble:
                    raise LogTrouble(f"cluster {cluster}: {piece.trouble}")
        finally:
            stream.close(session, finished=finished)
