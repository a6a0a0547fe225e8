"""How others talk to a running keeper: a Unix socket in the data folder, one JSON object a line, one answer a line.

The server half is part of house.py's process; `Stack` is the client half, used by the commands, the tests and chaos.

    {"do": "status"}                              {"ok": {"ready": true, "services": {..}}}
    {"do": "kill", "name": "policy", "signal": 9} {"ok": true}        what dies is restarted
    {"do": "wipe_kafka"}                          {"ok": "<new cluster id>"}
    {"do": "grant", "cluster": "east"}            {"ok": "agent-east"}        an identity on Kafka, its file is there
    {"do": "grant", "topic": .., "name": "etl"}   {"ok": "producer-etl"}
    {"do": "revoke", "name": "producer-etl"}      {"ok": null}
    {"do": "rotate_kafka"}                        {"ok": ["broker", ..]}      new passwords for all of Kafka
    {"do": "stop"}                                {"ok": true}        the keeper ends everything, then itself
    anything else                                 {"error": ".."}
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from muster_stack.errors import NotRunning, StackError, StartFailed
from muster_stack.keeper.child import told_dead
from muster_stack.layout import Layout
from muster_stack.processes import wait_until

Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]

_REQUEST_LIMIT: Final = 1 << 16  # bytes
_DEADLINE: Final = 90.0  # seconds; the longest request is a wipe of Kafka
_POLL: Final = 0.1


async def serve(path: Path, answer: Answer) -> asyncio.Server:
    """Listens; every request goes through `answer`, whose StackErrors become `error` answers."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await _answer_line(line, answer)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):  # the other side went away, or sent more than a line may have
            return
        finally:
            writer.close()

    await asyncio.to_thread(path.unlink, missing_ok=True)
    return await asyncio.start_unix_server(connected, path, limit=_REQUEST_LIMIT)


async def _answer_line(line: bytes, answer: Answer) -> dict[str, Any]:
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            return {"error": "a request is one JSON object a line"}
        return {"ok": await answer(request)}
    except json.JSONDecodeError as error:
        return {"error": f"not JSON: {error}"}
    except StackError as error:
        return {"error": str(error)}


class Stack:
    """A running stack, seen from outside."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def status(self) -> dict[str, Any]:
        """`ready`, and per service its row of stack.json. Raises NotRunning."""
        status: dict[str, Any] = self._ask({"do": "status"})
        return status

    def pid(self, name: str) -> int | None:
        """The process that this part is now, None between two."""
        pid: int | None = self.status()["services"][name]["pid"]
        return pid

    def restarts(self) -> dict[str, int]:
        """How often each part was started again."""
        return {name: row["restarts"] for name, row in self.status()["services"].items()}

    def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """Sends a signal to a part; False where it does not run just now. Raises StackError for an unknown name."""
        return bool(self._ask({"do": "kill", "name": name, "signal": int(number)}))

    def wipe_kafka(self) -> str:
        """Kafka comes back empty, on its port, as another cluster, whose id is returned."""
        return str(self._ask({"do": "wipe_kafka"}))

    def wait_ready(
        self, seconds: float = 60.0, *, give_up: bool = False, tell: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any]:
        """Waits until all parts are ready; returns the status. StartFailed names those that are not.

        `give_up`: also at once, with the end of its log, where a part dies at every start. `tell` hears of each status
        on the way.
        """
        deadline = time.monotonic() + seconds
        while True:
            status = self.status()
            if tell is not None:
                tell(status)
            if status["ready"]:
                return status
            if give_up and (dead := [(name, row) for name, row in status["services"].items() if row.get("hopeless")]):
                told = [told_dead(name, row["log"]) for name, row in dead]
                raise StartFailed("\n".join([*told, "it is tried on; `muster down` ends the stack"]))
            if time.monotonic() > deadline:
                raise StartFailed(f"not ready within {seconds:g} s: {'; '.join(_unready(status))}")
            time.sleep(_POLL)

    def grant_agent(self, cluster: str) -> str:
        """An identity on Kafka for the agent of a cluster; its name, which is also that of its password file."""
        return str(self._ask({"do": "grant", "cluster": cluster}))

    def grant_producer(self, topic: str, name: str) -> str:
        """An identity on Kafka for a program outside that writes `topic`; its name."""
        return str(self._ask({"do": "grant", "topic": topic, "name": name}))

    def revoke(self, name: str) -> None:
        """Takes away an identity that was given out."""
        self._ask({"do": "revoke", "name": name})

    def rotate_kafka(self) -> list[str]:
        """New passwords for every identity on Kafka; their names."""
        return [str(name) for name in self._ask({"do": "rotate_kafka"})]

    def stop(self, seconds: float = _DEADLINE) -> None:
        """Ends it; returns when the keeper is gone. Raises NotRunning, TimeoutError."""
        self._ask({"do": "stop"})
        wait_until(lambda: not self.layout.control.exists(), seconds=seconds, what="the stack's end", every=_POLL)

    def _ask(self, request: Mapping[str, Any]) -> Any:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_DEADLINE)
                connection.connect(str(self.layout.control))
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    line = lines.readline()
        except OSError as error:
            raise NotRunning(f"no stack runs in {self.layout.root} (start one with `muster up`)") from error
        if not line:
            raise NotRunning(f"the stack in {self.layout.root} ended while it was asked")
        answer = json.loads(line)
        if "error" in answer:
            raise StackError(answer["error"])
        return answer["ok"]


def _unready(status: Mapping[str, Any]) -> list[str]:
    rows = status["services"].items()
    waiting = [f"{name} is {_phase(row)} (its log: {row['log']})" for name, row in rows if row["state"] != "ready"]
    return waiting or [f"clusters are not registered yet: {', '.join(status.get('unregistered', []))}"]


def _phase(row: Mapping[str, Any]) -> str:
    return f"{row['state']}, {row['why']}" if row.get("why") else str(row["state"])
