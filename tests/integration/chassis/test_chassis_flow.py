"""From one service's transaction to another's, over the real Kafka and PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.stations import Journal, station
from tests.support.waiting import until


@pytest.mark.parametrize("assigned", [False, True])
async def test_events_arrive_once_and_in_order(database: Any, kafka: str, assigned: bool) -> None:
    async with (
        station("submission", database.url("submission"), kafka) as sender,
        station("policy", database.url("policy"), kafka) as receiver,
    ):
        sender.relay()
        journal = Journal()
        consumer = receiver.consume(journal, assigned=assigned)
        for _ in range(3):
            await sender.publish(*(f"w{n}" for n in range(100)))
        await until(lambda: len(journal.handled) >= 300)
        assert len(journal.handled) == 300
        assert all(journal.versions(f"w{n}") == [1, 2, 3] for n in range(100))
        assert max(journal.batches) > 1
        await consumer.stop()
        again = Journal()
        receiver.consume(again, assigned=assigned)
        await sender.publish("w0")
        await until(lambda: again.handled)
        assert again.handled == [("w0", 4)]
