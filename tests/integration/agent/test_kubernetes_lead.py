"""One agent leads a cluster; what an agent keeps of itself there."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from muster_chassis.health import Health
from muster_cluster_agent.adapters.kubernetes import lead as lead_module
from muster_cluster_agent.adapters.kubernetes import parts
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Unreachable
from muster_cluster_agent.adapters.kubernetes.lead import DEADLINE, DURATION, Lead, LeadLost
from muster_cluster_agent.adapters.kubernetes.state import ClusterState
from muster_cluster_agent.errors import BackendError, ClusterFileError
from tests.support.fake_api_server import FakeApiServer, Fault
from tests.support.kubernetes_backends import client_of, scene
from tests.support.waiting import until


@dataclass
class Clock:
    """A monotonic clock of the test's own."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def two() -> AsyncIterator[tuple[FakeApiServer, Client, Clock]]:
    async with scene() as made, client_of(made.server) as client:
        yield made.server, client, Clock()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead_module, "_RENEW_SECONDS", 0.01)


async def test_the_second_agent_waits_until_the_first_has_been_silent() -> None:
    async with two() as (server, client, clock):
        first, second = Lead(client, "muster", "first", clock), Lead(client, "muster", "second", clock)
        await first.take()
        assert first.holds
        assert not await second._try()
        clock.now += DEADLINE
        assert not first.holds  # it stops to write before another may begin
        assert not await second._try()
        clock.now += DURATION - DEADLINE
        assert await second._try()
        assert second.holds
        assert not await first._try()
        assert server.objects["leases"]["muster/muster-agent"]["spec"]["leaseTransitions"] == 1


async def test_a_lead_that_is_given_back_is_taken_at_once() -> None:
    async with two() as (_, client, clock):
        first, second = Lead(client, "muster", "first", clock), Lead(client, "muster", "second", clock)
        await first.take()
        await first.give_back()
        assert not first.holds
        assert await second._try()


async def test_an_agent_without_an_answer_stays_and_writes_nothing() -> None:
    async with two() as (server, client, clock):
        lead = Lead(client, "muster", "first", clock)
        await lead.take()
        client.lead_left = lambda: lead.left
        keeping = asyncio.create_task(lead.keep())
        server.fault = lambda *_: Fault(503, "ServiceUnavailable", "later")
        clock.now += DEADLINE
        with pytest.raises(Unreachable, match="does not lead"):
            await client.post("/api/v1/namespaces/muster/configmaps", {"metadata": {"name": "x"}})
        assert not keeping.done()
        server.fault = lambda *_: None
        await until(lambda: lead.holds)
        await client.post("/api/v1/namespaces/muster/configmaps", {"metadata": {"name": "x"}})
        keeping.cancel()


async def test_a_write_goes_on_while_the_lead_is_renewed_and_ends_with_it() -> None:
    async with two() as (server, client, _):
        left = [0.01, 0.01, 0.01]
        client.lead_left = lambda: left.pop() if left else 0.0
        server.fault = lambda *_: Fault(silent=True)
        with pytest.raises(Unreachable, match="does not lead"):
            await client.post("/api/v1/namespaces/muster/configmaps", {"metadata": {"name": "x"}})
        assert not left


async def test_what_a_webhook_fails_is_not_asked_for_again_at_once() -> None:
    async with two() as (server, client, _):
        server.fault = lambda *_: Fault(message='failed calling webhook "w": context deadline exceeded')
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.post("/api/v1/namespaces/muster/pods", {"metadata": {"name": "x"}})
        assert server.calls["POST"] == 1


@pytest.mark.parametrize("holder", ["other", ""])
async def test_an_agent_that_another_has_replaced_ends(holder: str) -> None:
    async with two() as (server, client, clock):
        lead = Lead(client, "muster", "first", clock)
        await lead.take()
        server.change("leases", "muster/muster-agent", lambda item: item["spec"].update({"holderIdentity": holder}))
        with pytest.raises(LeadLost, match=f"{holder or 'another agent'} leads this cluster now"):
            async with asyncio.timeout(10):
                await lead.keep()
        assert not lead.holds  # it stops to write at once
        await lead.give_back()
        assert server.objects["leases"]["muster/muster-agent"]["spec"]["holderIdentity"] == holder


def _early() -> float:
    """1,000 s into 2025."""
    return 1_735_690_600.0


async def test_who_an_agent_is_stays_the_same_and_its_starts_are_counted() -> None:
    async with two() as (server, client, _):
        first = ClusterState(client, "muster", "c", _early)
        await first.open()
        await first.keep_number("epoch", 7)
        await first.replace("bus-1")
        writing = asyncio.create_task(first.run())
        await until(lambda: server.objects["configmaps"]["muster/muster-agent"]["data"].get("bus") == "bus-1")
        writing.cancel()
        again = ClusterState(client, "muster", "c", _early)
        await again.open()
        assert (again.instance, again.start, first.start) == (first.instance, first.start + 1, 1000)
        assert (again.read_number("epoch"), await again.known()) == (7, "bus-1")


async def test_a_start_is_above_those_that_a_restored_cluster_has_forgotten() -> None:
    async with two() as (server, client, _):
        first = ClusterState(client, "muster", "c", _early)
        await first.open()
        backup = copy.deepcopy(server.objects["configmaps"]["muster/muster-agent"])
        later = [ClusterState(client, "muster", "c", _early) for _ in range(3)]
        for each in later:
            await each.open()
        server.objects["configmaps"]["muster/muster-agent"] = backup  # etcd is restored, an hour later
        restored = ClusterState(client, "muster", "c", lambda: _early() + 3600)
        await restored.open()
        assert (first.start, later[-1].start, restored.start) == (1000, 1003, 4600)


@pytest.mark.parametrize("failure", [Unreachable("no answer"), ApiError(503, "ServiceUnavailable", "")])
async def test_a_server_that_does_not_answer_at_the_start_is_waited_for(failure: BackendError) -> None:
    health, failures = Health(grace=0.0), [failure] * 2

    async def step() -> None:
        assert bool(health.troubles) == (len(failures) < 2)
        if failures:
            raise failures.pop()

    await parts.until_answered(health, step)
    assert not failures
    assert not health.troubles


async def test_a_refusal_at_the_start_is_not_asked_for_again() -> None:
    async def step() -> None:
        raise ApiError(403, "Forbidden", "this agent may not")

    with pytest.raises(ApiError, match="may not"):
        await parts.until_answered(Health(), step)


async def test_another_cluster_at_the_same_address_is_not_acted_on() -> None:
    async with two() as (server, client, _):
        await ClusterState(client, "muster", "c").open()
        server.change("namespaces", "kube-system", lambda item: item["metadata"].update({"uid": "another"}))
        with pytest.raises(ClusterFileError, match="another cluster answers at this address"):
            await ClusterState(client, "muster", "c").open()


async def test_a_cluster_file_of_another_name_is_refused() -> None:
    async with two() as (_, client, _clock):
        await ClusterState(client, "muster", "c").open()
        with pytest.raises(ClusterFileError, match="the cluster file names another cluster"):
            await ClusterState(client, "muster", "d").open()


async def test_a_lead_is_renewed_until_it_is_given_back() -> None:
    async with two() as (server, client, clock):
        lead = Lead(client, "muster", "first", clock)
        await lead.take()
        async with lead.renewed():
            clock.now += DEADLINE - 1
            await until(lambda: lead.left > DEADLINE - 1)
        assert not lead.holds
        assert server.objects["leases"]["muster/muster-agent"]["spec"]["holderIdentity"] == ""
