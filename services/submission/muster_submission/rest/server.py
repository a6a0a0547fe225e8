"""HTTP in the service's own event loop: a bound socket, uvicorn behind it, and a stop that lets requests end.

Opened by the composition root. Signals stay with the runtime; connections are guarded by `connections.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import uvicorn

from muster_submission.rest.connections import Connections, Guarded
from muster_submission.rest.edge import Edge

_CONNECTIONS: Final = 2000
_FILES: Final = 16_384  # open files that this process may want: connections of both ports, databases, logs
_BACKLOG: Final = 1024
_GRACE: Final = 5  # seconds for requests under way


class _Quiet(uvicorn.Server):
    """Leaves the signals to the runtime."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class RestServer:
    """The HTTP server of one process."""

    def __init__(self, listen: str, edge: Edge, *, reserved: bool = False) -> None:
        """reserved: another process of this user holds the port with SO_REUSEPORT and never listens."""
        host, _, port = listen.rpartition(":")
        self._address = (host.strip("[]"), int(port))
        self._reserved = reserved
        self._socket: socket.socket | None = None
        self._ended = asyncio.Event()
        self._server = _Quiet(_config(edge, Connections(min(_CONNECTIONS, _open_files() // 2))))
        self.port = 0
        """The port that it listens on, once started."""

    def start(self) -> None:
        """Takes the address: connections wait from here on. Raises OSError where it is taken."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.create_server(self._address, family=family, backlog=_BACKLOG, reuse_port=self._reserved)
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


def _open_files() -> int:
    """How many files this process may open, raised as far as the machine lets it: 1,024 is a usual beginning."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return _FILES if soft == resource.RLIM_INFINITY else max(soft, wanted)


def _config(edge: Any, connections: Connections) -> uvicorn.Config:
    return uvicorn.Config(
        edge,
        http=partial(Guarded, connections),  # type: ignore[arg-type]  # uvicorn calls it, and asks for nothing else
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # a line for each connection that does not speak HTTP would fill the disk: they are counted
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACE,
    )
