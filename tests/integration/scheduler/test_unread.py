"""A takeover while the reports of one cluster cannot be read: the others are decided for (rule 5)."""

from __future__ import annotations

import pytest
from aiokafka import TopicPartition

from muster.events.v1 import scheduler_pb2, submission_pb2
from muster.workload.v1 import workload_pb2 as w
from muster_chassis import consumer
from muster_chassis.topics import reports
from muster_stack.fixtures import TestDatabase
from tests.integration.scheduler.test_leading import register
from tests.support.offline import without_leader
from tests.support.scheduling import Neighbours, neighbours, scheduler
from tests.support.waiting import until

SOUTH = reports("south")


async def test_a_cluster_whose_reports_cannot_be_read_holds_up_no_other(
    kafka: str, database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database.url("scheduler")
    monkeypatch.setattr(consumer, "_OFFLINE_SECONDS", 1.0)
    async with neighbours(kafka, "north") as others:
        async with scheduler(url, kafka) as candidate:
            await register(candidate, others, "north")
            await register(candidate, others, "south")
        offline = without_leader(monkeypatch)
        offline |= {TopicPartition(SOUTH.name, number) for number in range(SOUTH.partitions)}
        async with scheduler(url, kafka):
            first = await others.admit("first", devices=8)
            await until(lambda: placed(others, first))
            second = await others.admit("second", devices=8)
            await until(lambda: others.phases(second)[-1:] == [w.PHASE_PENDING])
            await others.ask(submission_pb2.SuspendRequested, second)
            await until(lambda: others.phases(second)[-1:] == [w.PHASE_STOPPED])
            third = await others.admit("third", devices=8)
            offline.clear()
            await until(lambda: placed(others, third))
    assert placed(others, first) == "north"
    assert placed(others, second) == "", "nothing was heard of south"
    assert placed(others, third) == "south"


def placed(others: Neighbours, workload: str) -> str:
    """Return the cluster in which a workload was placed; empty: it was not."""
    found = others.said(workload, scheduler_pb2.WorkloadPlaced)
    return found[-1].cluster if found else ""
