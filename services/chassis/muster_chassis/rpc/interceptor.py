"""Around every call: who calls, until when, under which trace, how long it took, and what an error becomes.

One interceptor, so that the order of these is written down once: trace, then identity, then deadline, then the method.
Health and reflection need no token: a probe has none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import grpc
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from muster_chassis import logs, metrics, tracing
from muster_chassis.rpc.auth import Authenticator
from muster_chassis.rpc.caller import NOBODY, set_caller
from muster_chassis.rpc.status import as_service_error, internal, status_of

_log = logs.get(__name__)
_OPEN: Final = ("/grpc.health.", "/grpc.reflection.")

CALLS = metrics.histogram(
    "muster_rpc_seconds",
    unit="seconds",
    meaning="gRPC calls served, by method and code.",
    action="Slow or failing: the trace of a failing call is in the log.",
    labels=("method", "code"),
)

Behaviour = Callable[[Any, Any], Any]


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """longest: seconds that a unary call may take where the client has set no deadline, or a later one.

    public: methods that are called without a token, by `NOBODY`.
    """

    def __init__(
        self, authenticate: Authenticator, longest: float = 30.0, public: Collection[str] = frozenset()
    ) -> None:
        self._authenticate = authenticate
        self._longest = longest
        self._public = public

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """Wraps the method's handler, whichever of the four kinds it is."""
        handler = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith(_OPEN):
            return handler
        codecs = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._answer(method, handler.unary_unary), *codecs)
        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(self._answer(method, handler.stream_unary), *codecs)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), *codecs)
        return grpc.stream_stream_rpc_method_handler(self._stream(method, handler.stream_stream), *codecs)

    def _answer(self, method: str, behaviour: Behaviour) -> Behaviour:
        async def call(request: Any, context: Any) -> Any:
            with self._around(method, context) as outcome:
                try:
                    async with asyncio.timeout(self._seconds(context)):
                        await self._identify(method, context)
                        return await behaviour(request, context)
                except Exception as error:  # noqa: BLE001 - every error becomes a status here
                    await self._fail(context, error, outcome)

        return call

    def _stream(self, method: str, behaviour: Behaviour) -> Behaviour:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._around(method, context) as outcome:
                try:
                    await self._identify(method, context)
                    async for item in behaviour(request, context):
                        yield item
                except Exception as error:  # noqa: BLE001 - every error becomes a status here
                    await self._fail(context, error, outcome)

        return call

    async def _identify(self, method: str, context: Any) -> None:
        if method in self._public:
            who = NOBODY
        else:
            who = await self._authenticate(_metadata(context, "authorization"))
        set_caller(replace(who, channel="grpc", peer=str(context.peer() or "")))

    def _seconds(self, context: Any) -> float:
        remaining = context.time_remaining()
        return self._longest if remaining is None else min(self._longest, remaining)

    @contextmanager
    def _around(self, method: str, context: Any) -> Iterator[dict[str, str]]:
        outcome = {"code": "OK"}
        began = time.monotonic()
        try:
            with tracing.span(method, _metadata(context, "traceparent"), kind=SpanKind.SERVER):
                yield outcome
        except asyncio.CancelledError:
            outcome["code"] = "CANCELLED"
            raise
        finally:
            CALLS.labels(method, outcome["code"]).observe(time.monotonic() - began)

    async def _fail(self, context: Any, error: Exception, outcome: dict[str, str]) -> None:
        if isinstance(error, grpc.aio.AbortError):
            outcome["code"] = "ABORT"
            raise error
        known = as_service_error(error)
        if known is None:
            _log.error("a call failed unexpectedly", exc_info=error)
            status = internal(tracing.current() or tracing.fresh())
        else:
            status = status_of(known)
        outcome["code"] = known.code.name if known else "INTERNAL"
        await context.abort_with_status(rpc_status.to_status(status))


def _metadata(context: Any, name: str) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == name:
            return value if isinstance(value, str) else None
    return None


def outgoing() -> list[tuple[str, str]]:
    """Metadata for a call that this task makes in turn: its trace."""
    current = tracing.current()
    return [] if current is None else [("traceparent", current)]


def remaining(context: Any, at_most: float) -> float:
    """Seconds that a call made in turn may take: less than the caller's own deadline, so that it can be named."""
    left = context.time_remaining()
    return at_most if left is None else max(0.0, min(at_most, left * 0.9))
