"""The agent's loop on a back end in memory: what it does and tells, also where every second answer is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_cluster_agent.domain.actions import Answer, BackendAction, Create, Refuse
from muster_cluster_agent.domain.model import (
    NodeHealth,
    Observed,
    Pattern,
)
from muster_cluster_agent.domain.usage import GRID
from muster_cluster_agent.handlers import agenda
from muster_cluster_agent.ports import (
    BeatReport,
    HeldReport,
    InventoryReport,
    RefusalReport,
    SampleReport,
)
from muster_cluster_agent.sampling import Sampler
from tests.support.agent_loops import Told, assignment, release, running
from tests.support.agents import workload_id
from tests.support.backends import FakeBackend, Forgetful
from tests.support.waiting import until


@pytest.mark.parametrize("forgetful", [False, True])
async def test_a_workload_from_assignment_to_nothing(forgetful: bool) -> None:
    fake, told = FakeBackend(), Told()
    async with running(Forgetful(fake) if forgetful else fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
        agent.take(release(1))
        await until(lambda: not fake.replicas)
    assert list(fake.starts.values()) == [1]


async def test_nothing_is_done_before_the_end_of_the_assignments_was_read() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told, caught_up=False) as agent:
        agent.take(assignment(1, "sleep"))
        agent.take(release(1))
        agent.take(assignment(2))
        assert not fake.starts
        agent.caught_up()
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
        await until(lambda: told.states(1) == ["GONE"])
    assert len(fake.starts) == 1


async def test_a_folder_stays_until_the_bus_has_its_last_report() -> None:
    fake, told = FakeBackend(), Told(at_once=False)
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
        agent.take(release(1))
        agent.take(assignment(2))
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
        assert len(fake.replicas) == 2
        told.acknowledge()
        await until(lambda: len(fake.replicas) == 1)


async def test_older_epochs_and_other_instances_are_not_obeyed() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        assert agent.take(assignment(1, epoch=5))
        assert not agent.take(assignment(2, epoch=4))
        assert not agent.take(release(1, epoch=4))
        assert not agent.take(replace(assignment(3, epoch=6), instance="another"))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
    assert agent.epoch == 6
    assert len(fake.starts) == 1


async def test_a_resync_tells_everything_held_again() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        agent.take(assignment(2, "sleep"))
        agent.take(release(3))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"] and told.states(2) and told.states(3))
        told.reports.clear()
        await agent.resync()
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
        await until(lambda: told.states(2) == ["READY"] and told.states(3) == ["GONE"])
    (inventory,) = told.of(InventoryReport)
    assert isinstance(inventory, InventoryReport)
    assert inventory.difference is None
    (held,) = told.of(HeldReport)
    assert isinstance(held, HeldReport)
    assert {one.workload_id for one in held.assignments} == {workload_id(1), workload_id(2)}


async def test_one_bad_workload_does_not_stop_the_others_and_is_told_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda, "_RETRY_SECONDS", 0.01)

    class Broken(FakeBackend):
        async def act(self, action: BackendAction) -> Answer:
            if isinstance(action, Create) and action.plan.workload_id == workload_id(1):
                raise ValueError("a fault of ours")
            return await super().act(action)

    fake, told = Broken(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        agent.take(assignment(2))
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
        await until(lambda: told.of(RefusalReport), within=60)
    (refusal,) = told.of(RefusalReport)
    assert isinstance(refusal, RefusalReport)
    assert refusal.refusal.code == "AgentError"


async def test_a_name_that_was_used_up_is_answered_with_gone() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: bool(fake.replicas))
        fake.removed.update(fake.replicas)
        fake.replicas.clear()
        told.reports.clear()
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["GONE"])
    assert list(fake.starts.values()) == [1]


async def test_a_refusal_is_told_once_a_run() -> None:
    fake, told = FakeBackend(), Told()
    fake.set_node("n-0", NodeHealth.SILENT)
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.of(RefusalReport))
        agent.agenda.mark_everything()
        agent.take(assignment(2))
        await until(lambda: len(told.of(RefusalReport)) == 2)
        agent.refuse(Refuse(workload_id(3), 0, 0, "BadRecord", "no protobuf"))
    assert len(told.of(RefusalReport)) == 3


async def test_a_changed_fleet_is_told_as_a_difference() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        await agent.tell_state()
        fake.set_node("n-0", NodeHealth.UP, boot="another")
        await until(lambda: len(told.of(InventoryReport)) == 2)
    last = told.of(InventoryReport)[-1]
    assert isinstance(last, InventoryReport)
    assert last.difference is not None
    assert [node.name for node in last.difference.changed] == ["n-0"]


async def test_holding_accepts_and_starts_nothing() -> None:
    fake, told = FakeBackend(), Told()
    async with running(fake, told, hold=True) as agent:
        agent.take(assignment(1))
        agent.take(assignment(2))
        agent.take(release(2))
        await until(lambda: told.states(2) == ["GONE"])
        await agent.tell_state()
    (held,) = told.of(HeldReport)
    assert isinstance(held, HeldReport)
    assert [one.workload_id for one in held.assignments] == [workload_id(1)]
    assert not fake.starts
    assert told.of(BeatReport)


async def test_use_is_told_until_the_bus_has_it_and_the_rest_when_the_replica_goes() -> None:
    now = [1000 * GRID + 1.0]
    fake, told = FakeBackend(clock=lambda: now[0]), Told(at_once=False)
    sampler = Sampler(fake, told, clock=lambda: now[0])
    replica = Observed(
        "r", "id", 1, 0, "worker", 0, 0, "n-0", "boot", Pattern.SINGLE, started_at=now[0], charge=7000, project="p"
    )
    fake.replicas["r"] = replica
    now[0] += 1.5 * GRID
    await sampler.round()
    await sampler.round()
    assert len(told.reports) == 2
    assert told.reports[0] == told.reports[1]
    sampler.acknowledged(told.reports[0])
    await sampler.round()
    assert len(told.reports) == 2
    sampler.ended(replace(replica, gone=True, gone_at=now[0]))
    last = told.reports[-1]
    assert isinstance(last, SampleReport)
    assert (last.sample.since, last.sample.until) == (1001 * GRID, now[0])
    assert last.sample.charge == 7000
