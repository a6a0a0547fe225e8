"""The gRPC server of a process: its services, health, reflection, and a stop that lets calls end.

Opened by the composition root. Health follows `Health`: the process and each of its services are NOT_SERVING while a
condition has been in trouble beyond its grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health as health_names
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from muster.api.v1 import refused_calls_pb2, refused_calls_pb2_grpc
from muster_chassis.health import Health
from muster_chassis.key_files import TrustFile
from muster_chassis.rpc.auth import Authenticator, authenticator
from muster_chassis.rpc.interceptor import CallInterceptor, Gate
from muster_chassis.rpc.limits import INTERNAL, Limiter
from muster_chassis.rpc.refused_calls import RefusedCalls, RefusedCallsServicer
from muster_chassis.rpc.services import ServiceGate, ServiceName
from muster_chassis.rpc.tls import ServerTls
from muster_chassis.settings import CallKind, InternalSettings, RpcSettings

LARGEST_MESSAGE: Final = 16 << 20
_UNKNOWN: Final = 1000  # calls whose caller is being found out; beyond that gRPC itself refuses
_WATCH_SECONDS: Final = 0.25
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.max_send_message_length", LARGEST_MESSAGE),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.server_handshake_timeout_ms", 10_000),
]
_CLIENT_OPTIONS: Final = [
    *_OPTIONS[:2],
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service: its full name, the generated function that adds it, and what serves it."""

    name: str
    add: Callable[[Any, Any], None]
    servicer: Any
    methods: tuple[str, ...] = ()
    """The full names of its methods, `/package.Service/Method`."""


def service(descriptor: Any, add: Callable[[Any, Any], None], servicer: Any) -> Service:
    """A service by its descriptor, such as `dead_letters_pb2.DESCRIPTOR.services_by_name["DeadLettersService"]`."""
    methods = tuple(f"/{descriptor.full_name}/{method.name}" for method in descriptor.methods)
    return Service(str(descriptor.full_name), add, servicer, methods)


def internal_server(
    settings: InternalSettings, name: ServiceName, services: Sequence[Service], health: Health
) -> Server:
    """The server of a service that only other services call. Raises KeyFileError for an unusable trust file."""
    gate = ServiceGate(name, TrustFile(settings.trust_file))
    served = [*services, refused_calls_service(gate.refused_calls)]
    gate.check(method for one in served for method in one.methods)
    return Server(settings, served, health, gate.authenticate, gate=gate)


def refused_calls_service(ledger: RefusedCalls) -> Service:
    """What every service behind submission serves: the calls that it refused."""
    return service(
        refused_calls_pb2.DESCRIPTOR.services_by_name["RefusedCallsService"],
        refused_calls_pb2_grpc.add_RefusedCallsServiceServicer_to_server,
        RefusedCallsServicer(ledger),
    )


class Server:
    """The server of one process."""

    def __init__(
        self,
        settings: RpcSettings,
        services: Sequence[Service],
        health: Health,
        authenticate: Authenticator | None = None,
        public: Collection[str] = frozenset(),
        limiter: Limiter | None = None,
        kinds: Mapping[str, CallKind] | None = None,
        gate: Gate | None = None,
    ) -> None:
        """authenticate: says who calls, where the settings alone do not tell; public: methods without a token.

        limiter: how many calls may be under way; kinds: of which kind a method is that is no plain call or watch.
        gate: which caller may call which method at all; None: the methods judge.
        """
        limiter = limiter or Limiter(dict(INTERNAL) | settings.call_limits)
        self._health = health
        self._names = [one.name for one in services]
        self._servicer = HealthServicer()
        self._server = grpc.aio.server(
            interceptors=[
                CallInterceptor(
                    authenticate or authenticator(settings), public=public, limiter=limiter, kinds=kinds, gate=gate
                )
            ],
            # Two processes on one port would each get half of the calls: the second one must fail, unless the port is
            # held for us by one that never listens.
            options=[*_OPTIONS, ("grpc.so_reuseport", int(settings.ports_reserved))],
            maximum_concurrent_rpcs=limiter.most + _UNKNOWN,
        )
        for one in services:
            one.add(one.servicer, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        reflection.enable_server_reflection(
            [*self._names, health_names.SERVICE_NAME, reflection.SERVICE_NAME], self._server
        )
        self._listen = settings.grpc_listen
        self.port = 0
        """The port that it listens on, once started."""

    async def start(self, tls: ServerTls | None = None) -> None:
        """Listens, by TLS with that certificate or plain. Raises RuntimeError where the address is taken."""
        if tls is None:
            self.port = self._server.add_insecure_port(self._listen)
        else:
            self.port = self._server.add_secure_port(self._listen, tls.credentials())
        await self._tell()
        await self._server.start()

    async def run(self) -> None:
        """Keeps the health service true, for ever. An eternal task."""
        while True:
            await self._tell()
            await asyncio.sleep(_WATCH_SECONDS)

    async def stop(self, grace: float = 5.0) -> None:
        """Takes no new calls, and gives those under way `grace` seconds."""
        await self._servicer.enter_graceful_shutdown()
        await self._server.stop(grace)

    async def _tell(self) -> None:
        serving = health_pb2.HealthCheckResponse.SERVING
        status = serving if self._health.serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._servicer.set(name, status)


def channel(address: str) -> grpc.aio.Channel:
    """A channel to another service of ours, with our limits and keepalive. The caller closes it."""
    return grpc.aio.insecure_channel(address, options=_CLIENT_OPTIONS)
