"""The process that carries the connections of services: it listens where the agent says, and goes on when that dies.

Started by the agent for its first service (`services.py`), detached from it, one a state folder. Standard library only.
The agent speaks to it over a Unix socket in its state folder, a JSON object a line and an answer for each:

    {"port": 20001, "to": [20002]}     listen there and lead to these ports; without "to" what was said last goes on
    {"port": 20001, "closed": true}    end every connection and give the port up
    {"list": true}                     answered by {"pid": 4711, "routes": {"20001": [20002]}}
    {"quit": true}

Holds: it ends by itself once its socket is not in the state folder any more, so that nothing is left of a folder that
was removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any, Final

from muster_cluster_agent.adapters.local.proxy import Proxy

NAME: Final = b"muster-pump"
_PR_SET_NAME: Final = 15
_LOOK_SECONDS: Final = 10.0


class Pump:
    """The open addresses, by port."""

    def __init__(self) -> None:
        self._proxies: dict[int, Proxy] = {}
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one agent until it goes."""
        with contextlib.suppress(OSError, ValueError):
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(json.loads(line))).encode() + b"\n")
                await writer.drain()
        writer.close()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("quit"):
            self.ended.set()
        elif asked.get("list"):
            return {
                "pid": os.getpid(),
                "routes": {str(port): list(proxy.targets) for port, proxy in self._proxies.items()},
            }
        elif asked.get("closed"):
            proxy = self._proxies.pop(int(asked["port"]), None)
            if proxy is not None:
                await proxy.close()
        else:
            return await self._lead(int(asked["port"]), asked.get("to"))
        return {}

    async def _lead(self, port: int, targets: list[int] | None) -> dict[str, Any]:
        proxy = self._proxies.get(port)
        if proxy is None:
            proxy = Proxy(port)
            try:
                await proxy.open()
            except OSError as error:
                return {"error": str(error)}
            self._proxies[port] = proxy
        if targets is not None:
            proxy.route(tuple(targets))
        return {}


def listening(path: str) -> socket.socket:
    """The control socket, in the place of an earlier one. A path may be longer than a socket's 107 bytes."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        made.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)
    os.chmod(path, 0o600)
    made.listen()
    return made


async def run(path: str) -> None:
    """Serve until the agent's folder is gone or a stop is requested."""
    pump = Pump()
    control = listening(path)
    mine = os.stat(path).st_ino
    await asyncio.start_unix_server(pump.serve, sock=control)
    os.write(1, b"ready\n")
    while not pump.ended.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(pump.ended.wait(), _LOOK_SECONDS)
        try:
            if os.stat(path).st_ino != mine:
                return  # another one has come in our place
        except OSError:
            return


def main() -> None:
    """The process itself, a child of no agent: who started it waits for the parent alone."""
    if os.fork():
        os._exit(0)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the agent's business
    asyncio.run(run(sys.argv[2]))
    os._exit(0)  # open connections end with this process


if __name__ == "__main__":
    main()
