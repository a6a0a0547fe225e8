"""Tenants who work at a steady pace while another tenant misbehaves; the latency of their calls is judged.

Called by `tests/attacks/windows.py`. Holds: calls begin at even times whether or not earlier ones were answered, so
that a service that stalls is charged for every call that it delayed; a refused or lost call counts with its deadline.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_client import Muster, MusterError, Phase
from muster_client.calls import Patience

RATE: Final = 20.0
"""Calls a second of one tenant. Three of them, with their clients, keep half of two cores busy. At 30 they keep 70 %,
and a window measures its own queue for the CPU: its p99 without an attack varied from 23 to 90 ms within an hour."""
_DEADLINE: Final = 10.0
_SUBMIT_EVERY: Final = 50
_TRIGGER_EVERY: Final = 100
_LIST_EVERY: Final = 4
_PLACED_SECONDS: Final = 90.0
_DONE: Final = frozenset({workload_pb2.PHASE_RUNNING, workload_pb2.PHASE_COMPLETED})
_UNDER_WAY: Final = (Phase.CREATING, Phase.PENDING, Phase.INITIALIZING, Phase.RUNNING)
_NUMBERS: Final = count(1)


@dataclass(slots=True)
class Window:
    """What the calls of a window took, in milliseconds, and what was sent in it."""

    milliseconds: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    events: int = 0


@dataclass(slots=True)
class Tenant:
    """One tenant: a project with a template `tick` and a trigger `tick`, and a token of its own.

    server: HOST:PORT of submission. kafka: how its program connects to Kafka to write events.
    """

    project: str
    server: str
    token: str
    kafka: Mapping[str, str]
    submitted: list[str] = field(default_factory=list)
    events: int = 0


async def steady(tenants: Iterable[Tenant], seconds: float, rate: float = RATE) -> Window:
    """One window: each tenant makes `rate` calls a second (get, list, submit, events) and holds one watch.

    Tenants know nothing of each other: each begins at another place of the pattern and of the interval between calls.
    """
    window, all_of_them = Window(), tuple(tenants)
    await asyncio.gather(
        *(
            _tenant(tenant, window, seconds, rate, phase=index / len(all_of_them))
            for index, tenant in enumerate(all_of_them)
        )
    )
    return window


async def unplaced(tenants: Iterable[Tenant]) -> list[str]:
    """What the tenants submitted or triggered that neither runs nor has completed 90 s later, a line each."""
    missing: list[str] = []
    for tenant in tenants:
        async with Muster(tenant.server, tenant.token or None) as muster:
            missing += await _unplaced(muster, tenant)
    return missing


async def _tenant(tenant: Tenant, window: Window, seconds: float, rate: float, *, phase: float) -> None:
    patience = Patience(attempt=_DEADLINE, whole=_DEADLINE)
    async with (
        Muster(tenant.server, tenant.token or None, patience=patience) as muster,
        AIOKafkaProducer(**tenant.kafka, acks="all") as events,
    ):
        known = await _anchor(muster, tenant)
        watching = asyncio.create_task(_watch(muster, tenant))
        began = time.monotonic() + phase / rate
        first = int(phase * _TRIGGER_EVERY)
        calls = []
        for number in range(int(seconds * rate)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            call = _call(first + number, muster, events, tenant, window, known)
            calls.append(asyncio.create_task(_timed(window, call)))
        await asyncio.gather(*calls)
        watching.cancel()
        try:
            await watching
        except asyncio.CancelledError:
            pass
        except MusterError as problem:
            window.refused.append(f"watch: {problem}")


async def _anchor(muster: Muster, tenant: Tenant) -> str:
    """A workload to ask for: the first one of the tenant."""
    if not tenant.submitted:
        await _submit(muster, tenant)
    return tenant.submitted[0]


def _call(
    number: int, muster: Muster, events: AIOKafkaProducer, tenant: Tenant, window: Window, known: str
) -> Callable[[], Awaitable[None]]:
    async def get() -> None:
        await muster.get(known)

    async def page() -> None:
        async for _ in muster.list(project=tenant.project, page_size=20):
            break

    async def submit() -> None:
        window.submitted.append(await _submit(muster, tenant))

    async def event() -> None:
        await _event(events, tenant)
        window.events += 1

    if number % _TRIGGER_EVERY == _TRIGGER_EVERY - 1:
        return event
    if number % _SUBMIT_EVERY == 1:
        return submit
    return page if number % _LIST_EVERY == 0 else get


async def _timed(window: Window, call: Callable[[], Awaitable[None]]) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_DEADLINE):
            await call()
        window.milliseconds.append((time.monotonic() - began) * 1000)
    except (MusterError, KafkaError, TimeoutError) as problem:
        window.milliseconds.append(_DEADLINE * 1000)
        window.refused.append(f"{type(problem).__name__}: {problem}")


async def _submit(muster: Muster, tenant: Tenant) -> str:
    spec = workload_pb2.WorkloadSpec(
        kind=options_pb2.KIND_TRAINING, name=f"steady-{time.time_ns()}", image="x", command="true"
    )
    made = await muster.submit(spec, project=tenant.project)
    tenant.submitted.append(made.id)
    return made.id


async def _event(events: AIOKafkaProducer, tenant: Tenant) -> None:
    headers = {
        "ce_specversion": "1.0",
        "ce_id": f"{tenant.project}-{time.time_ns()}-{next(_NUMBERS)}",
        "ce_source": tenant.project,
        "ce_type": f"{tenant.project}.tick",
        "ce_subject": "steady",
        "content-type": "application/json",
    }
    pairs = [(name, value.encode()) for name, value in headers.items()]
    await events.send_and_wait("muster.triggers", json.dumps({}).encode(), headers=pairs)
    tenant.events += 1


async def _watch(muster: Muster, tenant: Tenant) -> None:
    # Of what is over, a watch would begin with all that earlier windows left: later windows would measure that.
    async for _ in muster.watch(project=tenant.project, phases=_UNDER_WAY):
        pass


async def _unplaced(muster: Muster, tenant: Tenant) -> list[str]:
    deadline = time.monotonic() + _PLACED_SECONDS
    while True:
        phases = {one.id: one.phase async for one in muster.list(project=tenant.project, include_deleted=True)}
        waiting = [each for each in tenant.submitted if phases.get(each) not in _DONE]
        ran = sum(phase in _DONE for each, phase in phases.items() if each not in set(tenant.submitted))
        if (not waiting and ran >= tenant.events) or time.monotonic() > deadline:
            break
        await asyncio.sleep(1.0)
    lines = [f"{tenant.project}: workload {each} is not placed" for each in waiting]
    if ran < tenant.events:
        lines.append(f"{tenant.project}: {tenant.events - ran} of {tenant.events} events started no run")
    return lines
