"""A15: a readiness probe as a way to speak to other processes of the machine in the agent's name."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from muster_client import Muster
from muster_client.errors import InvalidInput, MusterError
from muster_client.phases import Phase
from tests.attacks.attack import Actor, Attack, Verdict, broken, held
from tests.attacks.stage import Stage

_PATIENCE: Final = 12.0  # seconds for the first question of a probe; it comes within one second of the start
_FORGED: Final = "POST /forged"
_SERVER: Final = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as server:
    server.settimeout(8)
    for _ in range(3):
        connection, _ = server.accept()
        connection.settimeout(0.5)
        got = b""
        try:
            while piece := connection.recv(4096):
                got += piece
        except OSError:
            pass
        os.write(1, got)
        connection.sendall(b"HTTP/1.1 503 no\\r\\nConnection: close\\r\\n\\r\\n")
        connection.close()
"""


@dataclass(slots=True)
class Stranger:
    """A server on the loopback that belongs to no replica, and what it was sent."""

    port: int = 0
    received: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def stranger() -> AsyncIterator[Stranger]:
    """A server that answers every request with 200, as a service of the machine would."""
    found = Stranger()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(2.0):
                found.received.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        yield found


def document(name: str, program: str, probe: dict[str, object]) -> str:
    """A training with one port and this probe, in the workload language."""
    spec = {
        "command": {"value": sys.executable},
        "arguments": {"value": f"-c '{program}'"},
        "ports": {"items": {"http": {"value": {"container": 8000}}}},
        "readinessProbe": {"value": probe},
    }
    return json.dumps(
        {"apiVersion": "run.ai/v2alpha1", "kind": "TrainingWorkload", "metadata": {"name": name}, "spec": spec}
    )


async def _undeclared_port(stage: Stage) -> Verdict:
    async with stranger() as somebody, Muster(stage.grpc, stage.tokens.get(Actor.RESEARCHER)) as muster:
        probe = {"path": "/a15-secret", "port": somebody.port}
        sleep = "import time; time.sleep(30)"
        workload = await muster.submit(document("a15-port", sleep, probe), project=stage.project)
        try:
            ended = await muster.wait(workload.id, timeout=_PATIENCE)
            reason = ended.reason.message
        except MusterError as error:
            reason = str(error)
        await muster.delete(workload.id)
        if somebody.received:
            return broken(f"the agent sent {somebody.received[0][:40]!r} to a port that is not the replica's")
        return held(f"no question reached port {somebody.port}: {reason[:160]}")


async def _smuggled_request(stage: Stage) -> Verdict:
    probe = {"path": "/", "port": 8000, "host": f"x\r\n\r\n{_FORGED} HTTP/1.1\r\nHost: x"}
    program = _SERVER.replace("'", '"')
    async with Muster(stage.grpc, stage.tokens.get(Actor.RESEARCHER)) as muster:
        try:
            workload = await muster.submit(document("a15-host", program, probe), project=stage.project)
        except InvalidInput as refused:
            return held(f"refused: {str(refused)[:160]}")
        with suppress(MusterError):
            await muster.wait(workload.id, timeout=_PATIENCE, phases={Phase.COMPLETED, Phase.FAILED})
        log = b"".join([piece.data async for piece in muster.logs(workload.id)])
        await muster.delete(workload.id)
        if _FORGED.encode() in log:
            return broken("the agent sent a second request that the user wrote")
        return held("the server saw no forged request")


_PROOF: Final = "tests/rules/test_attacks_budgets.py::test_an_unchecked_probe_sends_any_request_to_any_port"
ATTACKS: Final = (
    Attack("A15", "probe-asks-a-port-of-the-machine", Actor.RESEARCHER, _undeclared_port, _PROOF),
    Attack("A15", "probe-smuggles-a-request", Actor.RESEARCHER, _smuggled_request, _PROOF),
)
