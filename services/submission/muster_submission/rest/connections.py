"""HTTP connections, guarded against peers that begin something and do not end it.

The protocol of `server.py`. uvicorn bounds neither how long a head may take nor a body nor an answer that is not read,
and it counts a connection that has said nothing like one that works. Here each has a deadline, and where there are too
many connections the oldest goes that has not sent a whole request, of the address that has most of them: a client that
sends its head at once is never in its way, whatever else its address has open.
Holds: at most `most` connections are open, unless that many requests are being answered; who is being answered is never
closed to make room; closing is counted by its reason.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster_chassis import metrics

HEAD_SECONDS: Final = 10.0
"""From the beginning of a connection or a request to the end of its head."""
BODY_SECONDS: Final = 40.0
"""From the end of the head to that of the body: more than a handler waits, who can still say what is wrong."""
ANSWER_SECONDS: Final = 30.0
"""For which a peer may read nothing of its answer."""
LARGEST_HEAD: Final = 64 << 10
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

OPEN: Final = metrics.gauge(
    "muster_rest_connections",
    unit="connections",
    meaning="Open HTTP connections.",
    action="Near 2,000: a proxy keeps too many, or a client does; muster_rest_connections_closed_total says why.",
)
CLOSED: Final = metrics.counter(
    "muster_rest_connections_closed_total",
    unit="connections",
    meaning="HTTP connections that the service closed: a slow head, body or answer, a large head, no HTTP, room.",
    action="The service goes on: one network is slow; many at once: one client holds connections open.",
    labels=("why",),
)


class Connections:
    """The open connections of one server, by how far their requests have come."""

    def __init__(self, most: int = 2_000, unfinished: int = 1_000, of_address: int = 500) -> None:
        """most: connections at all; unfinished: those without a whole request; of_address: of these, of one address."""
        self._most = most
        self._unfinished = unfinished
        self._of_address = of_address
        self._all: set[Guarded] = set()
        self._halves: defaultdict[str, dict[Guarded, None]] = defaultdict(dict)  # the oldest first
        self._idle: dict[Guarded, None] = {}
        self._count: Counter[str] = Counter()

    def half(self, connection: Guarded) -> None:
        """It has not sent a whole request."""
        self._forget(connection)
        self._all.add(connection)
        self._halves[connection.address][connection] = None
        self._count[connection.address] += 1
        self._make_room(connection.address)
        OPEN.set(len(self._all))

    def busy(self, connection: Guarded) -> None:
        """Its request is being answered."""
        self._forget(connection)

    def idle(self, connection: Guarded) -> None:
        """Its request was answered, and no other has begun."""
        self._forget(connection)
        self._idle[connection] = None

    def closed(self, connection: Guarded) -> None:
        """It is gone."""
        self._forget(connection)
        self._all.discard(connection)
        OPEN.set(len(self._all))

    def _forget(self, connection: Guarded) -> None:
        self._idle.pop(connection, None)
        halves = self._halves.get(connection.address, {})
        if connection in halves:
            del halves[connection]
            self._count[connection.address] -= 1
            if not halves:
                del self._halves[connection.address], self._count[connection.address]

    def _make_room(self, address: str) -> None:
        while self._count[address] > self._of_address:
            self._give_up(next(iter(self._halves[address])))
        while self._count.total() > self._unfinished or len(self._all) > self._most:
            victim = self._oldest()
            if victim is None:
                return
            self._give_up(victim)

    def _oldest(self) -> Guarded | None:
        """The oldest unfinished one of the address with most of them, else the one that has been idle longest."""
        if self._idle and self._count.total() <= self._unfinished // 2:
            return next(iter(self._idle))
        most = max(self._count, key=self._count.__getitem__, default=None)
        return next(iter(self._idle), None) if most is None else next(iter(self._halves[most]))

    def _give_up(self, connection: Guarded) -> None:
        self.closed(connection)
        connection.end("room")


class Guarded(HttpToolsProtocol):
    """One connection."""

    def __init__(self, connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.address = ""
        self._connections = connections
        self._request: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head = 0
        self._in_head = True
        self._whole = False  # whether the last request that began has come to its end

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first head has to come from here on."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._connections.half(self)
        self._arm(HEAD_SECONDS, "head")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        if not self._in_head:  # the first request's time runs since the connection was made
            self._arm(HEAD_SECONDS, "head")
            if getattr(self.cycle, "response_complete", True):  # None before the first one
                self._connections.half(self)
        self._head, self._in_head, self._whole = 0, True, False

    def on_headers_complete(self) -> None:
        """The head is there: the request is being answered from here on."""
        self._in_head = False
        self._arm(BODY_SECONDS, "body")
        self._connections.busy(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is there."""
        self._whole = True
        self._disarm()
        super().on_message_complete()
        if self.cycle.response_complete:
            self._connections.idle(self)

    def on_response_complete(self) -> None:
        """The request was answered; of its body some may still come."""
        super().on_response_complete()
        if self.transport.is_closing() or self.pipeline or not self.cycle.response_complete:
            return
        if self._whole:
            self._connections.idle(self)
        else:
            self._connections.half(self)

    def data_received(self, data: bytes) -> None:
        """Counts the bytes of the head, which uvicorn would let grow without end."""
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.end("large head")

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        CLOSED.labels("no HTTP").inc()
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """The peer does not read."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(ANSWER_SECONDS, self.end, "answer")

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._disarm()
        super().connection_lost(exc)
        if self._unread is not None:
            self._unread.cancel()
        self._connections.closed(self)

    def end(self, why: str) -> None:
        """Close it at once; a client that took too long for a head gets an answer first."""
        if self.transport.is_closing():
            return
        CLOSED.labels(why).inc()
        if why == "head" and self._head:
            self.transport.write(_TOO_SLOW)
            self.transport.close()
        else:
            self.transport.abort()

    def _arm(self, seconds: float, what: str) -> None:
        self._disarm()
        self._request = self.loop.call_later(seconds, self.end, what)

    def _disarm(self) -> None:
        if self._request is not None:
            self._request.cancel()
            self._request = None
