"""A service that serves gRPC starts other programs, and none of them dies of gRPC's fork handlers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CHILDREN = 300
PROGRAM = f"""
import asyncio, collections, json, os
import muster_chassis
import grpc, uvloop

async def main():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    call = grpc.aio.insecure_channel(f"127.0.0.1:{{port}}").unary_unary("/none/None")

    async def ask():
        while True:
            try:
                await call(b"", timeout=1)
            except grpc.aio.AioRpcError:
                pass

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    codes = collections.Counter()
    for _ in range({CHILDREN}):
        child = await asyncio.create_subprocess_exec("true", stdin=asyncio.subprocess.PIPE)
        codes[await child.wait()] += 1
    print(json.dumps(codes), flush=True)
    os._exit(0)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def test_no_child_of_a_service_dies_before_it_is_its_program() -> None:
    """Without the setting of the chassis some 4 of 300 end with signal 11."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout) == {"0": CHILDREN}
