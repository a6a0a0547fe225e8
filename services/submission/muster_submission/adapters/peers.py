"""The other instances of submission: which of them has the stream of a cluster's agent, and the logs that it passes on.

An agent keeps one stream, to one instance; its row says to which. A call for a log at another instance is passed on
to that one with the caller's own token, so that it judges the caller as if he had called it. Holds: a call is passed
on once; an instance that ended without a word is followed by the one that the agent connects to next.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import grpc

from muster.api.v1 import cluster_agents_pb2 as api_agents
from muster.api.v1 import workloads_pb2 as api
from muster.api.v1 import workloads_pb2_grpc
from muster.api.v1.cluster_agents_pb2 import CheckClusterResponse, RetireAgentResponse
from muster.api.v1.cluster_agents_pb2_grpc import ClusterAgentsServiceStub
from muster_chassis.certificates import names_of, read_pair
from muster_chassis.database import TRANSIENT, Database
from muster_chassis.errors import ServiceError
from muster_chassis.key_files import KeyFileError
from muster_chassis.rpc import outgoing
from muster_chassis.rpc.tls import read_authorities
from muster_chassis.settings import anywhere
from muster_submission.adapters.agents import CHECK_SECONDS, RETIRE_SECONDS
from muster_submission.adapters.owners import as_it_was
from muster_submission.errors import NoAgent
from muster_submission.settings import SubmissionSettings

_PASSED_ON: Final = "muster-passed-on"
_AUTHORIZATION: Final = "authorization"
_KEEPALIVE: Final[Sequence[tuple[str, Any]]] = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
_BEYOND: Final = 5.0  # seconds for which a call that was passed on outlives the wait of the other instance
_TAKE: Final = """
INSERT INTO agent_streams (cluster, stream, instance, address, since) VALUES ($1, $2, $3, $4, now())
ON CONFLICT (cluster) DO UPDATE SET
    stream = excluded.stream, instance = excluded.instance, address = excluded.address, since = excluded.since
"""
_LEAVE: Final = "DELETE FROM agent_streams WHERE cluster = $1 AND stream = $2"
_FIND: Final = "SELECT instance, address FROM agent_streams WHERE cluster = $1"


@dataclass(frozen=True, slots=True)
class Peer:
    """Another instance. address: of its gRPC; empty where this one cannot reach it."""

    instance: str
    address: str


@dataclass(frozen=True, slots=True)
class Call:
    """What of a caller's call goes along when it is passed on. passed_on: another instance has done so already."""

    authorization: str | None = None
    passed_on: bool = False

    @classmethod
    def of(cls, context: Any) -> Call:
        """The call of a gRPC context."""
        given = dict(context.invocation_metadata() or ())
        return cls(given.get(_AUTHORIZATION), _PASSED_ON in given)


