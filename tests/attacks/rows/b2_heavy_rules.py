"""B2 and B3: expressions that take all the processor time that they may, while other tenants work."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from muster.api.v1 import triggers_pb2
from muster.events.v1 import cloudevent_pb2
from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2 as wl
from muster_client import Muster, MusterError
from muster_stack.bus.identities import ADMIN, Identities, client_options
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

_LANES: Final = "tests/rules/test_attacks_lanes.py::test_with_one_lane_for_all_it_delays_everybody"
_LOCK: Final = "tests/rules/test_attacks_lanes.py::test_evaluated_inside_the_transaction_it_is_locked"
_NAME: Final = "attack-b2"
_TYPE: Final = "attack.heavy"
_NONE: Final = "attack.none"  # of which no event is sent
_COSTLY: Final = "data.l.all(x, data.s.contains('aaaaaaaaab') || true)"
_HEAVY: Final = json.dumps({"l": list(range(3000)), "s": "a" * 60_000})
_PATIENCE: Final = 8.0
_SUBMISSIONS: Final = 10


@asynccontextmanager
async def _rules(stage: Stage, other_type: str) -> AsyncIterator[None]:
    """A heavy rule of the attacker's project and a light one of the other project, while this lasts."""
    mine = (stage.tokens[Actor.PROJECT_ADMIN], stage.project)
    theirs = (stage.admin_token, stage.other_project)
    await _prepare(stage, *mine, _TYPE, _COSTLY)
    await _prepare(stage, *theirs, other_type, "true")
    try:
        yield
    finally:
        for token, project in (mine, theirs):
            async with Muster(stage.grpc, token) as muster:
                await muster.triggers.delete(project, _NAME)


async def _prepare(stage: Stage, token: str, project: str, event_type: str, condition: str) -> None:
    """A template and a trigger of a project."""
    spec = wl.WorkloadSpec(kind=options_pb2.KIND_TRAINING, name=_NAME, image="x", command="true")
    spec.usage = wl.USAGE_TEMPLATE
    rule = triggers_pb2.Trigger(
        name=_NAME, project=project, template=_NAME, event_type=event_type, event_sources=["*"], enabled=True
    )
    rule.condition = condition
    async with Muster(stage.grpc, token) as muster:
        await muster.templates.apply(spec, project=project)
        await muster.triggers.apply(rule)


async def _send(producer: AIOKafkaProducer, event_type: str, data: str) -> str:
    """Sends an event; returns its id."""
    event_id = uuid.uuid4().hex
    headers = {"ce_specversion": "1.0", "ce_id": event_id, "ce_source": "/attack", "ce_type": event_type}
    named = [("content-type", b"application/json"), *((name, text.encode()) for name, text in headers.items())]
    await producer.send_and_wait("muster.triggers", data.encode(), headers=named)
    return event_id


def _producer(stage: Stage) -> AIOKafkaProducer:
    identity = Identities(stage.layout.bus_identities).of(ADMIN)
    return AIOKafkaProducer(**client_options(stage.bootstrap, identity), acks="all")


async def _flood(producer: AIOKafkaProducer, seconds: float) -> None:
    """Twenty heavy events a second."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await _send(producer, _TYPE, _HEAVY)
        await asyncio.sleep(0.05)


async def _started(stage: Stage, producer: AIOKafkaProducer, event_type: str) -> tuple[float, str]:
    """Seconds from an event to the run that it starts in the other project, and what its firing says of itself.

    Without a run it is the patience, and then the text says how far the event has come.
    """
    began = time.monotonic()
    event_id = await _send(producer, event_type, "{}")
    sent, said = time.monotonic() - began, "it has no firing yet"
    async with Muster(stage.grpc, stage.admin_token) as muster:
        while time.monotonic() - began < _PATIENCE:
            async for firing in muster.triggers.firings(stage.other_project, _NAME):
                if firing.event_id == event_id:
                    said = f"{triggers_pb2.FiringOutcome.Name(firing.outcome)} {firing.why}".strip()
                    if firing.workload:
                        return time.monotonic() - began, said
            await asyncio.sleep(0.2)
    return _PATIENCE, f"{said}; the event was sent within {sent:.1f} s"


async def _triggers_of_others(stage: Stage) -> Verdict:
    """A project floods its own heavy rule; a trigger of another project has to fire meanwhile."""
    light = f"attack.light.{uuid.uuid4().hex[:8]}"
    async with _rules(stage, light), _producer(stage) as producer:
        flood = asyncio.create_task(_flood(producer, max(4.0, stage.until - time.monotonic())))
        await asyncio.sleep(2)
        seconds, firing = await _started(stage, producer, light)
        await flood
    if seconds >= _PATIENCE:
        return broken(f"a trigger of another project did not fire within {seconds:.1f} s: {firing}")
    return held(f"a trigger of another project fired after {seconds:.1f} s")


async def _submissions_of_others(stage: Stage) -> Verdict:
    """The same flood; submissions of another project have to be answered, each well within its deadline."""
    slowest = 0.0
    async with _rules(stage, _NONE), _producer(stage) as producer, Muster(stage.grpc, stage.admin_token) as muster:
        flood = asyncio.create_task(_flood(producer, 6))
        for number in range(_SUBMISSIONS):
            began = time.monotonic()
            spec = wl.WorkloadSpec(kind=options_pb2.KIND_TRAINING, name=f"b3-{uuid.uuid4().hex[:8]}", image="x")
            spec.command = "true"
            await muster.submit(spec, project=stage.other_project)
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.4 if number else 2)
        await flood
    said = f"the slowest of {_SUBMISSIONS} submissions took {slowest:.2f} s"
    return held(said) if slowest < _PATIENCE / 2 else broken(said)


async def _tests_without_end(stage: Stage) -> Verdict:
    """Heavy rules are tried against samples, eight at a time; a light rule of another project is tried meanwhile."""
    sample: Any = cloudevent_pb2.CloudEvent(id="1", source="/attack", type=_TYPE, spec_version="1.0", text_data=_HEAVY)

    async def tried(token: str, project: str, condition: str) -> float:
        rule = triggers_pb2.Trigger(
            name=_NAME, project=project, template=_NAME, event_type=_TYPE, event_sources=["*"], condition=condition
        )
        began = time.monotonic()
        async with Muster(stage.grpc, token) as muster:
            try:
                await muster.triggers.test(rule, sample)
            except MusterError as problem:
                if "template" not in str(problem):
                    raise
        return time.monotonic() - began

    attacker = [stage.tokens[Actor.PROJECT_ADMIN], stage.project, _COSTLY]
    async with _rules(stage, _NONE):
        for _ in range(3):
            await asyncio.gather(*(tried(*attacker) for _ in range(8)))
        heavy = [asyncio.create_task(tried(*attacker)) for _ in range(8)]
        seconds = await tried(stage.admin_token, stage.other_project, "true")
        await asyncio.gather(*heavy)
    said = f"a light rule of another project was tried within {seconds:.2f} s"
    return held(said) if seconds < _PATIENCE / 2 else broken(said)


ATTACKS: Final = (
    Attack("B2", "heavy-rule-floods-the-triggers", Actor.PROJECT_ADMIN, _triggers_of_others, _LANES, noisy=True),
    Attack("B2", "heavy-rules-are-tested-over-and-over", Actor.PROJECT_ADMIN, _tests_without_end, _LANES),
    Attack("B3", "heavy-rule-while-others-submit", Actor.PROJECT_ADMIN, _submissions_of_others, _LOCK),
)
