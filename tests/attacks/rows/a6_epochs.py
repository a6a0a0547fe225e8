"""A6: the agent of a cluster, or who has its password, tells of an epoch that would make the leader step down."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import UTC, datetime
from functools import partial
from typing import Final

from google.protobuf.message import DecodeError

from muster.events.v1 import agent_pb2
from muster.fleet.v1 import fleet_pb2
from muster_chassis.codec import encode_headers
from muster_chassis.numbers import LEAP
from muster_chassis.topics import assignments, reports
from muster_kernel.ids import uuid7
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.bus import agent_login, clusters, quietly, read, write
from tests.attacks.stage import Stage

PATIENCE = 8.0  # seconds; a leader that steps down writes every record again within two


async def _records(stage: Stage, cluster: str) -> list[fleet_pb2.Assignment]:
    """The scheduler's own: each names the instance that is bound, which what other attacks have written does not."""
    found, _ = await read(agent_login(stage, cluster), assignments(cluster).name)
    made = []
    for value in found:
        try:
            made.append(fleet_pb2.Assignment.FromString(value))
        except DecodeError:
            continue
    return [record for record in made if record.agent_instance]


async def _busy(stage: Stage) -> tuple[str, fleet_pb2.Assignment]:
    """A cluster with work, and the record of the highest epoch there."""
    for cluster in clusters(stage):
        if records := await _records(stage, cluster):
            return cluster, max(records, key=lambda record: record.epoch)
    raise RuntimeError("no cluster has work: a takeover would not be seen")


async def _tell(stage: Stage, cluster: str, instance: str, epoch: int) -> str:
    """Sends AssignmentsHeld as that instance; why it was not taken, or an empty text."""
    order = agent_pb2.ReportOrder(cluster=cluster, instance=instance, start=0, sequence=1)
    order.observed_at.FromNanoseconds(time.time_ns())
    message = agent_pb2.AssignmentsHeld(order=order, highest_epoch=epoch)
    headers = encode_headers(
        event_id=uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10)),
        event_type=message.DESCRIPTOR.full_name,
        source=f"agent/{cluster}",
        aggregate=cluster,
        version=0,
        time=datetime.now(UTC),
        traceparent=None,
    )
    topic = reports(cluster).name
    return await write(agent_login(stage, cluster), topic, message.SerializeToString(), cluster, headers)


async def _deposes(stage: Stage, instance: str, beyond: int) -> Verdict:
    """Judged by the records of a new term on the cluster's topic."""
    with quietly():
        cluster, record = await _busy(stage)
        why = await _tell(stage, cluster, instance or record.agent_instance, record.epoch + beyond)
        if why:
            return broken(f"the report could not be sent, so nothing was tried: {why}")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            await asyncio.sleep(0.5)
            after = max(each.epoch for each in await _records(stage, cluster))
            if after > record.epoch:
                return broken(f"the leader of epoch {record.epoch} stepped down; the next one leads {after}")
    return held(f"epoch {record.epoch} goes on")


STRANGER: Final = "tests/rules/test_attacks_bus.py::test_any_instance_deposes_the_leader_where_none_is_bound"
BEYOND: Final = "tests/rules/test_attacks_bus.py::test_any_epoch_deposes_the_leader_where_no_bound_is_set"
ATTACKS: Final = (
    Attack(
        "A6",
        "epoch-from-an-unbound-instance",
        Actor.LOOPBACK,
        partial(_deposes, instance="attacker", beyond=1000),
        STRANGER,
    ),
    Attack(
        "A6",
        "epoch-far-beyond-from-the-bound-instance",
        Actor.LOOPBACK,
        partial(_deposes, instance="", beyond=2 * LEAP),
        BEYOND,
    ),
)