class Peers:
    """The instances of submission, as this one sees them."""

    def __init__(self, database: Database, settings: SubmissionSettings) -> None:
        self._database = database
        self._settings = settings
        self._own = Peer(settings.instance, settings.peer_address or _reachable(settings.grpc_listen))
        self._channels: dict[tuple[str, bytes], grpc.aio.Channel] = {}

    async def take(self, cluster: str, stream: str) -> None:
        """The newest stream of a cluster's agent is here."""
        await self._database.pool.execute(_TAKE, cluster, stream, self._own.instance, self._own.address)

    async def leave(self, cluster: str, stream: str) -> None:
        """A stream has ended. A row that stays, because PostgreSQL is away, leads to an instance that says so."""
        with suppress(*TRANSIENT, asyncpg.PostgresError):
            await self._database.pool.execute(_LEAVE, cluster, stream)

    async def elsewhere(self, cluster: str, call: Call) -> Peer | None:
        """The other instance that has the stream of a cluster's agent; None where this one has to answer."""
        if call.passed_on:
            return None
        row = await self._database.pool.fetchrow(_FIND, cluster)
        found = None if row is None else Peer(row["instance"], row["address"])
        return None if found == self._own else found

    async def logs(
        self, peer: Peer, cluster: str, request: api.StreamLogsRequest, call: Call
    ) -> AsyncGenerator[api.StreamLogsResponse]:
        """The log that another instance reads. Raises what it raises, NoAgent where it does not answer."""
        channel, metadata = self._prepared(peer, cluster, call)
        answers = workloads_pb2_grpc.WorkloadsServiceStub(channel).StreamLogs(request, metadata=metadata)
        try:
            async for answer in answers:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise _failure(error, peer, cluster) from error
        finally:
            answers.cancel()

    async def check(self, peer: Peer, request: api_agents.CheckClusterRequest, call: Call) -> CheckClusterResponse:
        """The check that another instance has made. Raises what it raises, NoAgent where it does not answer."""
        found: CheckClusterResponse = await self._passed(
            peer, request, call, lambda stub: stub.CheckCluster, CHECK_SECONDS + _BEYOND
        )
        return found

    async def retire(self, peer: Peer, request: api_agents.RetireAgentRequest, call: Call) -> RetireAgentResponse:
        """What came of it at another instance. Raises what it raises, NoAgent where it does not answer."""
        came: RetireAgentResponse = await self._passed(
            peer, request, call, lambda stub: stub.RetireAgent, RETIRE_SECONDS + _BEYOND
        )
        return came

    async def _passed(
        self, peer: Peer, request: Any, call: Call, method: Callable[[ClusterAgentsServiceStub], Any], seconds: float
    ) -> Any:
        """The answer of another instance to a question that an agent answers."""
        channel, metadata = self._prepared(peer, request.cluster, call)
        try:
            return await method(ClusterAgentsServiceStub(channel))(request, metadata=metadata, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise _failure(error, peer, request.cluster) from error

    def _prepared(self, peer: Peer, cluster: str, call: Call) -> tuple[grpc.aio.Channel, list[tuple[str, str]]]:
        """The channel to an instance, and what goes along with a call that is passed on. Raises NoAgent."""
        if not peer.address:
            raise NoAgent(cluster, f"instance {peer.instance}, to which it is connected, has no MUSTER_PEER_ADDRESS")
        metadata = [*outgoing(), (_PASSED_ON, self._own.instance)]
        if call.authorization is not None:
            metadata.append((_AUTHORIZATION, call.authorization))
        try:
            return self._channel(peer.address), metadata
        except KeyFileError as error:
            raise NoAgent(cluster, f"instance {peer.instance} cannot be called: {error}") from error

    async def close(self) -> None:
        """Closes the channels."""
        for one in self._channels.values():
            await one.close()

    def _channel(self, address: str) -> grpc.aio.Channel:
        """A channel to an instance; a new one once the files that it trusts have changed."""
        roots = self._roots()
        if (address, roots) not in self._channels:
            self._channels[address, roots] = self._opened(address, roots)
        return self._channels[address, roots]

    def _roots(self) -> bytes:
        certificate, key = self._settings.tls_certificate_file, self._settings.tls_key_file
        if certificate is None or key is None:
            return b""
        if self._settings.peer_ca_file is not None:
            return read_authorities(self._settings.peer_ca_file)
        return read_pair(certificate, key).chain

    def _opened(self, address: str, roots: bytes) -> grpc.aio.Channel:
        if not roots:
            return grpc.aio.insecure_channel(address, options=_KEEPALIVE)
        options = list(_KEEPALIVE)
        if self._settings.peer_ca_file is None:
            # The instances show one certificate: it alone is trusted, and it names what people call.
            options.append(("grpc.ssl_target_name_override", names_of(roots)[0]))
        return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(roots), options=options)


def _failure(error: grpc.aio.AioRpcError, peer: Peer, cluster: str) -> ServiceError:
    """The error for the caller whose call another instance has not answered."""
    if error.code() is grpc.StatusCode.UNAVAILABLE and not error.trailing_metadata():
        return NoAgent(cluster, f"instance {peer.instance} at {peer.address} does not answer")
    return as_it_was(error)


def _reachable(listen: str) -> str:
    """Where others reach what listens there; empty for a server that listens on all addresses of its machine."""
    return "" if anywhere(listen) else listen
