"""Connections of aiokafka that are closed at the moment of a write, on the event loop that services have."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import uvloop
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from muster_chassis import kafka


async def _closed_just_now() -> AIOKafkaConnection:
    """A connection that is closed. Its own reader hears of it after the next step of the event loop."""

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    connection = AIOKafkaConnection(*server.sockets[0].getsockname())
    with patch.object(AIOKafkaConnection, "_do_version_lookup", lambda _: asyncio.sleep(0)):
        _, writer = await connection.connect()
    connection._versions = {MetadataRequest.API_KEY: (0, 1)}
    server.close()
    writer.transport.abort()
    await asyncio.sleep(0)
    return connection


def test_a_write_to_a_closed_connection_is_a_kafka_error() -> None:
    async def write() -> None:
        connection = await _closed_just_now()
        with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1") as raised:
            connection.send(MetadataRequest([]))
        assert type(raised.value.__cause__) is RuntimeError
        assert not connection.connected()

    uvloop.run(write())


def test_the_metadata_can_be_asked_for_again_after_a_write_to_a_closed_connection() -> None:
    async def ask() -> bool:
        client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")

        async def closed(*_: Any) -> AIOKafkaConnection:
            return await _closed_just_now()

        with (
            patch.object(client, "_get_conn", closed),
            patch.object(client.cluster, "brokers", lambda: [SimpleNamespace(nodeId=0)]),
        ):
            return bool(await client._metadata_update(client.cluster, []))

    assert uvloop.run(ask()) is False


def test_what_a_broker_in_trouble_raises_is_known() -> None:
    assert issubclass(KafkaConnectionError, kafka.KAFKA_TROUBLE)
    assert not issubclass(RuntimeError, kafka.KAFKA_TROUBLE)
