"""B8, B9, B10, B12: a locked table, a missing topic, odd workloads and stopped consumers must not stop others."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Final

import asyncpg
import grpc

from muster.api.v1 import dead_letters_pb2, fleet_pb2
from muster.api.v1.dead_letters_pb2_grpc import DeadLettersServiceStub
from muster.api.v1.fleet_pb2_grpc import FleetServiceStub
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_chassis.rpc import channel
from muster_client import Muster, MusterError
from muster_stack.postgres import PostgresServer
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

_SECONDS: Final = 5.0
_LOCKED_SECONDS: Final = 6.0
_SLOW: Final = (
    "tests/rules/test_rule_11_time_is_never_poison.py::test_without_patience_good_records_become_dead_letters"
)
_TOPIC: Final = "tests/rules/test_rule_02_topics_wait_alone.py::test_sent_in_order_alone_it_holds_up_all"
_CYCLE: Final = "tests/rules/test_rule_12_one_bad_workload.py::test_without_the_containment_nobody_is_placed"
_RESUME: Final = "tests/rules/test_rule_11_resuming.py::test_without_the_resumption_it_stops_again_at_once"
_MISSING: Final = "muster.clusters.nowhere.assignments"
_STAGED: Final = """
SELECT append_outbox(ARRAY[$1::uuid], ARRAY[1::smallint], ARRAY[$2::text], ARRAY[$3::text], ARRAY[false],
                     ARRAY[''::bytea], ARRAY['attack'], ARRAY[NULL::text], ARRAY[''::bytea], ARRAY[NULL::text], now())
"""


async def _connect(stage: Stage, role: str) -> asyncpg.Connection:
    return await asyncpg.connect(PostgresServer.of(stage.layout).url(role))


async def _dead(stage: Stage) -> int:
    async with Muster(stage.grpc, stage.admin_token) as muster:
        return int((await muster.dead_letters.list()).total)


async def _locked_table(stage: Stage) -> Verdict:
    """An index is built on a large table: writes wait for seconds, while workloads come."""
    before = await _dead(stage)
    connection = await _connect(stage, "policy")
    try:
        await connection.execute("BEGIN")
        await connection.execute("LOCK TABLE policy.inbox IN SHARE MODE")
        waits = asyncio.create_task(stage.run_replica("print('it ran')"))
        await asyncio.wait({waits}, timeout=_LOCKED_SECONDS)
        await connection.execute("ROLLBACK")
    finally:
        await connection.close()
    log, dead = await waits, await _dead(stage) - before
    if dead or "it ran" not in log:
        return broken(f"{dead} good records became dead letters")
    return held(f"a table was locked for {_LOCKED_SECONDS:g} s: no dead letters, and what came meanwhile ran")


async def _missing_topic(stage: Stage) -> Verdict:
    """A record is due for a cluster whose topic is missing; the workloads of other clusters have to start."""
    connection = await _connect(stage, "scheduler")
    try:
        await connection.execute(_STAGED, str(uuid.uuid4()), _MISSING, "attack")
        began = time.monotonic()
        log = await stage.run_replica("print('it ran')")
        seconds = time.monotonic() - began
        await connection.execute("DELETE FROM outbox WHERE topic = $1", _MISSING)
    finally:
        await connection.close()
    said = f"a workload of another cluster ran {seconds:.1f} s after it was submitted"
    return held(said) if "it ran" in log else broken(said)


async def _odd_workloads(stage: Stage) -> Verdict:
    """Workloads at the edges of what may be asked for; the scheduler has to go on with the others."""
    odd = (
        wl.WorkloadSpec(parallelism=2**31 - 1, completions=2**31 - 1),
        wl.WorkloadSpec(gpu_devices_request=2**31 - 1),
        wl.WorkloadSpec(parallelism=1_000_000, gpu_devices_request=1),
    )
    refused = 0
    async with Muster(stage.grpc, stage.tokens[Actor.RESEARCHER]) as muster:
        for spec in odd:
            spec.kind, spec.name, spec.command = options_pb2.KIND_TRAINING, f"b10-{uuid.uuid4().hex[:8]}", "true"
            try:
                await muster.submit(spec, project=stage.project)
            except MusterError:
                refused += 1
    log = await stage.run_replica("print('it ran')")
    said = f"{refused} of {len(odd)} odd workloads were refused"
    return held(f"{said}; the next one ran") if "it ran" in log else broken(f"{said}; the next one did not run")


async def _releases(stage: Stage) -> Verdict:
    """A viewer reads traces of the scheduler and lets workloads in again that were set aside."""
    metadata = tuple(stage.headers(Actor.VIEWER).items())
    async with channel(stage.grpc) as opened:
        stub = FleetServiceStub(opened)
        calls = (
            lambda: stub.ListQuarantine(fleet_pb2.ListQuarantineRequest(), metadata=metadata, timeout=_SECONDS),
            lambda: stub.ReleaseQuarantine(
                fleet_pb2.ReleaseQuarantineRequest(idempotency_key=str(uuid.uuid4())),
                metadata=metadata,
                timeout=_SECONDS,
            ),
        )
        for call in calls:
            try:
                await call()
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                    continue
                raise
            return broken("a viewer reached the quarantine")
    return held("PERMISSION_DENIED for the list and for the release")


async def _resumes(stage: Stage) -> Verdict:
    """A viewer switches off what stops a poisoned consumer, for a billion records."""
    metadata = tuple(stage.headers(Actor.VIEWER).items())
    connection = await _connect(stage, "submission")
    try:
        async with channel(stage.grpc) as opened:
            asked = dead_letters_pb2.ResumeConsumerRequest(
                service="submission", count=10**9, idempotency_key=str(uuid.uuid4())
            )
            try:
                await DeadLettersServiceStub(opened).ResumeConsumer(asked, metadata=metadata, timeout=_SECONDS)
            except grpc.aio.AioRpcError as error:
                refused = error.code().name
            else:
                refused = "OK"
        begun = await connection.fetchval("SELECT count(*) FROM resumptions")
    finally:
        await connection.close()
    said = f"{refused}, {begun} resumptions were begun"
    return held(said) if refused == "PERMISSION_DENIED" and not begun else broken(said)


ATTACKS: Final = (
    Attack("B8", "table-is-locked-while-records-come", Actor.LOOPBACK, _locked_table, _SLOW),
    Attack("B9", "topic-of-one-cluster-is-missing", Actor.LOOPBACK, _missing_topic, _TOPIC),
    Attack("B10", "workloads-at-the-edges", Actor.RESEARCHER, _odd_workloads, _CYCLE),
    Attack("B10", "viewer-releases-the-quarantine", Actor.VIEWER, _releases, _CYCLE),
    Attack("B12", "viewer-resumes-a-consumer", Actor.VIEWER, _resumes, _RESUME),
)
