"""The lead of a cluster: of two agents one changes nothing until it leads, and one that is cut off says so."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from muster.events.v1 import agent_pb2
from muster_cluster_agent.adapters.kubernetes.lead import DURATION, LEASE
from tests.conformance import programs
from tests.conformance.kubelets import MERGE
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import FAILED, GONE, READY, SUCCEEDED, Stage, Work
from tests.support.agents import AgentProcess
from tests.support.waiting import until

_LEADS: Final = "this agent leads the cluster"
_WAITS: Final = "another agent leads this cluster"
_ELSE: Final = "leads this cluster now"


async def waiting_agent(stage: Stage) -> AgentProcess:
    """Another agent of the same cluster, which has found that the first one leads."""
    other = stage.beside()
    await asyncio.to_thread(other.start)
    await until(lambda: _WAITS in other.log())
    return other


async def leads(agent: AgentProcess) -> None:
    """Waits until an agent leads."""
    await until(lambda: _LEADS in agent.log())


async def lease_of(stage: Stage) -> tuple[str, dict[str, Any]]:
    """Where the Lease of a cluster is, and what it says."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster_of(stage).own}/leases/{LEASE}"
    return path, (await cluster_of(stage).kubelets.call("GET", path))["spec"]


def starts_told(stage: Stage) -> set[int]:
    """The numbers of the starts of agents by which anything was reported."""
    return {message.order.start for message in stage.bus.seen if hasattr(message, "order")}


async def ends_well(*works: Work) -> None:
    """Each workload runs on, was started once, and leaves nothing."""
    for work in works:
        await work.finish(0)
        await work.state(SUCCEEDED)
        await work.state(GONE)
        assert await work.starts() == 1
        await work.release()
        await work.nothing_left()


@case(Capability.PARTITIONS, alone=True)
async def a_second_agent_changes_nothing_while_the_first_one_leads(stage: Stage) -> None:
    before = await stage.running()
    _, lease = await lease_of(stage)
    await waiting_agent(stage)
    await stage.passed()
    assert len(starts_told(stage)) == 1, "the second one has reported something"
    _, now = await lease_of(stage)
    assert (now["holderIdentity"], now["leaseTransitions"]) == (lease["holderIdentity"], 0)
    await ends_well(before, await stage.running())


@case(Capability.PARTITIONS, given=["killed", "ended"], alone=True)
async def a_second_agent_goes_on_with_what_the_first_one_has_left(stage: Stage, how: str) -> None:
    work = await stage.running()
    other = await waiting_agent(stage)
    stage.bus.forget()
    began = time.monotonic()
    if how == "killed":
        await stage.kill()
    else:
        stage.end()
    await leads(other)
    if how == "ended":
        assert time.monotonic() - began < DURATION, "a lead that is given back is not waited for"
    await work.state(READY)
    await ends_well(work, await stage.running())


@case(Capability.PARTITIONS, alone=True)
async def what_an_agent_has_sent_while_it_led_is_not_done_twice(stage: Stage) -> None:
    """The first agent is cut off from the API server while it leads; what it sends arrives after the second leads."""
    lasting, released = await stage.running(), await stage.running()
    other = await waiting_agent(stage)
    cut = cluster_of(stage).gate
    assert cut is not None
    cut.cut()
    caught = stage.work(programs.WAITS)
    await caught.assign()  # both agents read it
    await released.release()
    await leads(other)
    await caught.state(READY)
    await released.state(GONE)
    cut.mend()
    await until(lambda: stage.agent.process is not None and stage.agent.process.poll() is not None)
    assert _ELSE in stage.agent.log(), "it has ended for another reason"
    await stage.passed()
    await released.nothing_left()
    await ends_well(lasting, caught)


@case(Capability.PARTITIONS, alone=True, long=True)
async def an_agent_whose_lease_is_taken_ends_and_waits_for_its_turn(stage: Stage) -> None:
    work = await stage.running()
    path, lease = await lease_of(stage)
    taken = {**lease, "holderIdentity": "another", "leaseTransitions": 1}
    await cluster_of(stage).kubelets.call("PATCH", path, {"spec": taken}, content=MERGE)
    await until(lambda: stage.agent.process is not None and stage.agent.process.poll() is not None)
    assert f"another {_ELSE}" in stage.agent.log()
    late = stage.work(programs.WAITS)
    await late.assign()
    stage.bus.forget()
    began = time.monotonic()
    await stage.up()
    assert time.monotonic() - began >= DURATION, "it led before the other one had been silent"
    await work.state(READY)
    await late.state(READY)
    await ends_well(work, late)


@case(Capability.PARTITIONS, alone=True, long=True)
async def an_agent_that_is_cut_off_says_so_and_goes_on_once_it_is_back(stage: Stage) -> None:
    ends, lasts = await stage.running(), await stage.running()
    cut = cluster_of(stage).gate
    assert cut is not None
    cut.cut()
    late = stage.work(programs.WAITS)
    await late.assign()
    await stage.bus.first(
        lambda m: isinstance(m, agent_pb2.Heartbeat) and m.backend == agent_pb2.BACKEND_HEALTH_UNREACHABLE, within=90
    )
    await ends.finish(3)
    assert "GONE" not in ends.states() + lasts.states(), "it is not seen what they do"
    cut.mend()
    assert (await ends.state(FAILED)).exit_code == 3
    await late.state(READY)
    assert len(starts_told(stage)) == 1, "the agent has ended"
    await ends_well(lasts, late)
    assert await ends.starts() == 1
