"""`python -m muster_stack.register ADDRESS CLUSTER...`: makes clusters known to submission.

A process of its own, so that the keeper itself stays without gRPC (40 MB). Repeating it changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import grpc

from muster.api.v1 import fleet_pb2, fleet_pb2_grpc

_DEADLINE: Final = 10.0  # seconds a call


async def register(address: str, clusters: Sequence[str]) -> None:
    """Registers each cluster. Raises grpc.RpcError."""
    async with grpc.aio.insecure_channel(address) as channel:
        fleet = fleet_pb2_grpc.FleetServiceStub(channel)
        for cluster in clusters:
            request = fleet_pb2.RegisterClusterRequest(cluster=cluster, idempotency_key=f"muster-up-{cluster}")
            await fleet.RegisterCluster(request, timeout=_DEADLINE, wait_for_ready=True)


def main() -> int:
    """0 when all are registered, else 1 and why on standard error."""
    address, *clusters = sys.argv[1:]
    try:
        asyncio.run(register(address, clusters))
    except grpc.RpcError as error:
        sys.stderr.write(f"clusters {', '.join(clusters)} are not registered: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
