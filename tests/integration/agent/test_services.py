"""The address of a service outlives its agent, its replicas and the process that carries its connections."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest_asyncio

from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Bury, Create, Outcome, Remove, Route, Stop
from muster_cluster_agent.domain.model import Observed, Pattern, Template
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.end import end
from tests.support.agent_loops import assignment
from tests.support.waiting import eventually

SERVER = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as server:
    while True:
        connection, _ = server.accept()
        connection.sendall(str(os.getpid()).encode())
        connection.close()
"""


class Agent:
    """A back end that can be ended and opened again over one state folder, as an agent that is killed."""

    def __init__(self, root: Path) -> None:
        (root / "c.yaml").write_text("cluster: c\nnodes: [{name: n-0}]\n")
        self._root = root
        self.start()

    def start(self) -> None:
        self._state = StateFolder(self._root / "state")
        self.backend = LocalBackend(self._root / "c.yaml", self._state)

    async def stop(self) -> None:
        await self.backend.close()
        self._state.close()

    def plan(self, k: int = 0) -> ReplicaPlan:
        wanted = assignment(1, "true")
        template = Template(command=f"{sys.executable} -c '{SERVER}'", ports=(8000,))
        (run,) = wanted.newest.runs
        revision = replace(wanted.newest, pattern=Pattern.SERVICE, template=template, runs=(replace(run, k=k),))
        return replica_plans(replace(wanted, revisions=(revision,)), revision)[0]

    async def observed(self, name: str) -> Observed:
        return next(one for one in await self.backend.list() if one.name == name)

    async def serve(self, k: int = 0) -> str:
        """Start a replica and lead the address to it once it is ready; the address."""
        plan = self.plan(k)
        assert (await self.backend.act(Create(plan))).outcome is Outcome.DONE
        found = await eventually(lambda: self.observed(plan.name), lambda one: one.ready, within=30)
        await self.backend.act(Route(plan.workload_id, (plan.name,)))
        return found.service[0]


@pytest_asyncio.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    here = Agent(tmp_path)
    await here.backend.open()
    yield here
    await here.stop()
    assert await asyncio.to_thread(end, tmp_path / "state") == 0


async def ask(address: str) -> str:
    """What the server behind the address says; empty where none answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_an_address_answers_while_its_agent_is_away_and_leads_on_when_it_is_back(agent: Agent) -> None:
    address = await agent.serve()
    pid = await ask(address)
    await agent.stop()
    assert await ask(address) == pid
    agent.start()
    await agent.backend.open()
    found = await agent.observed(agent.plan().name)
    assert (found.ready, found.service) == (True, (address,)), "nothing has to be asked again before it serves"
    await agent.backend.act(Route(found.workload_id, (found.name,)))
    assert await ask(address) == pid


async def test_a_workload_keeps_its_address_without_any_replica_until_it_is_deleted(agent: Agent) -> None:
    address, first = await agent.serve(), agent.plan()
    await agent.backend.act(Stop(first.name, 0.0, "released"))
    await eventually(lambda: agent.observed(first.name), lambda one: one.gone, within=30)
    await agent.backend.act(Route(first.workload_id, (), closed=True))
    await agent.backend.act(Remove(first.name))
    await agent.stop()
    agent.start()
    await agent.backend.open()
    assert await agent.serve(k=1) == address
    second = agent.plan(k=1)
    await agent.backend.act(Stop(second.name, 0.0, "Deleted"))
    await eventually(lambda: agent.observed(second.name), lambda one: one.gone, within=30)
    await agent.backend.act(Route(first.workload_id, (), closed=True, deleted=True))
    await agent.backend.act(Remove(second.name))
    assert agent.backend._kept._kept == {}


async def test_a_pump_that_is_killed_is_replaced_and_told_everything(agent: Agent) -> None:
    address = await agent.serve()
    pid = await ask(address)
    os.kill((await agent.backend._services._pump.ask({"list": True}))["pid"], signal.SIGKILL)

    async def answer() -> str:
        try:
            return await ask(address)
        except OSError:
            return ""

    assert await eventually(answer, lambda said: said == pid, within=30) == pid


async def test_a_replica_that_died_while_the_agent_was_away_is_not_ready(agent: Agent) -> None:
    await agent.serve()
    plan = agent.plan()
    replica = agent.backend._store.read(plan.name)
    assert replica is not None
    supervisor = replica.supervisor()
    assert supervisor is not None
    await agent.stop()
    os.kill(supervisor[0], signal.SIGKILL)
    agent.start()
    await agent.backend.open()
    await agent.backend.act(Bury(plan.name, "no-process", "its supervisor was found dead"))
    found = await eventually(lambda: agent.observed(plan.name), lambda one: one.gone, within=30)
    assert not found.ready
