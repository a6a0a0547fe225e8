"""Logs on demand: what submission asks down the stream, and what the agent sends up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio
from google.protobuf.timestamp_pb2 import Timestamp

from muster.api.v1 import access_pb2, access_pb2_grpc, agent_gateway_pb2_grpc
from muster.api.v1 import agent_gateway_pb2 as pb
from muster.fleet.v1 import fleet_pb2
from muster_chassis.rpc import Target
from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Create, Remove, Stop
from muster_cluster_agent.domain.plan import replica_plans
from muster_cluster_agent.end import end
from muster_cluster_agent.errors import SecretsError
from muster_cluster_agent.rpc import Gateway
from tests.support.agent_loops import assignment
from tests.support.agents import workload_id
from tests.support.waiting import eventually, until

_Context = grpc.aio.ServicerContext[AsyncIterator[pb.ConnectRequest], AsyncIterator[pb.ConnectResponse]]


@dataclass
class Submission(agent_gateway_pb2_grpc.AgentGatewayServiceServicer):
    """The other end: asks what the test wants, keeps what comes."""

    ask: asyncio.Queue[pb.ConnectResponse] = field(default_factory=asyncio.Queue)
    hellos: list[pb.AgentHello] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    chunks: list[pb.LogChunk] = field(default_factory=list)
    checked: list[pb.CheckResult] = field(default_factory=list)

    async def Connect(
        self, request_iterator: AsyncIterator[pb.ConnectRequest], context: _Context
    ) -> AsyncIterator[pb.ConnectResponse]:
        self.tokens.append(str(dict(context.invocation_metadata() or ()).get("authorization", "")))

        async def listen() -> None:
            async for request in request_iterator:
                if request.HasField("hello"):
                    self.hellos.append(request.hello)
                elif request.HasField("checked"):
                    self.checked.append(request.checked)
                else:
                    self.chunks.append(request.log)

        listening = asyncio.create_task(listen())
        try:
            while True:
                yield await self.ask.get()
        finally:
            listening.cancel()

    async def FetchSecrets(self, request: pb.FetchSecretsRequest, context: Any) -> pb.FetchSecretsResponse:
        self.tokens.append(str(dict(context.invocation_metadata() or ()).get("authorization", "")))
        if request.workload_id != workload_id(1):
            await context.abort(grpc.StatusCode.NOT_FOUND, "it is not placed there")
        return pb.FetchSecretsResponse(secrets=[pb.Secret(reference=f"of {request.cluster}", value="hidden")])

    async def FindDeleted(self, request: pb.FindDeletedRequest, context: Any) -> pb.FindDeletedResponse:
        self.tokens.append(str(dict(context.invocation_metadata() or ()).get("authorization", "")))
        return pb.FindDeletedResponse(deleted=request.workload_ids[:1], unknown=request.workload_ids[1:2])

    def text(self, question: str) -> str:
        """What came for a question so far."""
        return b"".join(chunk.data for chunk in self.chunks if chunk.request_id == question).decode()

    def ended(self, question: str) -> bool:
        """Whether the last piece has come."""
        return any(chunk.last for chunk in self.chunks if chunk.request_id == question)


class Tokens(access_pb2_grpc.TokenServiceServicer):
    """Gives a token that says for what it was given."""

    async def IssueToken(self, request: access_pb2.IssueTokenRequest, context: object) -> access_pb2.IssueTokenResponse:
        return access_pb2.IssueTokenResponse(
            access_token=f"token of {request.application} by {request.secret}", expires_in=3600
        )


@pytest_asyncio.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    (tmp_path / "c.yaml").write_text("cluster: c\nnodes: [{name: n-0}]\n")
    state = StateFolder(tmp_path / "state")
    async with LocalBackend(tmp_path / "c.yaml", state) as local:
        yield local
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0


@asynccontextmanager
async def served(submission: Submission) -> AsyncIterator[str]:
    server = grpc.aio.server()
    access_pb2_grpc.add_TokenServiceServicer_to_server(Tokens(), server)
    agent_gateway_pb2_grpc.add_AgentGatewayServiceServicer_to_server(submission, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def connected(backend: LocalBackend, application: Path | None = None) -> AsyncIterator[Submission]:
    submission = Submission()
    async with served(submission) as address:
        task = asyncio.create_task(Gateway(Target(address), "c", "me", backend, application).run())
        try:
            await until(lambda: submission.hellos, within=60)
            yield submission
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def run(backend: LocalBackend, command: str) -> str:
    wanted = assignment(1, command)
    (plan,) = replica_plans(wanted, wanted.newest)
    await backend.act(Create(plan))
    return plan.name


async def gone(backend: LocalBackend) -> None:
    async def look() -> bool:
        return all(replica.gone for replica in await backend.list())

    await eventually(look, within=60)


def pull(question: str, **more: object) -> pb.ConnectResponse:
    return pb.ConnectResponse(pull_log=pb.PullLog(request_id=question, workload_id=workload_id(1), **more))  # type: ignore[arg-type]


async def test_a_whole_log_and_its_last_lines_also_after_the_replica_was_removed(backend: LocalBackend) -> None:
    name = await run(backend, "sh -c 'echo one; echo two; echo three'")
    await gone(backend)
    async with connected(backend) as submission:
        assert (submission.hellos[0].cluster, submission.hellos[0].instance) == ("c", "me")
        await submission.ask.put(pull("all"))
        await submission.ask.put(pull("tail", tail_lines=2, replica="worker-0"))
        await until(lambda: submission.ended("all") and submission.ended("tail"), within=60)
        assert submission.text("all") == "one\ntwo\nthree\n"
        assert submission.text("tail") == "two\nthree\n"
        assert submission.chunks[0].replica == "worker-0"
        await submission.ask.put(pull("early", since=Timestamp(seconds=1), tail_lines=1))
        await submission.ask.put(pull("late", since=Timestamp(seconds=int(time.time()) + 60)))
        await until(lambda: submission.ended("early") and submission.ended("late"), within=60)
        assert submission.text("early") == "three\n"
        assert submission.text("late") == ""
        await backend.act(Remove(name))
        await submission.ask.put(pull("later"))
        await until(lambda: submission.ended("later"), within=60)
        assert submission.text("later") == "one\ntwo\nthree\n"


async def test_a_check_tells_of_the_machine(backend: LocalBackend) -> None:
    async with connected(backend) as submission:
        for request_id in ("one", "two"):
            await submission.ask.put(pb.ConnectResponse(run_check=pb.RunCheck(request_id=request_id)))
        await until(lambda: len(submission.checked) == 2, within=60)
        assert [result.request_id for result in submission.checked] == ["one", "two"]
        told = {finding.subject: finding for finding in submission.checked[0].findings}
        assert told.keys() == {"nodes", "confinement", "limits", "disk"}
        assert told["nodes"].text == "1 node with 0 devices"
        assert told["nodes"].level == fleet_pb2.FINDING_LEVEL_OK


async def test_following_goes_on_until_the_end_of_the_command(backend: LocalBackend) -> None:
    name = await run(backend, "sh -c 'echo first; while [ ! -e go ]; do sleep 0.02; done; echo second'")
    async with connected(backend) as submission:
        await submission.ask.put(pull("f", follow=True))
        await until(lambda: submission.text("f") == "first\n", within=60)
        assert not submission.ended("f")
        (backend._workdirs.folders(workload_id(1), name).work / "go").touch()
        await until(lambda: submission.ended("f"), within=60)
        assert submission.text("f") == "first\nsecond\n"


async def test_a_question_can_be_withdrawn(backend: LocalBackend) -> None:
    name = await run(backend, "sleep 1000")
    async with connected(backend) as submission:
        await submission.ask.put(pull("f", follow=True))
        await submission.ask.put(pb.ConnectResponse(stop_log=pb.StopLog(request_id="f")))
        await submission.ask.put(pull("nothing", replica="worker-7"))
        await until(lambda: submission.ended("nothing"), within=60)
        assert [chunk.trouble for chunk in submission.chunks if chunk.last] == ["no log of it is kept here"]
        assert not submission.ended("f")
        await backend.act(Stop(name, 0.0, "released"))


async def test_the_agent_shows_its_token(backend: LocalBackend, tmp_path: Path) -> None:
    path = tmp_path / "application.json"
    path.write_text('{"id": "agents", "secret": "secret", "role": "cluster-agent"}')
    async with connected(backend, path) as submission:
        assert submission.tokens == ["Bearer token of agents by secret"]


async def test_submission_may_come_and_go(backend: LocalBackend) -> None:
    gateway = Gateway(Target("127.0.0.1:9"), "c", "me", backend)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gateway.run(), 0.5)


async def test_credentials_are_asked_for_with_the_agents_own_token(backend: LocalBackend, tmp_path: Path) -> None:
    application = tmp_path / "application.json"
    await asyncio.to_thread(application.write_text, '{"id": "agents", "secret": "s"}')
    submission = Submission()
    async with served(submission) as address:
        gateway = Gateway(Target(address), "c", "me", backend, application)
        assert await gateway.of(workload_id(1)) == {"of c": "hidden"}
        assert submission.tokens == ["Bearer token of agents by s"]
        with pytest.raises(SecretsError, match="it is not placed there"):
            await gateway.of(workload_id(2))
        found = await gateway.find_deleted(["a", "b", "c"])
        assert (found.deleted, found.unknown) == ({"a"}, {"b"})
        assert set(submission.tokens) == {"Bearer token of agents by s"}
    with pytest.raises(SecretsError, match="does not answer"):
        await gateway.find_deleted(["a"])
    with pytest.raises(SecretsError, match="hands out nothing"):
        await gateway.of(workload_id(1))
