"""The agent's end of the pump: each question has its own answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

from muster_cluster_agent.adapters.local.pumping import PumpClient


async def test_the_answer_to_a_question_that_was_given_up_is_not_that_to_the_next_one(tmp_path: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()
    connections: list[asyncio.Task[None] | None] = []

    async def slow_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                asked.set()
                await go_on.wait()
                writer.write(json.dumps({"echo": json.loads(line)}).encode() + b"\n")
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(slow_echo, tmp_path / "pump.sock")
    pump = PumpClient(tmp_path / "pump.sock", tmp_path / "errors", lambda: None)
    try:
        given_up = asyncio.create_task(pump.ask({"port": 1}))
        await asked.wait()
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        go_on.set()
        async with asyncio.timeout(5):
            assert await pump.ask({"port": 2}) == {"echo": {"port": 2}}
    finally:
        await pump.close()
        await asyncio.gather(*(each for each in connections if each is not None))
        server.close()
        await server.wait_closed()
