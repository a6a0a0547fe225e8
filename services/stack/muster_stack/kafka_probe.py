"""Asks a Kafka broker whether it serves, and who it is, with one hand-written request.

Called by the keeper several times a second while Kafka starts: a client library would cost it 25 MB and a second of
CPU. The request is Metadata version 7 without topics, which every broker from 2.1 to 4.x answers; its layout is in
Kafka's protocol guide.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from muster_stack.ports import LOOPBACK

_METADATA: Final = 3
_VERSION: Final = 7
_CORRELATION: Final = 1
_ANSWER_LIMIT: Final = 1 << 20  # bytes; what listens there may be no broker at all


@dataclass(frozen=True, slots=True)
class Broker:
    """What the broker says of itself: its cluster id, and whether a controller leads (-1: none)."""

    cluster_id: str
    controller: int


def probe(port: int, *, seconds: float = 0.5) -> Broker | None:
    """Who serves on this loopback port, or None where nobody or no broker does, or it is not ready to."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=seconds) as connection:
            connection.sendall(_request())
            return _parse(_receive(connection))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _request() -> bytes:
    client = b"muster-probe"
    header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(client)) + client
    body = header + struct.pack(">i?", 0, False)  # no topics, and do not create any
    return struct.pack(">i", len(body)) + body


def _receive(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    if not 0 < length <= _ANSWER_LIMIT:
        raise OSError(f"an answer of {length} bytes is no Kafka answer")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise OSError("the broker closed the connection")
        received += chunk
    return received


class _Cursor:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._content, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(value)

    def text(self) -> str:
        length = self.number("h")
        if length < 0:
            return ""
        self._at += length
        return self._content[self._at - length : self._at].decode()


def _parse(answer: bytes) -> Broker | None:
    cursor = _Cursor(answer)
    cursor.number("i")  # correlation
    cursor.number("i")  # throttle time
    brokers = cursor.number("i")
    for _ in range(brokers):
        cursor.number("i")  # node
        cursor.text()  # host
        cursor.number("i")  # port
        cursor.text()  # rack
    cluster = cursor.text()
    controller = cursor.number("i")
    # A broker that still catches up lists nobody: topics cannot be made yet.
    return Broker(cluster, controller) if brokers and cluster and controller >= 0 else None
