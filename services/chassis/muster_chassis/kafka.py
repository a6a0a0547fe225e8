"""Producers and consumers of aiokafka, made one way, and an admin that always answers or says why not.

Called by the bus, the relay, the consumer loops and the agents. Everything that is set here has been measured or
prevents a named failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.producer import sender
from aiokafka.protocol.metadata import MetadataRequest

from muster_chassis import kafka_connections, logs
from muster_chassis.broker import Broker

_log = logs.get(__name__)
_REQUEST_MS: Final = 10_000
_STOP_SECONDS: Final = 5.0
_LARGEST_REQUEST: Final = 2 << 20
_discarded: set[asyncio.Future[None]] = set()

# Between two transactions aiokafka waits 20 ms for the broker to have written the first one's markers; here they are
# written after about 2 ms, and every workload that starts pays this wait.
sender.BACKOFF_OVERRIDE = 0.002
kafka_connections.repair()

KAFKA_TROUBLE: Final = (KafkaError, OSError)
"""What a broker that is down, restarting or unreachable looks like."""


def producer(broker: Broker, *, client: str, transactional_id: str | None = None) -> AIOKafkaProducer:
    """An idempotent producer that waits for all replicas; with a `transactional_id` it fences older ones of that id.

    No linger: records that come while a request is under way travel together in the next one.
    """
    return AIOKafkaProducer(
        **broker.options(),
        client_id=client,
        acks="all",
        enable_idempotence=True,
        transactional_id=transactional_id,
        transaction_timeout_ms=10_000,
        linger_ms=0,
        max_batch_size=256 << 10,
        max_request_size=_LARGEST_REQUEST,
        request_timeout_ms=_REQUEST_MS,
        retry_backoff_ms=100,
        metadata_max_age_ms=30_000,
    )


def consumer(
    broker: Broker,
    *,
    client: str,
    group: str | None = None,
    group_instance: str | None = None,
    committed_only: bool = False,
) -> AIOKafkaConsumer:
    """A consumer that starts at the beginning where it has no offset, and commits only when told to.

    group: offsets in Kafka and partitions by the group; without one the caller assigns partitions itself.
    committed_only: skips records of transactions that were aborted or are open (assignments).
    """
    return AIOKafkaConsumer(
        **broker.options(),
        client_id=client,
        group_id=group,
        group_instance_id=group_instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed_only else "read_uncommitted",
        fetch_max_wait_ms=200,
        fetch_min_bytes=1,
        max_partition_fetch_bytes=1 << 20,
        request_timeout_ms=_REQUEST_MS,
        retry_backoff_ms=100,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=2_000,
        rebalance_timeout_ms=10_000,
        # A batch that waits for PostgreSQL keeps its partitions: nobody else could handle them either.
        max_poll_interval_ms=24 * 3600 * 1000,
        metadata_max_age_ms=10_000,
    )


async def stop(part: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient | None) -> None:
    """Closes a part of aiokafka within 5 seconds; a broker that is gone makes its own stop wait much longer."""
    if part is not None:
        await _closed(_closing(part))


def discard(part: AIOKafkaConsumer | AIOKafkaProducer | None) -> None:
    """The same without waiting: what was built on a bus that is lost must not hold up what begins on the new one."""
    if part is not None:
        task = asyncio.ensure_future(_closed(_closing(part)))
        _discarded.add(task)
        task.add_done_callback(_discarded.discard)


async def settled() -> None:
    """Waits, within 5 seconds, until what was discarded is closed: before the event loop ends."""
    here = asyncio.get_running_loop()
    mine = [task for task in _discarded if task.get_loop() is here]
    if mine:
        await asyncio.wait(mine, timeout=_STOP_SECONDS + 1)


def _closing(part: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient) -> asyncio.Future[None]:
    close: Callable[[], Awaitable[None]] = part.close if isinstance(part, AIOKafkaAdminClient) else part.stop
    return asyncio.ensure_future(close())


async def _closed(closing: asyncio.Future[None]) -> None:
    """Waits for the end of a close, not longer than it may take.

    Not `asyncio.wait_for`: aiokafka swallows a cancellation now and then, and that one would wait for ever.
    """
    closing.add_done_callback(seen)
    try:
        await asyncio.wait({closing}, timeout=_STOP_SECONDS)
    finally:
        closing.cancel()


def seen(answer: asyncio.Future[Any]) -> None:
    """Takes note of an answer's error, so that those behind the first failed one are not reported as never read."""
    if not answer.cancelled():
        answer.exception()


class Probe:
    """Asks a broker, over one kept connection, which cluster it belongs to."""

    def __init__(self, broker: Broker, client: str) -> None:
        self._broker = broker
        self._name = client
        self._client: AIOKafkaClient | None = None

    async def cluster_id(self) -> str:
        """The cluster's id. Raises one of KAFKA_TROUBLE where nobody answers within 5 seconds."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                return await self._ask()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Drops the connection; the next question opens a new one."""
        client, self._client = self._client, None
        if client is not None:
            await _closed(asyncio.ensure_future(client.close()))

    async def _ask(self) -> str:
        if self._client is None:
            self._client = AIOKafkaClient(**self._broker.options(), client_id=self._name, request_timeout_ms=3_000)
            await self._client.bootstrap()
        node = self._client.get_random_node()
        answer: Any = await self._client.send(node, MetadataRequest([], allow_auto_topic_creation=False))
        return str(answer.cluster_id)


async def partitions_of(broker: Broker, names: Iterable[str], *, client: str) -> Mapping[str, int]:
    """How many partitions each of `names` has; those that do not exist are left out."""
    admin = AIOKafkaAdminClient(**broker.options(), client_id=client, request_timeout_ms=_REQUEST_MS)
    try:
        await admin.start()
        described = await admin.describe_topics(list(names))
        return {
            topic["topic"]: len(topic["partitions"])
            for topic in described
            if topic["error_code"] == 0 and topic["partitions"]
        }
    finally:
        await stop(admin)


__all__ = [
    "KAFKA_TROUBLE",
    "Probe",
    "TopicPartition",
    "consumer",
    "discard",
    "partitions_of",
    "producer",
    "seen",
    "settled",
    "stop",
]
