"""Rule 9: what waits in the memory of one instance follows the commits of the others.

Taken out here: both ways on which an instance hears of them, the notification and the poll (a call that waits for a
verdict which another instance takes in then waits its whole time, and a watch shows nothing).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupLoadInProgressError

from muster_chassis.notifications import Notifications
from muster_submission.adapters import feed, verdicts
from muster_submission.rpc import watch
from tests.integration.submission.test_watching import watching
from tests.support.admitting import admitting
from tests.support.doors import Door, door, second
from tests.support.waiting import eventually, until

_CALLS = 12  # through each of two instances
_WHOLE = 5.0  # seconds that a call may wait
_SHORT = 3.0  # an answer within this has not waited to the end, however busy the machine is


def _without_notifications(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Notifications, "_hear", lambda *_: None)


def _without_polls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "_POLL", 600.0)
    patch.setattr(feed, "_POLL", 600.0)
    patch.setattr(watch, "_BREATH", 600.0)


async def _share_partitions(first: Door) -> None:
    """Waits until both instances consume: from then on each takes in verdicts that the other's calls wait for."""
    admin = AIOKafkaAdminClient(bootstrap_servers=first.kafka)
    await admin.start()
    try:

        async def sharing() -> bool:
            try:
                groups = [name for name, _ in await admin.list_consumer_groups() if name.startswith("submission@")]
            except GroupLoadInProgressError:  # of a broker that has just begun
                return False
            described: list[Any] = await admin.describe_consumer_groups(groups)
            return any(len(group[5]) == 2 for answer in described for group in answer.groups if group[2] == "Stable")

        await eventually(sharing, within=60, every=0.2)
    finally:
        await admin.close()


async def _waits(first: Door, other: Door) -> list[float]:
    """How long calls through both instances wait for their verdicts, in seconds."""

    async def ask(through: Door, name: str) -> float:
        began = time.monotonic()
        await through.submit(wait=int(_WHOLE * 1000), name=name)
        return time.monotonic() - began

    async with admitting(first):
        calls = [ask(door, f"n{n}-{at}") for n, door in enumerate((first, other)) for at in range(_CALLS)]
        return sorted(await asyncio.gather(*calls))


@pytest.mark.parametrize("taken_out", [None, _without_notifications, _without_polls], ids=["both", "poll", "notified"])
async def test_calls_and_watches_of_every_instance_are_told(
    database: Any, kafka: str, taken_out: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By either of the two ways alone as well."""
    if taken_out is not None:
        taken_out(monkeypatch)
    async with door(database, kafka) as first, second(first, database) as other:
        await first.project()
        await _share_partitions(first)
        async with watching(first) as here, watching(other) as there:
            await until(lambda: here and there)
            assert (await _waits(first, other))[-1] < _SHORT
            for items in (here, there):
                await until(lambda: _admitted(items) == 2 * _CALLS, within=_SHORT)  # noqa: B023 - awaited in the turn


async def test_without_either_way_a_call_waits_to_its_end(
    database: Any, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without_notifications(monkeypatch)
    _without_polls(monkeypatch)
    async with door(database, kafka) as first, second(first, database) as other:
        await first.project()
        await _share_partitions(first)
        took = await _waits(first, other)
        assert took[-1] >= _WHOLE
        assert took[0] < _SHORT  # those whose verdict their own instance took in


def _admitted(items: list[Any]) -> int:
    return sum(one.event == "WorkloadAdmitted" for one in items)
