"""What every back end of the agent does, on the one in memory, on real local processes, and where answers get lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster_cluster_agent.adapters.local.backend import LocalBackend
from muster_cluster_agent.adapters.local.state import StateFolder
from muster_cluster_agent.domain.actions import Abandon, Answer, BackendAction, Bury, Create, Outcome, Remove, Stop
from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.fleet import Identity
from muster_cluster_agent.domain.model import (
    Assignment,
    NodeHealth,
    Observed,
    Pattern,
    Revision,
    Run,
    Share,
    Template,
)
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.domain.status import failure_of, judge
from muster_cluster_agent.end import end
from muster_cluster_agent.ports import Backend, Changed
from muster_kernel.reasons import RefusalCode
from tests.support.agents import workload_id
from tests.support.backends import FakeBackend, Forgetful
from tests.support.kubernetes_backends import NAMESPACE, PROJECT, backend_on, scene
from tests.support.waiting import eventually

FILE = "cluster: c\nnodes:\n  - {name: n-0, devices: {count: 2, model: A100-40GB, memory: 40Gi}}\n"
SETTLED = {Outcome.DONE, Outcome.ALREADY}


@pytest_asyncio.fixture(
    params=["memory", "local", "kubernetes", *(f"forgetful {each}" for each in ("memory", "local", "kubernetes"))]
)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    kind = str(request.param)
    if "memory" in kind:
        fake = FakeBackend()
        yield Forgetful(fake) if "forgetful" in kind else fake
        return
    if "kubernetes" in kind:
        async with scene() as made, backend_on(made.server) as cluster:
            yield Forgetful(cluster) if "forgetful" in kind else cluster
        return
    file = tmp_path / "cluster.yaml"
    file.write_text(FILE)
    state = StateFolder(tmp_path / "state")
    async with LocalBackend(file, state) as local:
        yield Forgetful(local) if "forgetful" in kind else local
    state.close()
    assert await asyncio.to_thread(end, state.root) == 0


def plan(command: str, number: int = 1, node: str = "n-0", shares: tuple[Share, ...] = ()) -> ReplicaPlan:
    run = Run("worker", 0, 1, node, shares=(shares,))
    revision = Revision(1, 0, Pattern.SINGLE, Template(command=command, container=Container("x")), (run,))
    assignment = Assignment(workload_id(number), 1, "", 1, (revision,), PROJECT, NAMESPACE, grace=1.0)
    return replica_plans(assignment, revision)[0]


async def settled(backend: Backend, action: BackendAction) -> Answer:
    """Asks until the answer is known, as the agent does."""
    answer = await backend.act(action)
    while answer.outcome is Outcome.UNKNOWN:
        answer = await backend.act(action)
    return answer


async def seen(backend: Backend, name: str) -> Observed | None:
    return next((one for one in await backend.list() if one.name == name), None)


async def gone(backend: Backend, name: str) -> Observed:
    found = await eventually(lambda: seen(backend, name), lambda one: one is not None and one.gone, within=60)
    assert found is not None
    return found


async def running(backend: Backend, command: str = "sleep 1000", shares: tuple[Share, ...] = ()) -> ReplicaPlan:
    made = plan(command, shares=shares)
    assert (await settled(backend, Create(made))).outcome in SETTLED
    await eventually(lambda: seen(backend, made.name), lambda one: one is not None and one.ready, within=60)
    return made


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("sh -c 'exit 3'", 3), ("/no/such/program", 127), ("sh -c 'exit 137'", 137)]
)
async def test_a_command_ends_with_its_own_code(backend: Backend, command: str, code: int) -> None:
    made = plan(command)
    await settled(backend, Create(made))
    found = await gone(backend, made.name)
    assert found.ended is not None
    assert found.ended.code == code
    assert (found.workload_id, found.role, found.index, found.node) == (made.workload_id, "worker", 0, "n-0")
    assert not found.stop_reason


async def test_creating_twice_starts_once(backend: Backend) -> None:
    made = await running(backend)
    answer = await settled(backend, Create(made))
    assert answer.outcome is Outcome.ALREADY
    assert len(await backend.list()) == 1


async def test_a_stopped_replica_is_ended_by_us(backend: Backend) -> None:
    made = await running(backend)
    await settled(backend, Stop(made.name, 1.0, "released"))
    found = await gone(backend, made.name)
    assert found.stop_reason == "released"
    assert failure_of(found).name == "OURS"
    assert (await settled(backend, Stop(made.name, 1.0, "again"))).outcome is Outcome.ALREADY


async def test_only_what_is_gone_is_removed_and_its_name_is_used_up(backend: Backend) -> None:
    made = await running(backend)
    assert (await settled(backend, Remove(made.name))).outcome is Outcome.REFUSED
    await settled(backend, Stop(made.name, 0.0, "released"))
    await gone(backend, made.name)
    assert (await settled(backend, Remove(made.name))).outcome in SETTLED
    assert await seen(backend, made.name) is None
    assert (await settled(backend, Remove(made.name))).outcome is Outcome.ALREADY
    assert (await settled(backend, Create(made))).outcome is Outcome.CONFLICT


async def test_what_is_supervised_is_not_buried_alive(backend: Backend) -> None:
    made = await running(backend)
    assert (await settled(backend, Bury(made.name, "no-process", "found dead"))).outcome is Outcome.CONFLICT
    found = await seen(backend, made.name)
    assert found is not None
    assert not found.gone


async def test_a_node_that_is_gone_for_good_buries_its_replicas(backend: Backend) -> None:
    made = await running(backend)
    assert (await settled(backend, Bury(made.name, "node-gone", "its node is gone"))).outcome in SETTLED
    found = await gone(backend, made.name)
    assert (found.evidence, failure_of(found).name) == ("node-gone", "INFRASTRUCTURE")


async def test_an_abandoned_replica_has_failed_to_start(backend: Backend) -> None:
    made = plan("true")
    await settled(backend, Abandon(made, "its workers never came"))
    found = await gone(backend, made.name)
    assert (failure_of(found).name, found.fault) == ("START", "its workers never came")
    assert (await settled(backend, Create(made))).outcome is Outcome.ALREADY


async def test_an_unknown_node_takes_nothing(backend: Backend) -> None:
    answer = await settled(backend, Create(plan("true", node="nowhere")))
    assert answer.outcome is Outcome.REFUSED
    assert "nowhere" in answer.message


async def test_a_device_is_refused_until_the_replica_that_holds_it_is_gone(backend: Backend) -> None:
    fleet = await backend.fleet()
    if fleet.profile.identity is Identity.ANONYMOUS:
        pytest.skip("the cluster's own kubelets count its devices")
    first, second = (device.uuid for device in fleet.nodes[0].devices)
    holder = await running(backend, shares=(Share(first, whole=True),))
    part = plan("sleep 1000", 2, shares=(Share(first, portion_milli=100),))
    answer = await settled(backend, Create(part))
    assert (answer.outcome, answer.code) == (Outcome.REFUSED, RefusalCode.DEVICE_IN_USE)
    assert first in answer.message
    assert holder.name in answer.message
    assert await seen(backend, part.name) is None
    beside = plan("true", 3, shares=(Share(second, whole=True),))
    assert (await settled(backend, Create(beside))).outcome in SETTLED
    await settled(backend, Stop(holder.name, 0.0, "released"))
    await gone(backend, holder.name)
    assert (await settled(backend, Create(part))).outcome in SETTLED
    again = plan("true", 4, shares=(Share(first, portion_milli=900),))
    assert (await settled(backend, Create(again))).outcome in SETTLED


async def test_watching_tells_whose_replicas_changed(backend: Backend) -> None:
    async def first() -> Changed:
        async for changed in backend.watch():
            if changed.workloads:
                return changed
        return await first()

    waiting = asyncio.create_task(first())
    made = await running(backend)
    changed = await asyncio.wait_for(waiting, 60)
    assert made.workload_id in changed.workloads


async def test_nodes_and_fleet_agree(backend: Backend) -> None:
    nodes, fleet = await backend.nodes(), await backend.fleet()
    assert nodes["n-0"].health is NodeHealth.UP
    reported = next(node for node in fleet.nodes if node.name == "n-0")
    assert {device.uuid for device in reported.devices} == nodes["n-0"].devices
    assert reported.boot_id == nodes["n-0"].boot


async def test_a_log_is_read_whole_or_from_its_last_lines_on(backend: Backend) -> None:
    made = plan("sh -c 'echo first; echo second; exit 0'")
    await settled(backend, Create(made))
    await gone(backend, made.name)
    assert made.name in await backend.replicas_with_logs(made.workload_id)
    whole = await text_of(backend.read_log(made.name))
    assert whole == b"first\nsecond\n"
    assert await text_of(backend.read_log(made.name, tail=1)) == b"second\n"
    assert await text_of(backend.read_log(made.name, follow=True)) == whole  # it has ended, and so does its log
    assert await text_of(backend.read_log("w-none")) == b""
    assert (await backend.log_tail(made.name, 1000)) == whole


async def text_of(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_the_state_of_a_replica_follows_its_life(backend: Backend) -> None:
    made = await running(backend)
    found = await seen(backend, made.name)
    assert found is not None
    nodes = await backend.nodes()
    assert judge(found, nodes["n-0"]).state.name == "READY"
    await settled(backend, Stop(made.name, 0.0, "released"))
    assert judge(await gone(backend, made.name), nodes["n-0"]).state.name == "GONE"
