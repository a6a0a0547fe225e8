"""A service as its own process, `python -m muster_<room>`, as the stack starts it.

Called by the integration tests of services. Holds: what was started is ended with the block, by SIGTERM first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support import identities
from tests.support.waiting import eventually


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Service:
    """One running service."""

    process: subprocess.Popen[bytes]
    grpc: str
    metrics: str
    log: Path

    async def ready(self, within: float = 60.0) -> None:
        """Waits until it says that it serves. Raises AssertionError with its log where it has ended."""

        async def look() -> bool:
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            try:
                async with httpx.AsyncClient() as client:
                    return (await client.get(f"http://{self.metrics}/ready")).status_code == httpx.codes.OK
            except httpx.HTTPError:
                return False

        await eventually(look, within=within)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    async def end(self, within: float = 30.0) -> int:
        """SIGTERM; the exit status. Raises TimeoutError where it does not end."""
        self.process.send_signal(signal.SIGTERM)

        async def look() -> bool:
            return self.process.poll() is not None

        await eventually(look, within=within)
        return self.process.returncode


@asynccontextmanager
async def service(room: str, folder: Path, *, database: str, kafka: str, **more: str) -> AsyncIterator[Service]:
    """`python -m muster_<room>`; `more` are further variables of its environment."""
    grpc, metrics = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
        "MUSTER_DATABASE_URL": database,
        "MUSTER_DATABASE_SCHEMA": room,
        "MUSTER_KAFKA_BOOTSTRAP": kafka,
        "MUSTER_KAFKA_SECURITY": "plaintext",
        "MUSTER_GRPC_LISTEN": grpc,
        "MUSTER_METRICS_LISTEN": metrics,
        "MUSTER_INSTANCE": f"{room}-0",
        "MUSTER_AUTH": "off",
        **identities.environment(),
        **more,
    }
    log = folder / f"{room}-{metrics.rpartition(':')[2]}.log"
    with log.open("wb") as out:
        process = await asyncio.to_thread(
            subprocess.Popen, [sys.executable, "-m", f"muster_{room}"], env=environment, stdout=out, stderr=out
        )
    running = Service(process, grpc, metrics, log)
    try:
        yield running
    finally:
        if process.poll() is None:
            try:
                await running.end()
            finally:
                if process.poll() is None:
                    running.kill()
