"""AgentGatewayService: where agents come in, so that they can be asked for logs, and ask for credentials.

Holds: the first message of a stream says who it is; the stream ends when the agent goes, when a newer one of its
cluster comes, or when this process stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Final

from muster.api.v1 import agent_gateway_pb2 as api
from muster.api.v1 import agent_gateway_pb2_grpc
from muster_chassis import logs
from muster_chassis.errors import Unauthenticated
from muster_chassis.rpc import LOCAL, Caller, caller
from muster_chassis.text import clean
from muster_kernel.ids import check_name, is_uuid
from muster_submission.adapters.agents import Agents, AgentStream
from muster_submission.adapters.peers import Peers
from muster_submission.adapters.secrets import PostgresSecrets
from muster_submission.adapters.vault import Vault
from muster_submission.domain.access import Verb
from muster_submission.errors import BadQuestion, NoSuchWorkload
from muster_submission.handlers.access import Access
from muster_submission.rpc.guarding import guarded

_log = logs.get(__name__)
_HELLO_SECONDS: Final = 10.0
_MOST_IDS: Final = 1_000


class AgentGateway(agent_gateway_pb2_grpc.AgentGatewayServiceServicer):
    """The servicer."""

    def __init__(self, access: Access, agents: Agents, peers: Peers, secrets: PostgresSecrets, vault: Vault) -> None:
        self._access = access
        self._agents = agents
        self._peers = peers
        self._secrets = secrets
        self._vault = vault

    async def Connect(
        self, request_iterator: AsyncIterator[api.ConnectRequest], context: Any
    ) -> AsyncIterator[api.ConnectResponse]:
        """One agent's stream."""
        who = _agent()
        await self._access.rights(who)
        hello = await _hello(request_iterator)

        async def check() -> None:
            (await self._access.rights(who)).require(Verb.AGENTS_CONNECT, cluster=hello.cluster)

        await check()
        stream = self._agents.connect(hello.cluster, hello.instance)
        _log.info("an agent connected", cluster=hello.cluster, instance=hello.instance)
        listening = asyncio.create_task(_listen(request_iterator, stream), name=f"agent {hello.cluster}")
        try:
            await self._peers.take(hello.cluster, stream.id)
            async with aclosing(guarded(_questions(stream), check)) as questions:
                async for question in questions:
                    yield question
        finally:
            self._agents.disconnect(stream)
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening
            _log.info("an agent has gone", cluster=hello.cluster, instance=hello.instance)
            await self._peers.leave(hello.cluster, stream.id)  # last: it waits for PostgreSQL

    async def FetchSecrets(self, request: api.FetchSecretsRequest, context: Any) -> api.FetchSecretsResponse:
        """The credentials of a workload, for the cluster that it is placed on and no other."""
        hidden = NoSuchWorkload(f"workload {request.workload_id[:80]!r} is not placed on cluster {request.cluster!r}")
        rights = await self._access.rights(_agent())
        rights.require(Verb.AGENTS_CONNECT, cluster=request.cluster, absent=hidden)
        known = is_uuid(request.workload_id) and "\x00" not in request.cluster
        held = await self._secrets.of_workload(request.workload_id, request.cluster) if known else None
        if held is None:
            raise hidden
        _log.info("credentials handed out", workload=request.workload_id, cluster=request.cluster, count=len(held))
        return api.FetchSecretsResponse(
            secrets=[api.Secret(reference=one.ref.text, value=self._vault.open(one)) for one in held]
        )

    async def FindDeleted(self, request: api.FindDeletedRequest, context: Any) -> api.FindDeletedResponse:
        """Which workloads an agent needs no folders of any more."""
        hidden = NoSuchWorkload(f"no workload is known to cluster {request.cluster[:80]!r}")
        rights = await self._access.rights(caller())
        rights.require(Verb.AGENTS_CONNECT, cluster=request.cluster, absent=hidden)
        if len(request.workload_ids) > _MOST_IDS:
            raise BadQuestion(f"{len(request.workload_ids)} workload ids; at most {_MOST_IDS} in one question")
        asked = [each for each in request.workload_ids if is_uuid(each)]
        known = await self._secrets.deleted(asked)
        return api.FindDeletedResponse(
            deleted=[each for each in asked if known.get(each)], unknown=[each for each in asked if each not in known]
        )


def _agent() -> Caller:
    """The agent that calls. Raises Unauthenticated for a call without a token, also where people need none.

    What agents get, credentials of workloads, is not for every process of the machine.
    """
    who = caller()
    if who == LOCAL:
        raise Unauthenticated(
            "an agent logs in as an application with the role cluster-agent in every stack: set its "
            "MUSTER_APPLICATION_FILE"
        )
    return who


async def _questions(stream: AgentStream) -> AsyncIterator[api.ConnectResponse]:
    while (question := await stream.questions.get()) is not None:
        yield question


async def _hello(incoming: AsyncIterator[api.ConnectRequest]) -> api.AgentHello:
    try:
        async with asyncio.timeout(_HELLO_SECONDS):
            first = await anext(aiter(incoming))
    except StopAsyncIteration:
        raise BadQuestion("the stream ended before the agent said who it is") from None
    if first.WhichOneof("message") != "hello":
        raise BadQuestion("the first message of an agent is its hello")
    hello = first.hello
    try:
        check_name(hello.cluster)
    except ValueError as error:
        raise BadQuestion(f"hello.cluster: {error}") from error
    hello.instance = clean(hello.instance, 100)
    return hello


async def _listen(incoming: AsyncIterator[api.ConnectRequest], stream: AgentStream) -> None:
    """Takes the agent's answers until it has gone."""
    try:
        async for message in incoming:
            match message.WhichOneof("message"):
                case "log":
                    await stream.answer(message.log)
                case "checked":
                    stream.resolve(message.checked.request_id, message)
                case "retired":
                    stream.resolve(message.retired.request_id, message)
    finally:
        stream.end()
