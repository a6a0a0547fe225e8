"""`python -m muster_stack.register [--application FILE] ADDRESS CLUSTER...`: makes clusters known to submission.

A process of its own, so that the keeper itself stays without gRPC (40 MB). Repeating it changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import grpc

from muster.api.v1 import access_pb2, access_pb2_grpc, fleet_pb2, fleet_pb2_grpc

_DEADLINE: Final = 10.0  # seconds a call
_PATIENCE: Final = 60.0  # seconds in which services may still be starting
_PAUSE: Final = 0.1
_RECONNECT: Final = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
_NOT_YET: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

_T = TypeVar("_T")


async def register(address: str, clusters: Sequence[str], application: Mapping[str, str] | None = None) -> None:
    """Registers each cluster, as that application where calls need a token. Raises grpc.RpcError.

    It is called while submission and the scheduler start, and waits for them.
    """
    async with grpc.aio.insecure_channel(address, options=_RECONNECT) as channel:
        login = await _patiently(lambda: _login(channel, application)) if application else None
        fleet = fleet_pb2_grpc.FleetServiceStub(channel)
        for cluster in clusters:
            request = fleet_pb2.RegisterClusterRequest(cluster=cluster, idempotency_key=f"muster-up-{cluster}")
            ask = partial(fleet.RegisterCluster, request, timeout=_DEADLINE, wait_for_ready=True, metadata=login)
            await _patiently(ask)


async def _patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    """Repeats a call until its service has started."""
    ends = time.monotonic() + _PATIENCE
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() not in _NOT_YET or time.monotonic() > ends:
                raise
        await asyncio.sleep(_PAUSE)


async def _login(channel: grpc.aio.Channel, given: Mapping[str, str]) -> grpc.aio.Metadata:
    request = access_pb2.IssueTokenRequest(application=given["id"], secret=given["secret"])
    stub = access_pb2_grpc.TokenServiceStub(channel)
    answer = await stub.IssueToken(request, timeout=_DEADLINE, wait_for_ready=True)
    return grpc.aio.Metadata(("authorization", f"Bearer {answer.access_token}"))


def main() -> int:
    """0 when all are registered, else 1 and why on standard error."""
    parser = argparse.ArgumentParser(prog="python -m muster_stack.register", description=__doc__)
    parser.add_argument("--application", type=Path, default=None)
    parser.add_argument("address")
    parser.add_argument("clusters", nargs="*")
    given = parser.parse_args()
    clusters = given.clusters
    try:
        application = json.loads(given.application.read_text()) if given.application else None
        asyncio.run(register(given.address, clusters, application))
    except (grpc.RpcError, OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"clusters {', '.join(clusters)} are not registered: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
