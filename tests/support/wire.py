"""A PostgreSQL whose wire can be cut at the worst moment: while a commit is on its way, or its answer is.

A proxy in front of the real server's socket. Tests open a database through it and say what happens to the next COMMIT.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

_COMMIT = b"COMMIT\x00"


class Cut(Enum):
    """Where the wire is cut."""

    BEFORE = "the server never sees the commit"
    AFTER = "the commit happens, its answer is lost"


@dataclass
class Wire:
    """The proxy. `cut`: what happens to the next commit, once."""

    url: str
    cut: Cut | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def at_next_commit(self, cut: Cut) -> None:
        """Cuts the connection that commits next."""
        self.cut = cut


@asynccontextmanager
async def wire(url: str) -> AsyncIterator[Wire]:
    """A wire to the server of `url` (over a Unix socket or TCP); its own url goes through the proxy."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host", [""])[0]
    with tempfile.TemporaryDirectory(prefix="wire-") as here:
        query = f"host={quote(here, safe='')}"
        netloc = parts.netloc.rpartition("@")[0]
        made = Wire(urlunsplit(parts._replace(netloc=f"{netloc}@" if netloc else "", query=query)))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if folder:
                port = parse_qs(parts.query).get("port", [str(parts.port or 5432)])[0]
                back, front = await asyncio.open_unix_connection(str(Path(folder) / f".s.PGSQL.{port}"))
            else:
                back, front = await asyncio.open_connection(parts.hostname, parts.port or 5432)
            await _relay(made, (reader, writer), (back, front))

        server = await asyncio.start_unix_server(serve, str(Path(here) / ".s.PGSQL.5432"))
        try:
            yield made
        finally:
            server.close()


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _relay(made: Wire, client: Ends, server: Ends) -> None:
    """Passes bytes on in both directions until one side ends or the wire is cut."""
    silent = asyncio.Event()

    async def up() -> None:
        while data := await client[0].read(65536):
            if made.cut is not None and _COMMIT in data:
                cut, made.cut = made.cut, None
                silent.set()
                if cut is Cut.AFTER:
                    server[1].write(data)
                    await server[1].drain()
                    await server[0].read(65536)
                return
            server[1].write(data)

    async def down() -> None:
        while data := await server[0].read(65536):
            if silent.is_set():
                await asyncio.get_running_loop().create_future()
            client[1].write(data)

    tasks = {asyncio.ensure_future(up()), asyncio.ensure_future(down())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in (client[1], server[1]):
            with suppress(OSError):
                writer.close()
