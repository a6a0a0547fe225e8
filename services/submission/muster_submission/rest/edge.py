"""Around every HTTP request: who calls, until when, under which trace, how long it took, and what an error becomes.

The twin of the gRPC interceptor. Handlers raise errors of the chassis's tree and find the caller where gRPC's methods
find it. Holds: whatever is sent, the answer is one of the API's forms; no handler runs longer than `longest` seconds.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from opentelemetry.trace import SpanKind
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster_chassis import logs, metrics, tracing
from muster_chassis.rpc import NOBODY, Authenticator, Caller, Limiter, as_service_error, set_caller
from muster_chassis.settings import CallKind
from muster_submission.rest import answers, kubernetes
from muster_submission.rest.errors import Busy
from muster_submission.rest.operation import Operation
from muster_submission.rest.origins import Origins
from muster_submission.rest.query_names import check_query
from muster_submission.rest.router import Router

_log = logs.get(__name__)
_MOST: Final = 2000  # requests at once, those among them whose caller is still being found out
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_GONE: Final = 499  # never sent: whoever asked has hung up

REQUESTS: Final = metrics.histogram(
    "muster_rest_seconds",
    unit="seconds",
    meaning="HTTP requests served, by operation and status.",
    action="Slow or failing: the trace of a failing request is in the log.",
    labels=("operation", "status"),
)


class Edge:
    """The ASGI application.

    longest: seconds that a request may take; origins: which hosts it is called by; limiter: how many requests may be
    under way.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        authenticate: Authenticator,
        longest: float = 30.0,
        origins: Origins | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self._router = Router(operations)
        self._authenticate = authenticate
        self._longest = longest
        self._origins = origins or Origins()
        self._limiter = limiter or Limiter()
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        request = Request(scope, receive)
        began = time.monotonic()
        with tracing.span("http", request.headers.get("traceparent"), kind=SpanKind.SERVER) as trace:
            name, response = await self._answer(request, trace)
            response.headers["x-request-id"] = _request_id(request, trace)
            REQUESTS.labels(name, str(response.status_code)).observe(time.monotonic() - began)
            if response.status_code != _GONE:
                await response(scope, receive, send)

    async def _answer(self, request: Request, trace: str) -> tuple[str, Response]:
        """The answer, and the operation's name."""
        name = "none"
        self._under_way += 1
        try:
            if self._under_way > _MOST:
                raise Busy(f"{_MOST} requests are under way; repeat this one", retry_after=1.0)
            self._origins.check(request)
            operation, values = self._router.find(request.method, request.url.path)
            name = operation.name
            request.scope["path_params"] = values
            async with asyncio.timeout(self._longest):
                who = NOBODY if operation.public else await self._caller(request)
                set_caller(who)
                kind = CallKind.OPEN if operation.public else CallKind.REST
                connection = _connection(request)
                async with self._limiter.admitted(kind, who, connection):
                    return name, await self._limiter.served(kind, who, _handled(operation, request), connection)
        except ClientDisconnect:
            return name, answers.nothing(_GONE)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer here
            return name, _refusal(request, error, trace)
        finally:
            self._under_way -= 1

    async def _caller(self, request: Request) -> Caller:
        """Who asks, by which door and from where. Raises Unauthenticated."""
        who = await self._authenticate(request.headers.get("authorization"))
        channel = "kubernetes" if kubernetes.speaks(request.url.path) else "rest"
        return replace(who, channel=channel, peer=request.client.host if request.client else "")


async def _handled(operation: Operation, request: Request) -> Response:
    if operation.shown and not kubernetes.speaks(request.url.path):
        check_query(request, operation)
    return await operation.handler(request)


def _connection(request: Request) -> str:
    return f"{request.client.host}:{request.client.port}" if request.client else ""


def _refusal(request: Request, error: Exception, trace: str) -> Response:
    known = as_service_error(error)
    if known is None:
        _log.error("a request failed unexpectedly", exc_info=error)
    if kubernetes.speaks(request.url.path):
        return kubernetes.failed(tracing.trace_id(trace)) if known is None else kubernetes.refused(known)
    return answers.failed(tracing.trace_id(trace)) if known is None else answers.refused(known)


def _request_id(request: Request, trace: str) -> str:
    given = request.headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else tracing.trace_id(trace)
