"""A5: a writer on a cluster's assignments topic tells its agent what to run."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from muster.events.v1 import dead_letter_pb2
from muster.fleet.v1 import fleet_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_chassis import kafka
from muster_chassis.broker import Broker, Security
from muster_chassis.key_files import PrivateKey, read_private
from muster_chassis.rpc import ServiceName
from muster_chassis.signatures import KEY, RecordSigner
from muster_chassis.topics import assignments
from muster_kernel.ids import uuid7
from muster_stack import identities
from muster_stack.layout import Layout
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.bus import judge, read
from tests.attacks.stage import Stage

_CLUSTER: Final = "alpha"
_LOOK_SECONDS: Final = 15.0
_POLL_SECONDS: Final = 0.3
_PROOF: Final = "tests/rules/test_attacks_assignments.py::test_without_the_signature_a_forged_assignment_runs"


@dataclass(frozen=True, slots=True)
class Forged:
    """A record as an attacker writes it."""

    key: str
    value: bytes
    headers: list[tuple[str, bytes]]


def copied_source(layout: Layout, mark: Path) -> Forged:
    """Only the header that says `scheduler`, as it was enough before."""
    return _unsigned(mark)


def signed_by_a_stranger(layout: Layout, mark: Path) -> Forged:
    """A signature by a key of the attacker's, under the id of the scheduler's."""
    own = mark.with_suffix(".key")
    identities.write_private(own, Ed25519PrivateKey.generate())
    signer = RecordSigner(PrivateKey(own, read_private))
    own.unlink()
    record = _signed(_unsigned(mark), signer, _CLUSTER)
    real = identities.current(layout, identities.SIGNING).encode()
    return replace(record, headers=[(name, real if name == KEY else text) for name, text in record.headers])


def of_another_cluster(layout: Layout, mark: Path) -> Forged:
    """A record that the scheduler really signed, for another cluster's topic."""
    signer = RecordSigner(PrivateKey(identities.assignments_key(layout), read_private))
    return _signed(_unsigned(mark), signer, "another")


FORGERIES: Final = (copied_source, signed_by_a_stranger, of_another_cluster)


def _unsigned(mark: Path) -> Forged:
    workload = uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, command=f"touch {mark}")
    run = fleet_pb2.ReplicaRun(role="worker", count=1, node=f"{_CLUSTER}-0")
    revision = fleet_pb2.Revision(generation=1, attempt=1, spec=spec, runs=[run])
    made = fleet_pb2.Assignment(
        workload_id=workload, epoch=1000, project="vision", name="forged", grace_seconds=1, revisions=[revision]
    )
    return Forged(workload, made.SerializeToString(), [("ce_source", b"scheduler")])


def _signed(record: Forged, signer: RecordSigner, cluster: str) -> Forged:
    more = signer.headers(assignments(cluster).name, record.key.encode(), record.value, record.headers)
    return replace(record, headers=[*record.headers, *more])


async def _written(stage: Stage, forge: Callable[[Layout, Path], Forged]) -> Verdict:
    """Writes the record as the scheduler's user of Kafka: the attack begins where access lists have failed."""
    mark = Path(tempfile.gettempdir()) / f"forged-{uuid.uuid4().hex}"
    record = forge(stage.layout, mark)
    password = stage.layout.bus_identities / ServiceName.SCHEDULER
    broker = Broker(stage.bootstrap, Security.SASL_PLAINTEXT, ServiceName.SCHEDULER, password)
    producer = kafka.producer(broker, client="attack")
    try:
        await producer.start()
        topic = assignments(_CLUSTER).name
        await producer.send_and_wait(topic, record.value, record.key.encode(), headers=record.headers)
    except KafkaError as error:
        return held(f"Kafka refused the record: {error!r}")
    finally:
        await kafka.stop(producer)
    return await _judged(stage, record.key.encode(), mark)


async def _judged(stage: Stage, key: bytes, mark: Path) -> Verdict:
    """By what the command would have left, and by the dead letter which shows that the agent has seen the record."""
    end = time.monotonic() + _LOOK_SECONDS
    while time.monotonic() < end:
        if await asyncio.to_thread(mark.exists):
            await asyncio.to_thread(mark.unlink)
            return broken("the agent ran a command that no scheduler had placed")
        for value in (await read(judge(stage), "muster.dead-letters"))[0]:
            letter = dead_letter_pb2.DeadLettered.FromString(value)
            if letter.key == key:
                return held(f"the record is a dead letter: {letter.reason[:120]}")
        await asyncio.sleep(_POLL_SECONDS)
    return broken(f"the agent said nothing about the record within {_LOOK_SECONDS:.0f} s, so nothing is proven")


ATTACKS: Final = tuple(
    Attack(
        "A5", f"assignment-{forge.__name__.replace('_', '-')}", Actor.LOOPBACK, partial(_written, forge=forge), _PROOF
    )
    for forge in FORGERIES
)
