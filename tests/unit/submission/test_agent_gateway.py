"""The stream of an agent: what is left of it when its end meets trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api.v1 import agent_gateway_pb2 as api
from muster_chassis.rpc import Caller
from muster_submission.adapters.agents import AgentStream
from muster_submission.rpc import agent_gateway
from muster_submission.rpc.agent_gateway import AgentGateway
from tests.support.waiting import eventually


class Around:
    """The neighbours of the gateway: all is allowed, and the row of the stream cannot be removed."""

    async def rights(self, _who: Caller) -> Around:
        return self

    def require(self, *_what: Any, **_where: Any) -> None:
        """Everything is allowed."""

    def connect(self, cluster: str, instance: str) -> AgentStream:
        return AgentStream(cluster, instance)

    def disconnect(self, stream: AgentStream) -> None:
        """The stream is known no longer."""

    async def take(self, _cluster: str, _stream: str) -> None:
        """It has the cluster."""

    async def leave(self, _cluster: str, _stream: str) -> None:
        raise ConnectionRefusedError("PostgreSQL is away")


async def _messages() -> AsyncIterator[api.ConnectRequest]:
    yield api.ConnectRequest(hello=api.AgentHello(cluster="east", instance="i-1"))
    await asyncio.Event().wait()


async def _listening() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "agent east"]


async def test_a_stream_that_ends_while_postgres_is_away_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_gateway, "_agent", lambda: Caller("agents"))
    around: Any = Around()
    questions = AgentGateway(around, around, around, around, around).Connect(_messages(), None)
    asking: asyncio.Task[Any] = asyncio.create_task(anext(questions))  # type: ignore[arg-type]
    (listening,) = await eventually(_listening)
    asking.cancel()
    with pytest.raises(ConnectionRefusedError):
        await asking
    assert listening.done()
