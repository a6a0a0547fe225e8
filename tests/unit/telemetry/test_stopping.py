"""Faust's consumer ends quietly where Kafka has gone: aiokafka hands on the cancellation of a fetch that it repeats."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread

from muster_telemetry.stream import _ConsumerThread


async def test_a_stop_that_is_cut_short_closes_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    async def cut_short(_: object) -> None:
        raise asyncio.CancelledError

    async def close() -> None:
        closed.append(True)

    monkeypatch.setattr(AIOKafkaConsumerThread, "on_thread_stop", cut_short)
    thread = object.__new__(_ConsumerThread)
    thread._consumer = SimpleNamespace(_client=SimpleNamespace(close=close))  # type: ignore[assignment]
    await thread.on_thread_stop()
    assert closed == [True]
