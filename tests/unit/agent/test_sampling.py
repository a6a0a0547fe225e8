"""Use is told of every replica, in records that are bounded, whatever the bus and the agent go through."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.events.v1 import agent_pb2
from muster_cluster_agent.adapters import encode
from muster_cluster_agent.domain.usage import (
    GRID,
    LONGEST,
    MOST,
    Sample,
    batches,
    boundary,
    encoded_size,
    intervals,
)
from muster_cluster_agent.ports import SampleReport
from muster_cluster_agent.sampling import BATCH_BYTES, REMEMBERED, REWIND
from muster_telemetry.domain.accounts import LONGEST as LONGEST_TAKEN
from muster_telemetry.domain.accounts import SECOND
from tests.support.usage import START, UsageRoad

DAY = 86400.0


def test_intervals_end_on_the_grid_and_where_the_use_ends() -> None:
    assert intervals(1.0, None, 0.0, 2 * GRID + 1) == [(1.0, 2 * GRID)]
    assert intervals(1.0, 20.0, GRID, 100.0) == [(GRID, 20.0)]
    assert intervals(1.0, 20.0, 20.0, 100.0) == []
    assert intervals(1.0, None, 0.0, 5.0) == []


def test_long_use_is_cut_into_what_telemetry_takes() -> None:
    found = intervals(1.0, None, 0.0, 3 * DAY)
    assert (found[0][0], found[-1][1], len(found)) == (1.0, 3 * DAY, 6)
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert LONGEST * SECOND < LONGEST_TAKEN
    assert len(intervals(0.0, None, 0.0, 1e12)) == MOST, "a clock that is off makes no millions"


def test_a_clock_that_was_set_back_tells_again_from_the_start() -> None:
    assert intervals(1.0, None, 9000.0, 100.0) == [(1.0, boundary(100.0))]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SAMPLES = st.builds(
    Sample,
    workload_id=TEXTS,
    generation=st.integers(0, (1 << 64) - 1),
    attempt=st.integers(0, (1 << 32) - 1),
    replica=TEXTS,
    project=TEXTS,
    name=TEXTS,
    since=st.floats(0, 2e11),
    until=st.floats(0, 2e11),
    charge=st.integers(0, (1 << 64) - 1),
    devices=st.lists(TEXTS, max_size=4).map(tuple),
)


@given(st.lists(SAMPLES, max_size=8), st.integers(100, 2000))
def test_records_are_bounded_by_bytes(samples: list[Sample], limit: int) -> None:
    parts = list(batches(samples, limit))
    assert [sample for part in parts for sample in part] == samples
    for part in parts:
        message = encode.message(SampleReport(part), agent_pb2.ReportOrder(), "")
        assert message.ByteSize() <= sum(map(encoded_size, part))
        assert len(part) == 1 or message.ByteSize() <= limit


async def test_every_replica_of_a_large_cluster_is_accounted_in_each_round() -> None:
    road, replicas = UsageRoad(), 20_000
    for number in range(replicas):
        road.start(number)
    for _ in range(2):
        road.now += 60.0
        await road.sampler.round()
        assert 0 < len(road.queued) < replicas / 100, "records, not replicas"
        largest = max(len(encode.message(r, agent_pb2.ReportOrder(), "").SerializeToString()) for r in road.queued)
        assert largest <= BATCH_BYTES
        road.deliver()
    expected = boundary(road.now) - START
    assert {road.telemetry.seconds(number) for number in range(replicas)} == {expected}


async def test_a_bus_that_is_away_for_days_costs_no_memory_and_no_hour() -> None:
    road = UsageRoad()
    for number in range(3):
        road.start(number)
    for _ in range(1000):
        road.now += 300.0
        await road.sampler.round()
    assert len(road.queued) == 1
    road.reconnect()
    await road.sampler.round()
    road.deliver()
    assert road.telemetry.seconds(0) == boundary(road.now) - START


@pytest.mark.parametrize("away", [2 * 3600.0, 3 * DAY, REMEMBERED + DAY])
async def test_an_agent_that_was_away_tells_what_it_has_missed(away: float) -> None:
    road = UsageRoad()
    road.start(0)
    road.now += 7200.0
    await road.sampler.round()
    road.deliver()
    await road.sampler.round()
    assert road.kept == boundary(road.now)
    if away > REMEMBERED:
        road.telemetry.covered.clear()  # it forgets replicas that it has not heard of for so long
    road.now += away
    road.restart()
    await road.sampler.round()
    road.deliver()
    assert road.telemetry.seconds(0) == boundary(road.now) - START


async def test_what_a_wiped_bus_had_acknowledged_is_told_again() -> None:
    road = UsageRoad()
    road.start(0)
    road.now += 3 * REWIND
    await road.sampler.round()
    road.deliver()
    road.now += REWIND / 2
    await road.sampler.round()
    (lost,) = road.queued
    road.sampler.acknowledged(lost)
    await road.sampler.round()
    road.reconnect()
    road.now += 100.0
    await road.sampler.round()
    road.deliver()
    assert road.telemetry.seconds(0) == boundary(road.now) - START


async def test_what_ends_is_told_before_its_release() -> None:
    road = UsageRoad()
    road.start(0)
    road.now += 7.0
    road.end(0)
    road.remove(0)
    assert road.telemetry.seconds(0) == 7.0
    road.now += 100.0
    await road.sampler.round()
    road.deliver()
    assert road.telemetry.seconds(0) == 7.0


async def test_what_ends_while_a_round_is_under_way_is_told_to_its_end_alone() -> None:
    road, last = UsageRoad(), 4000
    for number in range(last + 1):
        road.start(number)
    road.now = boundary(START) + 61.0
    round_under_way = asyncio.create_task(road.sampler.round())
    await asyncio.sleep(0)
    assert road.queued, "the first replicas are told, the last one is not"
    ended = boundary(road.now) - 3.0
    road.sampler.ended(replace(road.backend.replicas[f"r{last}"], gone=True, gone_at=ended))
    await round_under_way
    road.deliver()
    assert road.telemetry.seconds(last) == ended - START
    assert road.telemetry.seconds(0) == boundary(road.now) - START


async def test_a_full_disk_ends_no_sampler() -> None:
    road = UsageRoad()
    road.start(0)

    async def full(_: float) -> None:
        raise OSError(28, "No space left on device")

    road.sampler._keep = full
    for _ in range(3):
        road.now += 20.0
        await road.sampler.round()
        road.deliver()
    assert road.telemetry.seconds(0) == boundary(road.now) - START
