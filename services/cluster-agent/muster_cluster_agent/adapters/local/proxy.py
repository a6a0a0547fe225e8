"""One local address for a service of many replicas: a TCP proxy that takes them in turn.

Used by the pump, one Proxy a workload. Standard library only. Holds: only routed (READY) replicas get connections, on
ports of this machine's loopback; a connection whose replica does not answer is tried at the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_CONNECT_SECONDS: Final = 2.0
_CHUNK: Final = 65536
_MOST_CONNECTIONS: Final = 1024


class Proxy:
    """The address of one workload."""

    def __init__(self, port: int) -> None:
        """`port`: where it listens on loopback once it is opened."""
        self.port = port
        self._targets: tuple[int, ...] = ()
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def targets(self) -> tuple[int, ...]:
        """The ports that new connections go to."""
        return self._targets

    async def open(self) -> None:
        """Listens. Raises OSError where another process took the port while the agent was away."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)

    def route(self, ports: tuple[int, ...]) -> None:
        """New connections go to these ports, in turn."""
        self._targets = ports

    async def close(self) -> None:
        """Ends every connection and gives the port up."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= _MOST_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connect()
        if upstream is None:
            writer.close()
            return
        server_reader, server_writer = upstream
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(_pump(reader, server_writer))
                pumps.create_task(_pump(server_reader, writer))
        finally:
            for end in (writer, server_writer):
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        targets = self._targets
        for _ in range(len(targets)):
            self._turn += 1
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(LOOPBACK, targets[self._turn % len(targets)])
        return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, to its end; the half-close is passed on."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
