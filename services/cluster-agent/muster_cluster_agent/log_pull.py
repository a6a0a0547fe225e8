"""One question for a workload's log, answered piece by piece down the agent's stream to submission.

Made by `rpc.py` for each question. Holds: the replicas are read side by side, and one that is slow or cannot be read
holds up no other.
"""

from __future__ import annotations

import asyncio
from typing import Final

from muster.api.v1 import agent_gateway_pb2
from muster_cluster_agent.ports import Backend

Answer = agent_gateway_pb2.ConnectRequest
_LOOK_SECONDS: Final = 2.0  # until new replicas are looked for


class LogPull:
    """The chosen replicas of the workload's newest run.

    Each from its beginning, from a moment on, or from its last lines on.
    """

    def __init__(self, backend: Backend, asked: agent_gateway_pb2.PullLog, outgoing: asyncio.Queue[Answer]) -> None:
        self._backend = backend
        self._asked = asked
        self._outgoing = outgoing
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until the end of the log, or, following, until no replica lives or the question is withdrawn.

        Raises BackendError or OSError where a log cannot be read.
        """
        try:
            while await self._choose():
                tasks = self._reading.values()
                if not tasks:
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                done, _ = await asyncio.wait(tasks, timeout=_LOOK_SECONDS if self._asked.follow else None)
                for task in done:
                    task.result()
        finally:
            for task in self._reading.values():
                task.cancel()
        text = "" if self._reading else "no log of it is kept here"
        await self._outgoing.put(trouble(self._asked.request_id, text))

    async def _choose(self) -> bool:
        """Begins to read replicas that are new; False where nothing is left to wait for."""
        names = [name for name in await self._backend.replicas_with_logs(self._asked.workload_id) if self._meant(name)]
        new = [name for name in names if _run_of(name) == _run_of(names[-1]) and name not in self._reading]
        for name in new:
            self._reading[name] = asyncio.create_task(self._send(name), name=f"log of {name}")
        if not self._reading:
            return self._asked.follow  # its first replica may still be made
        return not all(task.done() for task in self._reading.values())

    def _meant(self, name: str) -> bool:
        wanted = self._asked.replica
        return not wanted or name == wanted or _short(name) == wanted

    async def _send(self, name: str) -> None:
        since = self._asked.since.ToNanoseconds() / 1e9 if self._asked.HasField("since") else None
        pieces = self._backend.read_log(name, since=since, tail=self._asked.tail_lines, follow=self._asked.follow)
        async for data in pieces:
            chunk = agent_gateway_pb2.LogChunk(request_id=self._asked.request_id, replica=_short(name), data=data)
            chunk.at.GetCurrentTime()
            await self._outgoing.put(Answer(log=chunk))


def trouble(request_id: str, text: str) -> Answer:
    """The last answer to a question; `text`: why it has no better one."""
    return Answer(log=agent_gateway_pb2.LogChunk(request_id=request_id, last=True, trouble=text))


def _run_of(name: str) -> tuple[int, int]:
    """(generation, attempt) of a replica's name `w-<digest>-g<generation>-a<attempt>-<role>-<index>-r<k>`."""
    _, _, generation, attempt, *_ = name.split("-")
    return int(generation[1:]), int(attempt[1:])


def _short(name: str) -> str:
    """`worker-3` of a replica's name."""
    return "-".join(name.split("-")[4:-1])
