"""A workload through the scheduler on the real Kafka and PostgreSQL: from the admission to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from muster.api.v1 import explain_pb2, explain_pb2_grpc, fleet_pb2, fleet_pb2_grpc
from muster.events.v1 import agent_pb2, policy_pb2, scheduler_pb2, submission_pb2
from muster.fleet.v1 import fleet_pb2 as fleet
from muster.workload.v1 import workload_pb2 as w
from muster_chassis.rpc import ServiceName
from muster_chassis.topics import ADMISSIONS, reports
from muster_stack.fixtures import TestDatabase
from tests.support.identities import channel_to
from tests.support.scheduling import Candidate, Neighbours, neighbours, scheduler
from tests.support.waiting import eventually, until


class Road:
    """A scheduler, its neighbours and a channel to it."""

    def __init__(self, candidate: Candidate, others: Neighbours, channel: grpc.aio.Channel) -> None:
        self.candidate = candidate
        self.others = others
        self.fleet = fleet_pb2_grpc.FleetServiceStub(channel)
        self.explain = explain_pb2_grpc.ExplainServiceStub(channel)

    async def register(self, cluster: str = "north", devices: int = 8) -> None:
        """A cluster with one node."""
        request = fleet_pb2.RegisterClusterRequest(cluster=cluster, idempotency_key=f"register-{cluster}")
        await self.fleet.RegisterCluster(request, wait_for_ready=True)
        await self.others.inventory(cluster, devices)

    async def placed(self, workload: str) -> fleet.Assignment:
        """Waits for the record."""
        await until(lambda: self.others.last_record(workload) is not None)
        record = self.others.last_record(workload)
        assert record is not None
        return record

    async def phase(self, workload: str, phase: int) -> None:
        """Waits for a phase."""
        await until(lambda: self.others.phases(workload)[-1:] == [phase])


@pytest_asyncio.fixture
async def road(kafka: str, database: TestDatabase) -> AsyncIterator[Road]:
    """The road of one test; retries while the candidate is not leading yet."""
    async with neighbours(kafka, "north") as others, scheduler(database.url("scheduler"), kafka) as candidate:
        address = candidate.runtime.settings.grpc_listen  # type: ignore[attr-defined]
        async with channel_to(ServiceName.SCHEDULER, address) as channel:
            made = Road(candidate, others, channel)

            async def leads() -> bool:
                try:
                    await made.fleet.ListClusters(fleet_pb2.ListClustersRequest())
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                    return False
                return True

            await eventually(leads)
            yield made


async def test_a_departments_limit_binds_and_its_end_lets_go(road: Road) -> None:
    await road.register()
    await road.others.department("d", limit=2)
    await road.others.project("p")
    await road.others.project("q")
    first = await road.others.admit("first", devices=2, project="p")
    await road.placed(first)
    second = await road.others.admit("second", devices=1, project="q")
    await until(
        lambda: any(isinstance(e, scheduler_pb2.WorkloadWaiting) for e in road.others.decisions.get(second, []))
    )
    (told,) = [e for e in road.others.decisions[second] if isinstance(e, scheduler_pb2.WorkloadWaiting)]
    assert told.explanation.reason.code == "OverLimit"
    assert told.explanation.reason.message == "its department is at its limit"  # figures are for readers with rights
    await road.others.department("d", None)
    await road.placed(second)


async def test_a_training_from_admission_to_its_end(road: Road) -> None:
    await road.register()
    await road.others.project()
    workload = await road.others.admit("hello")
    record = await road.placed(workload)
    assert record.epoch >= 1
    assert record.agent_instance == "agent-1"
    assert record.revisions[0].spec.command == "true"
    assert record.revisions[0].runs[0].devices[0].shares[0].whole
    assert len(record.revisions[0].runs[0].devices[0].shares[0].device) == 16
    assert road.others.phases(workload) == [w.PHASE_PENDING, w.PHASE_INITIALIZING]
    assert len(road.others.said(workload, scheduler_pb2.WorkloadPlaced)) == 1
    await road.others.status("north", record, fleet.REPLICA_STATE_STARTING)
    await road.others.status("north", record, fleet.REPLICA_STATE_READY)
    await road.phase(workload, w.PHASE_RUNNING)
    await road.others.status("north", record, fleet.REPLICA_STATE_SUCCEEDED, 0)
    await road.phase(workload, w.PHASE_COMPLETED)
    await until(lambda: road.others.records[workload][-1][0] is None)
    headers = road.others.records[workload][-1][1]
    assert (headers["generation"], headers["attempt"], headers["reason"]) == ("1", "1", "Succeeded")
    await road.others.status("north", record, fleet.REPLICA_STATE_GONE, 0)

    async def free() -> float:
        answer = await road.fleet.ListClusters(fleet_pb2.ListClustersRequest())
        return float(answer.clusters[0].free_devices)

    assert await eventually(free, lambda seen: seen == 8) == 8


async def test_why_nodes_and_intents(road: Road) -> None:
    await road.register(devices=2)
    await road.others.project()
    large = await road.others.admit("large", devices=4)
    await until(lambda: road.others.said(large, scheduler_pb2.WorkloadWaiting))
    answer = await road.explain.Why(explain_pb2.WhyRequest(project="p", name="large"))
    assert answer.explanation.reason.code == "TooLarge"
    assert answer.explanation.reason.message == "needs 4 GPUs on one node; the largest node has 2"
    assert answer.explanation.asks == "4 GPUs"
    (excluded,) = answer.explanation.excluded
    assert (excluded.constraint, excluded.nodes, excluded.text) == ("TooFewGpus", 1, "has too few GPUs")
    assert answer.explanation.unblockers[0] == "it asked for at most 2 GPUs on one node"
    one, two = await road.others.admit("one"), await road.others.admit("two", devices=2)
    record = await road.placed(one)
    await until(lambda: road.others.said(two, scheduler_pb2.WorkloadWaiting))
    everything = explain_pb2.Readable(everything=True)
    answer = await road.explain.Why(explain_pb2.WhyRequest(workload_id=two, readable=everything))
    assert answer.explanation.reason.code == "NoCapacity"
    assert any("one (1 GPU" in line for line in answer.explanation.unblockers)
    answer = await road.explain.Why(explain_pb2.WhyRequest(workload_id=two))
    assert any("a workload of another project" in line for line in answer.explanation.unblockers)
    assert not any("1 GPU" in line for line in answer.explanation.unblockers)
    nodes = await road.fleet.ListNodes(fleet_pb2.ListNodesRequest(cluster="north"))
    assert [list(device.workloads) for device in nodes.nodes[0].devices] == [["one"], []]
    await road.others.ask(submission_pb2.SuspendRequested, one)
    await road.phase(one, w.PHASE_STOPPING)
    await road.others.status("north", record, fleet.REPLICA_STATE_GONE)
    await road.phase(one, w.PHASE_STOPPED)
    await road.placed(two)
    await road.others.ask(submission_pb2.ResumeRequested, one)
    await road.phase(one, w.PHASE_RESUMING)
    await road.others.ask(submission_pb2.DeletionRequested, one)
    await road.phase(one, w.PHASE_DELETED)


async def test_what_if_tells_what_would_be_done_and_does_nothing(road: Road) -> None:
    await road.register(devices=2)
    await road.others.project()
    low = await road.others.admit("low", devices=2, priority=10)
    record = await road.placed(low)
    await road.others.status("north", record, fleet.REPLICA_STATE_READY)
    await road.phase(low, w.PHASE_RUNNING)
    high = road.others.admission("high", priority=90)
    late = road.others.admission("late", devices=2, priority=10)
    answer = await road.explain.WhatIf(explain_pb2.WhatIfRequest(admitted=[high, late]))
    first, second = answer.prospects
    assert (first.name, first.outlook, first.cluster) == ("high", explain_pb2.OUTLOOK_STARTS_AFTER, "north")
    assert [(each.node, each.replicas) for each in first.nodes] == [("n1", 1)]
    assert [(each.name, each.by) for each in answer.displaced] == [("low", 1)]
    assert (second.outlook, bool(second.explanation.reason.message)) == (explain_pb2.OUTLOOK_WAITS, True)
    assert not answer.unfinished
    again = await road.explain.WhatIf(explain_pb2.WhatIfRequest(admitted=[high, late]))
    assert (again.prospects[0], again.displaced) == (answer.prospects[0], answer.displaced)
    why = await road.explain.Why(explain_pb2.WhyRequest(workload_id=low))
    assert why.explanation.phase == w.PHASE_RUNNING
    for wrong in ([], [high] * 101, [policy_pb2.WorkloadAdmitted(workload_id="x")], [road.others.admission("x")] * 2):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await road.explain.WhatIf(explain_pb2.WhatIfRequest(admitted=wrong))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    await road.others.send(ADMISSIONS.name, high.workload_id, high)
    await until(lambda: road.others.said(low, scheduler_pb2.WorkloadPreempted))


async def test_poison_does_not_block(road: Road) -> None:
    await road.register()
    await road.others.project()
    await road.others._producer.send_and_wait(reports("north").name, b"\xff\x00garbage", b"x", headers=[])
    workload = await road.others.admit("after")
    await road.placed(workload)


async def test_forged_reports_freeze_no_workload(road: Road) -> None:
    await road.register()
    await road.others.project()
    workload = await road.others.admit("target")
    record = await road.placed(workload)
    await road.others._producer.send_and_wait(
        reports("north").name, b"\xffgarbage", workload.encode(), headers=[("ce_subject", workload.encode())]
    )
    forged = agent_pb2.ReplicaStatusChanged(
        order=road.others.order("north", start=(1 << 63) + 9), workload_id=workload, generation=1, attempt=1
    )
    await road.others.report("north", workload, forged)
    await road.others.ask(submission_pb2.SuspendRequested, workload)
    await road.phase(workload, w.PHASE_STOPPING)
    await road.others.status("north", record, fleet.REPLICA_STATE_GONE)
    await road.phase(workload, w.PHASE_STOPPED)
