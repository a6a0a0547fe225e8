"""B5, B6, B7, B11: too many streams, half-sent and undecodable requests, streams that end in the middle."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, Final

from grpc_health.v1 import health_pb2, health_pb2_grpc

from muster.api.v1 import access_pb2, workloads_pb2
from muster.api.v1.access_pb2_grpc import AccessServiceStub
from muster.api.v1.workloads_pb2_grpc import WorkloadsServiceStub
from muster_chassis.rpc import channel
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.hostile import SECONDS, asks, http, http_status, outcome
from tests.attacks.stage import Stage

_STREAMS: Final = 1_000
_HALVES: Final = 1_200
_SUBMIT: Final = "/muster.api.v1.WorkloadsService/SubmitWorkload"
_PROOFS: Final = "tests/rules/test_attacks_edges.py"


async def _after(stage: Stage, what: str) -> Verdict:
    """Asks as another caller until `stage.until`; holds where each question is answered."""
    while (others := await asks(stage)) == "OK":
        if time.monotonic() >= stage.until:
            return held(f"{what}; others were answered")
        await asyncio.sleep(0.2)
    return broken(f"{what}; a small question of another caller: {others}")


async def _first(call: Any) -> str:
    """How a stream begins: OK, or its status."""
    return await outcome(asyncio.wait_for(call.read(), SECONDS))


async def _watches(stage: Stage) -> Verdict:
    """Opens a thousand watches and keeps them."""
    metadata = tuple(stage.headers(Actor.VIEWER).items())
    async with channel(stage.grpc) as opened:
        stub = WorkloadsServiceStub(opened)
        asked = workloads_pb2.WatchWorkloadsRequest()
        calls = [stub.WatchWorkloads(asked, metadata=metadata) for _ in range(_STREAMS)]
        began = Counter(await asyncio.gather(*(_first(call) for call in calls)))
        own = await asks(stage, Actor.VIEWER)
        if own != "OK":
            return broken(f"watches began as {dict(began)}, and the viewer's own question: {own}")
        return await _after(stage, f"watches began as {dict(began)}, and the viewer could still ask")


async def _health_watches(stage: Stage) -> Verdict:
    """Opens a thousand watches of the server's health, which need no token."""
    async with channel(stage.grpc) as opened:
        stub: Any = health_pb2_grpc.HealthStub(opened)
        calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(_STREAMS)]
        began = Counter(await asyncio.gather(*(_first(call) for call in calls)))
        return await _after(stage, f"watches of health began as {dict(began)}")


async def _half_sent(stage: Stage) -> Verdict:
    """Begins calls whose requests never come."""
    metadata = tuple(stage.headers(Actor.VIEWER).items())
    async with channel(stage.grpc) as opened:
        begin: Any = opened.stream_unary(_SUBMIT)
        calls: list[Any] = [begin(metadata=metadata) for _ in range(_HALVES)]
        await asyncio.gather(*(call.wait_for_connection() for call in calls[:1]))
        return await _after(stage, f"{len(calls)} calls without a request")


async def _undecodable(stage: Stage) -> Verdict:
    """Sends bytes that are no message, without a token and with one; broken where a log has a traceback of it."""
    log = stage.layout.log("submission")
    before = log.stat().st_size
    async with channel(stage.grpc) as opened:
        ask: Any = opened.unary_unary(_SUBMIT)
        nobody = [await outcome(ask(b"\xff" * 900, timeout=SECONDS)) for _ in range(20)]
        viewer = tuple(stage.headers(Actor.VIEWER).items())
        known = await outcome(ask(b"\xff" * 900, metadata=viewer, timeout=SECONDS))
    with log.open("rb") as content:
        content.seek(before)
        written = content.read()
    evidence = f"without a token {dict(Counter(nobody))}, with one {known}; {len(written)} bytes of log"
    right = set(nobody) == {"UNAUTHENTICATED"} and known == "INVALID_ARGUMENT" and b"Traceback" not in written
    return held(evidence) if right else broken(evidence)


async def _ended_streams(stage: Stage) -> Verdict:
    """Begins watches and goes away in the middle; broken where a log complains of a context or an iterator."""
    metadata, log = tuple(stage.headers(Actor.VIEWER).items()), stage.layout.log("submission")
    before = log.stat().st_size
    for _ in range(4):
        async with channel(stage.grpc) as opened:
            stub = WorkloadsServiceStub(opened)
            calls = [stub.WatchWorkloads(workloads_pb2.WatchWorkloadsRequest(), metadata=metadata) for _ in range(20)]
            await asyncio.gather(*(_first(call) for call in calls))
            for call in calls:
                call.cancel()
    await asks(stage)
    with log.open("rb") as content:
        content.seek(before)
        written = content.read()
    bad = [word for word in (b"different Context", b"aclose()", b"Traceback") if word in written]
    return broken(f"the log has {bad}") if bad else held("80 streams ended in the middle; nothing in the log")


async def _times(stage: Stage) -> Verdict:
    """Names a moment that no calendar has, and a number that no column holds."""
    metadata = tuple(stage.headers(Actor.PROJECT_ADMIN).items())
    asked = access_pb2.ListAuditRequest(project=stage.project)
    asked.since.nanos = -1
    async with channel(stage.grpc) as opened:
        listed = await outcome(AccessServiceStub(opened).ListAudit(asked, metadata=metadata, timeout=SECONDS))
    path = "/api/v1/workloads?filterBy=allocatedGPU%3E%3D1e999999999"
    filtered = await http_status(http(stage, "GET", path, actor=Actor.VIEWER))
    evidence = f"ListAudit since.nanos=-1: {listed}; filterBy=allocatedGPU>=1e999999999: {filtered}"
    right = listed in ("INVALID_ARGUMENT", "PERMISSION_DENIED") and filtered == "400"
    return held(evidence) if right else broken(evidence)


_OF_LIMITS: Final = f"{_PROOFS}::test_without_limits_by_kind_the_watches_of_one_caller_shut_everyone_out"
_OF_HALVES: Final = f"{_PROOFS}::test_without_a_deadline_for_requests_half_sent_calls_stay"
_OF_DECODING: Final = f"{_PROOFS}::test_without_the_reader_of_requests_rubbish_fills_the_log"
_OF_STREAMS: Final = "tests/unit/chassis/test_chassis_calls.py::test_a_stream_ends_in_the_task_that_began_it"
_OF_TIMES: Final = f"{_PROOFS}::test_without_the_readers_of_moments_and_numbers_a_question_fails_unexpectedly"
ATTACKS: Final = (
    Attack("B5", "thousand-watches-of-a-viewer", Actor.VIEWER, _watches, _OF_LIMITS, noisy=True),
    Attack("B11", "thousand-watches-of-health", Actor.LOOPBACK, _health_watches, _OF_LIMITS, noisy=True),
    Attack("B11", "calls-whose-request-never-comes", Actor.VIEWER, _half_sent, _OF_HALVES, noisy=True),
    Attack("B6", "undecodable-requests-without-a-token", Actor.LOOPBACK, _undecodable, _OF_DECODING),
    Attack("B7", "streams-that-end-in-the-middle", Actor.VIEWER, _ended_streams, _OF_STREAMS),
    Attack("B7", "moments-and-numbers-out-of-range", Actor.PROJECT_ADMIN, _times, _OF_TIMES),
)
