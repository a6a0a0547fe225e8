"""The agent's loop on a back end in memory: what it does and tells, also where every second answer is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from muster_cluster_agent.domain.actions import Answer, BackendAction, Create, Outcome, Refuse
from muster_cluster_agent.domain.model import (
    Assignment,
    NodeHealth,
    Pattern,
    Run,
    RunKey,
    Share,
)
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_cluster_agent.errors import BackendError, SecretsError
from muster_cluster_agent.handlers import agenda
from muster_cluster_agent.handlers.agent import Taken
from muster_cluster_agent.ports import (
    BeatReport,
    HeldReport,
    InventoryReport,
    RefusalReport,
)
from muster_kernel.reasons import RefusalCode
from muster_kernel.sealed import SEALED
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


@pytest.mark.parametrize(("command", "asked"), [("exit 3", 1), ("sleep 1000", 0)], ids=["by-itself", "stopped"])
async def test_only_of_what_failed_by_itself_the_last_lines_are_asked_for(command: str, asked: int) -> None:
    class Counting(FakeBackend):
        tails = 0

        async def log_tail(self, name: str, limit: int) -> bytes:
            self.tails += 1
            return b"last"

    fake, told = Counting(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1, command=command))
        await until(lambda: bool(told.states(1)))
        agent.take(release(1))
        await until(lambda: not fake.replicas)
    assert "FAILED" in told.states(1)
    assert fake.tails == asked


async def test_an_assignment_that_comes_while_the_run_before_is_cleared_away_is_carried_out() -> None:
    class SlowToClose(FakeBackend):
        closing, close = asyncio.Event(), asyncio.Event()

        async def close_runs(self, workload_id: str, run: RunKey) -> None:
            self.closing.set()
            await self.close.wait()

    fake, told = SlowToClose(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
        agent.take(release(1))
        await fake.closing.wait()
        agent.take(assignment(1, attempt=1))
        fake.close.set()
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"] * 2)
    assert list(fake.starts.values()) == [1, 1]


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
        assert agent.take(assignment(1, epoch=5)) is Taken.TAKEN
        assert agent.take(assignment(2, epoch=4)) is Taken.REFUSED
        assert agent.take(release(1, epoch=4)) is Taken.REFUSED
        assert agent.take(replace(assignment(3, epoch=6), instance="another")) is Taken.REFUSED
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
    assert agent.epoch == 6
    assert len(fake.starts) == 1


async def test_no_record_undoes_a_newer_one_of_its_epoch() -> None:
    first, second = assignment(1, "sleep", epoch=5), replace(assignment(1, "sleep", epoch=5), revision=2)
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        assert agent.take(second) is Taken.TAKEN
        assert agent.take(first) is Taken.STALE
        assert agent.take(second) is Taken.TAKEN, "the same record once more"
        assert agent.take(release(1, attempt=1, epoch=5)) is Taken.TAKEN
        assert agent.take(release(1, epoch=5)) is Taken.STALE
        await until(lambda: not agent.agenda.known(workload_id(1)))
        assert agent.take(second) is Taken.STALE, "its case is gone, its tombstone still counts"
        assert agent.take(assignment(1, "sleep", attempt=2, epoch=5)) is Taken.TAKEN
        assert agent.take(release(1, epoch=5)) is Taken.STALE
        assert agent.take(assignment(1, "sleep", epoch=6)) is Taken.TAKEN, "a new term decides by itself"


async def test_finished_workloads_leave_nothing_in_memory_once_the_bus_has_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agenda, "_REMEMBERED", 2)
    fake, told = FakeBackend(), Told(at_once=False)
    async with running(fake, told) as agent:
        for number in range(1, 6):
            agent.take(assignment(number))
        await until(lambda: all(told.states(number) == ["SUCCEEDED", "GONE"] for number in range(1, 6)))
        for number in range(1, 6):
            agent.take(release(number))
        agent.take(release(6))  # it never was here
        await until(lambda: told.states(6) == ["GONE"])
        assert len(list(agent.agenda.cases())) == 6, "the bus has not acknowledged any of it"
        told.acknowledge()
        await until(lambda: not list(agent.agenda.cases()))
        assert not fake.replicas
        known = [number for number in range(1, 7) if agent.agenda.newest(workload_id(number))]
        assert len(known) == 2, "tombstones are kept of the last ones"


async def test_a_resync_tells_everything_held_again() -> None:
    fake, told = FakeBackend(), Told(at_once=False)
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


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("then_released", [False, True])
async def test_a_name_that_was_used_up_is_told_of_again_where_that_may_have_been_lost(
    *, then_released: bool, acknowledged: bool
) -> None:
    fake, told = FakeBackend(), Told(at_once=False)
    (plan,) = replica_plans(assignment(1), assignment(1).newest)
    fake.removed.add(plan.name)  # as after a restore, which brings back what had been over
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["GONE"])
        if acknowledged:
            told.acknowledge()
            await until(lambda: agent.agenda.case(workload_id(1)).idle)
        if then_released:
            agent.take(release(1))
            await until(lambda: agent.agenda.quiet)
        told.reports.clear()  # the bus was not there yet, and what had been told was thrown away
        await agent.resync()
        await until(lambda: told.states(1) == ["GONE"])
        assert fake.starts == {}


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
        agent.refuse(Refuse(workload_id(3), 0, 0, RefusalCode.BAD_RECORD, "no protobuf"))
    assert len(told.of(RefusalReport)) == 3


def on_device(number: int, device: str = "GPU-0", *, epoch: int = 1) -> Assignment:
    """A workload that sleeps on a whole device."""
    wanted = assignment(number, "sleep", epoch=epoch)
    run = replace(wanted.revisions[0].runs[0], shares=((Share(device, whole=True),),))
    return replace(wanted, revisions=(replace(wanted.revisions[0], runs=(run,)),))


def refusals(told: Told) -> list[Refuse]:
    return [report.refusal for report in told.of(RefusalReport) if isinstance(report, RefusalReport)]


@pytest.mark.parametrize("forgetful", [False, True])
async def test_a_device_that_is_held_is_refused_with_the_reason_and_tried_until_it_is_free(
    monkeypatch: pytest.MonkeyPatch, forgetful: bool
) -> None:
    monkeypatch.setattr(agenda, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(agenda, "_LONGEST_RETRY", 0.05)
    fake, told = FakeBackend(), Told()
    async with running(Forgetful(fake) if forgetful else fake, told) as agent:
        agent.take(on_device(1))
        await until(lambda: told.states(1) == ["READY"])
        agent.take(on_device(2))
        agent.take(on_device(3, "GPU-1"))
        await until(lambda: told.states(3) == ["READY"])
        await until(lambda: refusals(told))
        (refusal,) = refusals(told)
        assert (refusal.workload_id, refusal.code, refusal.node) == (workload_id(2), RefusalCode.DEVICE_IN_USE, "n-0")
        assert "device GPU-0 is still held by replica w-" in refusal.message
        assert refusal.retry_after > 0, "0 would end the workload for good"
        case = agent.agenda.case(workload_id(2))
        await until(lambda: case.tries > 3)
        assert len(fake.starts) == 2
        agent.take(release(1))
        await until(lambda: told.states(2) == ["READY"])
        assert len(refusals(told)) == 1, "told once a run"
        await until(lambda: told.states(1)[-1] == "GONE")  # the device is free a moment earlier
    assert list(fake.starts.values()) == [1, 1, 1]


async def test_what_an_agent_finds_holds_its_device_and_late_records_of_an_old_term_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agenda, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(agenda, "_LONGEST_RETRY", 0.05)
    fake, told = FakeBackend(), Told()
    async with running(fake, told) as agent:
        agent.take(on_device(1))
        await until(lambda: told.states(1) == ["READY"])
    told = Told()
    async with running(fake, told) as agent:  # another instance was adopted meanwhile: of workload 1 there is no record
        agent.take(on_device(2, epoch=7))
        await until(lambda: [refusal.workload_id for refusal in refusals(told)] == [workload_id(2)])
        assert agent.take(release(1, epoch=6)) is Taken.REFUSED
        assert agent.take(on_device(3, epoch=6)) is Taken.REFUSED
        case = agent.agenda.case(workload_id(2))
        await until(lambda: case.tries > 3)
        assert list(fake.starts.values()) == [1]
        agent.take(release(1, epoch=7))
        await until(lambda: told.states(2) == ["READY"])
    assert list(fake.starts.values()) == [1, 1]


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
    fake, told = FakeBackend(deadline=840.0), Told()
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
    (beat,) = told.of(BeatReport)
    assert isinstance(beat, BeatReport)
    assert beat.dead_man == 840.0


class Keeper:
    """Hands out credentials, after it has refused to so many times."""

    def __init__(self, refusals: int, **values: str) -> None:
        self.refusals = refusals
        self.values = values
        self.asked: list[str] = []

    async def of(self, workload: str) -> dict[str, str]:
        self.asked.append(workload)
        if len(self.asked) <= self.refusals:
            raise SecretsError("submission is away")
        return {SEALED + name: value for name, value in self.values.items()}


def with_token(number: int, reference: str) -> Assignment:
    wanted = assignment(number)
    env = (("PLAIN", "as it is"), ("JUPYTER_TOKEN", SEALED + reference))
    revision = replace(wanted.revisions[0], template=replace(wanted.revisions[0].template, env=env))
    return replace(wanted, revisions=(revision,))


async def test_credentials_are_fetched_for_a_start_and_for_nothing_else() -> None:
    told, keeper = Told(), Keeper(2, token="tok")
    made: list[ReplicaPlan] = []

    class Seen(FakeBackend):
        async def act(self, action: BackendAction) -> Answer:
            if isinstance(action, Create):
                made.append(action.plan)
            return await super().act(action)

    fake = Seen()
    async with running(fake, told, secrets=keeper) as agent:
        agent.take(with_token(1, "token"))
        agent.take(assignment(2))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"], within=30)
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
    assert keeper.asked == [workload_id(1)] * 3
    sealed = [(plan.env, plan.credentials) for plan in made if plan.workload_id == workload_id(1)]
    assert sealed == [((("PLAIN", "as it is"),), (("JUPYTER_TOKEN", "tok"),))]
    assert all(SEALED not in value for plan in made for _, value in plan.env)


async def test_a_replica_without_its_credential_is_not_started() -> None:
    fake, told, keeper = FakeBackend(), Told(), Keeper(0, other="x")
    async with running(fake, told, secrets=keeper) as agent:
        agent.take(with_token(1, "token"))
        await until(lambda: len(keeper.asked) > 1, within=30)
        assert not fake.starts
    async with running(fake, told) as deaf:
        deaf.take(with_token(1, "token"))
        deaf.take(assignment(2))
        await until(lambda: told.states(2) == ["SUCCEEDED", "GONE"])
    assert list(fake.starts.values()) == [1]


async def test_many_actions_that_fail_at_once_are_one_try() -> None:
    class Deaf(FakeBackend):
        asked = 0

        async def act(self, action: BackendAction) -> Answer:
            self.asked += 1
            return Answer(Outcome.UNKNOWN, "no answer")

    fake, told = Deaf(), Told()
    one = assignment(1)
    many = replace(one.revisions[0], pattern=Pattern.TRIALS, runs=(Run("worker", 0, 5, "n-0"),))
    async with running(fake, told) as agent:
        agent.take(replace(one, revisions=(many,)))
        await until(lambda: fake.asked == 5)
        assert agent.agenda.case(workload_id(1)).tries <= 1
        await until(lambda: fake.asked >= 10)  # it is tried again


async def test_a_back_end_that_does_not_answer_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Away(FakeBackend):
        closes = 0

        async def close_runs(self, workload_id: str, run: RunKey) -> None:
            self.closes += 1
            if self.closes < 3:
                raise BackendError("the API server does not answer")

    fake, told = Away(), Told()
    async with running(fake, told) as agent:
        agent.take(assignment(1))
        await until(lambda: told.states(1) == ["SUCCEEDED", "GONE"])
        agent.take(release(1))
        await until(lambda: fake.closes == 3)
    assert "Traceback" not in caplog.text
