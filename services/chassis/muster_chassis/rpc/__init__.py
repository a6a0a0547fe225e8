"""gRPC as Muster's services speak it: who calls, until when, what an error becomes, and each mutation done once."""

from muster_chassis.rpc.auth import (
    CREDENTIAL,
    Authenticator,
    Issuer,
    TokenAuthenticator,
    authenticator,
    everyone_is_local,
)
from muster_chassis.rpc.caller import LOCAL, NOBODY, Caller, caller, set_caller
from muster_chassis.rpc.grouping import Together
from muster_chassis.rpc.idempotency import LONGEST_KEY, KeyReused, once
from muster_chassis.rpc.interceptor import CallInterceptor, outgoing, remaining
from muster_chassis.rpc.limits import LIMITS, Limiter
from muster_chassis.rpc.server import LARGEST_MESSAGE, Server, Service, channel, internal_server, service
from muster_chassis.rpc.services import ServiceIdentity, ServiceName
from muster_chassis.rpc.shares import Shares
from muster_chassis.rpc.status import as_service_error, passed_on, status_of
from muster_chassis.rpc.tls import ServerTls, Target, server_tls

__all__ = [
    "CREDENTIAL",
    "LARGEST_MESSAGE",
    "LIMITS",
    "LOCAL",
    "LONGEST_KEY",
    "NOBODY",
    "Authenticator",
    "CallInterceptor",
    "Caller",
    "Issuer",
    "KeyReused",
    "Limiter",
    "Server",
    "ServerTls",
    "Service",
    "ServiceIdentity",
    "ServiceName",
    "Shares",
    "Target",
    "Together",
    "TokenAuthenticator",
    "as_service_error",
    "authenticator",
    "caller",
    "channel",
    "everyone_is_local",
    "internal_server",
    "once",
    "outgoing",
    "passed_on",
    "remaining",
    "server_tls",
    "service",
    "set_caller",
    "status_of",
]
