"""A way to an API server that can be cut: what an agent sends then waits, as in a network that loses no byte.

Holds: what was sent while the way was cut arrives once it is open again, however late that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

_CHUNK: Final = 1 << 16


class Gate:
    """url: by which the API server is reached through it."""

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""

    def cut(self) -> None:
        """Let nothing through, in either direction."""
        self._open.clear()

    def mend(self) -> None:
        """Let everything through, also what was sent meanwhile."""
        self._open.set()

    async def listen(self, stack: AsyncExitStack) -> None:
        """Take connections until the stack is closed."""
        listening = await stack.enter_async_context(await asyncio.start_server(self._connect, "127.0.0.1", 0))
        stack.callback(self._end)
        port = listening.sockets[0].getsockname()[1]
        self.url = f"{self._server.scheme}://127.0.0.1:{port}"

    def _end(self) -> None:
        for task in self._connections:
            task.cancel()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        there, back = await asyncio.open_connection(self._server.hostname, self._server.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, back))
                both.create_task(self._pass_on(there, writer))
        finally:
            for each in (writer, back):
                each.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one of them has gone
            while data := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
            await self._open.wait()
            writer.write_eof()


@asynccontextmanager
async def gate(server: str) -> AsyncIterator[Gate]:
    """A way to the server with that address, until the block ends."""
    made = Gate(server)
    async with AsyncExitStack() as stack:
        await made.listen(stack)
        yield made
