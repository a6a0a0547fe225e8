"""The user of a chaos run: submits what the plan says when it says so, steers some of it, and waits for the end of all.

Called by `run.py`. It talks to Muster through the public SDK only, and goes on when a service is down, as a patient
user would: the same submission is repeated under the same idempotency key until it is answered.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from muster_client.errors import AlreadyExists, NotNow, Unavailable
from muster_client.phases import Phase
from muster_client.quotas import pool_quota
from muster_client.words import TERMINAL, phase_of
from tests.chaos.documents import PROJECT
from tests.chaos.plan import Arrival
from tests.chaos.probe import PROJECT as PROBED

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from muster.workload.v1 import workload_pb2
    from muster_client import Muster
    from tests.chaos.ledger import Ledger

PATIENCE: Final = 120.0
"""Seconds for which one request is repeated; what is not answered by then was never acknowledged."""

T = TypeVar("T")
Text = Callable[[Arrival], str]
"""The document of an arrival."""
_PAUSE: Final = 0.5
_UP: Final = (Phase.RUNNING, Phase.DEGRADED)


class Driver:
    """One run's user."""

    final = TERMINAL

    def __init__(self, muster: Muster, ledger: Ledger, text: Text) -> None:
        self._muster = muster
        self._ledger = ledger
        self._text = text
        self.phases: dict[str, Phase] = {}
        self._changed = asyncio.Condition()

    async def make_project(self, pool: str, gpus: int) -> None:
        """The project of the run, with room for everything at once."""
        try:
            await _insist(lambda: self._muster.projects.create(PROJECT, quotas=[pool_quota(pool, gpus)]))
        except AlreadyExists:
            return

    async def make_probe_project(self, pool: str) -> None:
        """The project of the probe, in which nothing runs."""
        try:
            await _insist(lambda: self._muster.projects.create(PROBED, quotas=[pool_quota(pool, 0)]))
        except AlreadyExists:
            return

    async def follow(self) -> None:
        """Writes down every phase that the control plane tells, for ever."""
        async for item in self._muster.watch(project=PROJECT):
            if item.workload is not None:
                await self._heard(item.workload)

    async def run(self, arrival: Arrival) -> None:
        """One workload from its submission to its end."""
        await asyncio.sleep(arrival.at)
        key = str(uuid.uuid4())
        text = self._text(arrival)
        workload = await _insist(lambda: self._muster.submit(text, project=PROJECT, key=key))
        self._ledger.acknowledged(workload.id, arrival.name)
        await self._heard(workload)
        if arrival.shape == "inference":
            await self._serve_then_delete(workload.id, arrival.seconds)
        elif arrival.shape == "suspended":
            await self._suspend_then_resume(workload.id, arrival.seconds)
        await self._reaches(workload.id, TERMINAL)

    async def settle(self) -> None:
        """Asks once more about everything: the last word is an answer to a question, not an item of a stream."""
        for workload in list(self.phases):
            await self._heard(await _insist(lambda w=workload: self._muster.get(w)))  # type: ignore[misc]

    async def _serve_then_delete(self, workload: str, seconds: float) -> None:
        await self._reaches(workload, {*_UP, *TERMINAL})
        await asyncio.sleep(seconds)
        key = str(uuid.uuid4())
        await _insist(lambda: self._muster.delete(workload, key=key))
        self._ledger.did("delete", workload)

    async def _suspend_then_resume(self, workload: str, seconds: float) -> None:
        await asyncio.sleep(seconds / 2)
        for what, call in (("suspend", self._muster.suspend), ("resume", self._muster.resume)):
            key = str(uuid.uuid4())
            try:
                await _insist(lambda c=call, k=key: c(workload, key=k))  # type: ignore[misc]
            except NotNow:
                return  # it has ended before it could be suspended
            self._ledger.did(what, workload)
            await asyncio.sleep(1.0)

    async def _reaches(self, workload: str, phases: set[Phase] | frozenset[Phase]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.phases.get(workload) in phases)

    async def _heard(self, workload: workload_pb2.Workload) -> None:
        phase = phase_of(workload)
        if phase is None or self.phases.get(workload.id) == phase:
            return
        self._ledger.told(workload.id, phase.word)
        async with self._changed:
            self.phases[workload.id] = phase
            self._changed.notify_all()


async def _insist(call: Callable[[], Awaitable[T]]) -> T:
    """Repeats a call while the control plane cannot answer, for PATIENCE seconds."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        try:
            return await call()
        except Unavailable:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(_PAUSE)
