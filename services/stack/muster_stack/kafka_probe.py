"""Asks a Kafka broker whether it serves, and who it is, over one connection made by hand.

Called by the keeper several times a second while Kafka starts: a client library would cost it 25 MB and a second of
CPU. The request is Metadata version 7 without topics, which every broker from 2.1 to 4.x answers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from muster_stack.bus.identities import Identity
from muster_stack.bus.wire import Connection, Reader

_METADATA: Final = 3
_VERSION: Final = 7
_NO_TOPICS: Final = struct.pack(">i?", 0, False)  # and do not create any


@dataclass(frozen=True, slots=True)
class Broker:
    """What the broker says of itself: its cluster id, and whether a controller leads (-1: none)."""

    cluster_id: str
    controller: int


def probe(port: int, identity: Identity | None = None, *, seconds: float = 1.0) -> Broker | None:
    """Who serves on this loopback port, or None where nothing or no broker does, or it is not ready to.

    identity: the user to log in as; None for a broker that asks for no login.
    """
    try:
        with Connection(port, identity, seconds=seconds) as connection:
            return _parse(connection.ask(_METADATA, _VERSION, _NO_TOPICS))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _parse(answer: Reader) -> Broker | None:
    answer.number("i")  # throttle time
    brokers = answer.number("i")
    for _ in range(brokers):
        answer.number("i")  # node
        answer.text()  # host
        answer.number("i")  # port
        answer.text()  # rack
    cluster = answer.text()
    controller = answer.number("i")
    # A broker that still catches up lists nobody: topics cannot be made yet.
    return Broker(cluster, controller) if brokers and cluster and controller >= 0 else None
