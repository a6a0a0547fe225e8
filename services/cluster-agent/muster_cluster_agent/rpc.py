"""The way to submission: questions that it sends down the one stream that the agent keeps open, and credentials.

Run by `app.py` as an eternal task. Holds: the agent connects, never the other way round; each question is answered by a
task of its own within a bound, and none of them outlives the stream.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import grpc.aio

from muster.api.v1 import access_pb2, access_pb2_grpc, agent_gateway_pb2, agent_gateway_pb2_grpc
from muster_chassis import logs
from muster_chassis.backoff import Backoff
from muster_chassis.rpc.tls import Target
from muster_cluster_agent.adapters.cluster_answers import encode_findings, encode_retirement
from muster_cluster_agent.errors import BackendError, SecretsError
from muster_cluster_agent.log_pull import Answer, LogPull, trouble
from muster_cluster_agent.ports import Backend, Deleted

_MOST_QUESTIONS: Final = 64
_LOGIN_SECONDS: Final = 10.0
_FETCH_SECONDS: Final = 10.0
_QUEUE: Final = 256

_log = logs.get(__name__)


class Gateway:
    """The agent's stream to submission."""

    def __init__(
        self, target: Target, cluster: str, instance: str, backend: Backend, application_file: Path | None = None
    ) -> None:
        self._target = target
        self._hello = agent_gateway_pb2.AgentHello(cluster=cluster, instance=instance)
        self._backend = backend
        self._application_file = application_file
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Stays connected for ever; submission may come and go."""
        backoff = Backoff(first=0.2, last=5.0)
        while True:
            try:
                await self._connected(backoff)
            except (grpc.RpcError, OSError, ValueError, KeyError, TypeError) as error:
                _log.info(
                    "the stream to submission has ended",
                    address=self._target.address,
                    error=self._target.explain(error),
                )
            await backoff.pause()

    async def of(self, workload_id: str) -> Mapping[str, str]:
        """What a workload of this cluster holds: reference -> value. Raises SecretsError where there is no answer.

        A connection of its own: credentials are asked for at a start, and a start must not wait for a broken stream.
        """
        request = agent_gateway_pb2.FetchSecretsRequest(cluster=self._hello.cluster, workload_id=workload_id)
        try:
            async with self._target.channel() as channel:
                stub = agent_gateway_pb2_grpc.AgentGatewayServiceStub(channel)
                metadata = await self._metadata(channel)
                answer = await stub.FetchSecrets(request, timeout=_FETCH_SECONDS, metadata=metadata)
        except (grpc.RpcError, OSError, ValueError, KeyError, TypeError) as error:
            raise SecretsError(
                f"submission at {self._target.address} hands out nothing: {self._target.explain(error)}"
            ) from error
        return {one.reference: one.value for one in answer.secrets}

    async def find_deleted(self, workload_ids: Sequence[str]) -> Deleted:
        """Which of at most 1,000 workloads will not run again. Raises SecretsError where submission does not answer."""
        request = agent_gateway_pb2.FindDeletedRequest(cluster=self._hello.cluster, workload_ids=workload_ids)
        try:
            async with self._target.channel() as channel:
                stub = agent_gateway_pb2_grpc.AgentGatewayServiceStub(channel)
                metadata = await self._metadata(channel)
                answer = await stub.FindDeleted(request, timeout=_FETCH_SECONDS, metadata=metadata)
        except (grpc.RpcError, OSError, ValueError, KeyError, TypeError) as error:
            raise SecretsError(
                f"submission at {self._target.address} does not answer: {self._target.explain(error)}"
            ) from error
        return Deleted(frozenset(answer.deleted), frozenset(answer.unknown))

    async def _connected(self, backoff: Backoff) -> None:
        options = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]
        async with self._target.channel(options) as channel:
            stub = agent_gateway_pb2_grpc.AgentGatewayServiceStub(channel)
            outgoing: asyncio.Queue[Answer] = asyncio.Queue(_QUEUE)
            await outgoing.put(Answer(hello=self._hello))
            call = stub.Connect(_Sent(outgoing), metadata=await self._metadata(channel))
            questions: dict[str, asyncio.Task[None]] = {}
            try:
                async for question in call:
                    backoff.reset()
                    self._hear(question, questions, outgoing)
            finally:
                call.cancel()
                for task in questions.values():
                    task.cancel()
                await asyncio.gather(*questions.values(), return_exceptions=True)

    async def _metadata(self, channel: grpc.aio.Channel) -> tuple[tuple[str, str], ...]:
        """A token for this connection, where submission asks for one: it is looked at when the stream opens."""
        if self._application_file is None:
            return ()
        given = json.loads(await asyncio.to_thread(self._application_file.read_text))
        request = access_pb2.IssueTokenRequest(application=given["id"], secret=given["secret"])
        answer = await access_pb2_grpc.TokenServiceStub(channel).IssueToken(request, timeout=_LOGIN_SECONDS)
        return (("authorization", f"Bearer {answer.access_token}"),)

    def _hear(
        self,
        question: agent_gateway_pb2.ConnectResponse,
        questions: dict[str, asyncio.Task[None]],
        outgoing: asyncio.Queue[Answer],
    ) -> None:
        if question.HasField("stop_log"):
            task = questions.pop(question.stop_log.request_id, None)
            if task is not None:
                task.cancel()
            return
        for done in [name for name, task in questions.items() if task.done()]:
            del questions[done]
        if question.HasField("pull_log"):
            asked = question.pull_log
            answer = self._answer(asked, outgoing, busy=len(questions) >= _MOST_QUESTIONS)
            questions[asked.request_id] = asyncio.create_task(answer, name=f"log {asked.request_id}")
        elif question.HasField("run_check"):
            number = question.run_check.request_id
            questions[number] = asyncio.create_task(self._check(number, outgoing), name=f"check {number}")
        elif question.HasField("retire"):
            retire = question.retire
            work = self._retire(retire, outgoing)
            questions[retire.request_id] = asyncio.create_task(work, name=f"retire {retire.request_id}")

    async def _retire(self, asked: agent_gateway_pb2.Retire, outgoing: asyncio.Queue[Answer]) -> None:
        """Delete what the agent has made, and answer what came of it."""
        async with self._one_at_a_time:
            came = await self._backend.retire(force=asked.force, dry_run=asked.dry_run)
        await outgoing.put(Answer(retired=encode_retirement(asked.request_id, came)))

    async def _check(self, request_id: str, outgoing: asyncio.Queue[Answer]) -> None:
        """Answer with the findings of a check. One question about the cluster is answered at a time."""
        async with self._one_at_a_time:
            found = await self._backend.check()
        await outgoing.put(Answer(checked=encode_findings(request_id, found)))

    async def _answer(self, asked: agent_gateway_pb2.PullLog, outgoing: asyncio.Queue[Answer], *, busy: bool) -> None:
        if busy:
            await outgoing.put(trouble(asked.request_id, "too many logs are being read here; try again later"))
            return
        try:
            await LogPull(self._backend, asked, outgoing).run()
        except (BackendError, OSError) as error:
            await outgoing.put(trouble(asked.request_id, f"the log cannot be read: {error}"))


class _Sent:
    """What the stream sends, for ever.

    No generator: gRPC drops the iterator of a call that ends while it still waits for the next item, and Python would
    try to close a generator that is running.
    """

    def __init__(self, outgoing: asyncio.Queue[Answer]) -> None:
        self._outgoing = outgoing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Answer:
        return await self._outgoing.get()
