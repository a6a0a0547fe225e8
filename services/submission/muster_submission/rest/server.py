"""HTTP in the service's own event loop: a bound socket, uvicorn behind it, and a stop that lets requests end.

Opened by the composition root. Signals stay with the runtime; a head of more than 64 KiB ends its connection, which
uvicorn would let grow without end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster_submission.rest.edge import Edge

_CONNECTIONS: Final = 2000
_LARGEST_HEAD: Final = 64 << 10
_BACKLOG: Final = 1024
_GRACE: Final = 5  # seconds for requests under way


class _Bounded(HttpToolsProtocol):
    """Counts the bytes of a request's head."""

    _head = 0
    _in_head = True

    def on_message_begin(self) -> None:
        self._head, self._in_head = 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > _LARGEST_HEAD and not self.transport.is_closing():
                self.transport.close()


class _Quiet(uvicorn.Server):
    """Leaves the signals to the runtime."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class RestServer:
    """The HTTP server of one process."""

    def __init__(self, listen: str, edge: Edge) -> None:
        host, _, port = listen.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._socket: socket.socket | None = None
        self._ended = asyncio.Event()
        self._server = _Quiet(_config(edge))
        self.port = 0
        """The port that it listens on, once started."""

    def start(self) -> None:
        """Takes the address: connections wait from here on. Raises OSError where it is taken."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.create_server(self._address, family=family, backlog=_BACKLOG)
        self.port = self._socket.getsockname()[1]

    async def run(self) -> None:
        """Answers until it is stopped."""
        try:
            await self._server.serve([self._socket] if self._socket else None)
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Takes no new requests, and waits for those under way."""
        self._server.should_exit = True
        await self._ended.wait()


def _config(edge: Any) -> uvicorn.Config:
    return uvicorn.Config(
        edge,
        http=_Bounded,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
    )
