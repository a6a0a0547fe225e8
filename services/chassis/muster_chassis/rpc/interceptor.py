"""Around every call: who calls, whether there is room, until when, under which trace, and what an error becomes.

One interceptor, so that the order of these is written down once: trace, then identity, then the limits, then the
request's bytes are read and decoded, then the method. To gRPC every method takes a stream of bytes: only so is it
called before the request has come, and the caller is known before anything of the request is decoded.
Health and reflection need no token: a probe has none.
Holds: a call's whole life is one task, so that what is begun in it (a span, a context variable, an iterator) ends in
it, also where the caller goes away.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import DecodeError
from grpc_status import rpc_status
from opentelemetry.trace import SpanKind

from muster_chassis import logs, metrics, tracing
from muster_chassis.errors import DeadlineExceeded, InvalidArgument, PermissionDenied, ServiceError, Unauthenticated
from muster_chassis.rpc.auth import Authenticator
from muster_chassis.rpc.caller import NOBODY, Caller, set_caller
from muster_chassis.rpc.limits import Limiter
from muster_chassis.rpc.status import as_service_error, internal, status_of
from muster_chassis.settings import CallKind

_log = logs.get(__name__)
_OPEN: Final = ("/grpc.health.", "/grpc.reflection.")
_REQUEST_SECONDS: Final = 10.0
"""For the request of a stream, and of a call without a token, to come."""

CALLS = metrics.histogram(
    "muster_rpc_seconds",
    unit="seconds",
    meaning="gRPC calls served, by method and code.",
    action="Slow or failing: the trace of a failing call is in the log.",
    labels=("method", "code"),
)
UNDECODABLE = metrics.counter(
    "muster_rpc_undecodable_total",
    unit="requests",
    meaning="gRPC requests whose bytes are no message of the method's type.",
    action="The service goes on: a client has another version, or tries calls; the log names the caller.",
    labels=("method",),
)

Behaviour = Callable[[Any, Any], Any]


class Gate(Protocol):
    """Which caller may call which method, in addition to what a method judges itself."""

    def admit(self, method: str, who: Caller) -> None:
        """Raises PermissionDenied where the caller may not call the method."""
        ...

    def refused(self, method: str, peer: str, error: ServiceError) -> None:
        """Hears of every call that was refused before its method began."""
        ...


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc,unused-ignore]
    """longest: seconds that a unary call may take where the client has set no deadline, or a later one.

    public: methods that are called without a token, by `NOBODY`. limiter: how many calls may be under way; kinds: of
    which kind methods are that are neither plain calls nor watches;
    gate: which caller may call which method at all.
    """

    def __init__(
        self,
        authenticate: Authenticator,
        longest: float = 30.0,
        public: Collection[str] = frozenset(),
        limiter: Limiter | None = None,
        kinds: Mapping[str, CallKind] | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._authenticate = authenticate
        self._gate = gate
        self._longest = longest
        self._public = public
        self._limiter = limiter or Limiter()
        self._kinds = kinds or {}

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """Wraps the method's handler, whichever of the four kinds it is."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        kind = self._kind(method, streams=bool(handler.response_streaming))
        read = _Reader(method, handler.request_deserializer, streams=bool(handler.request_streaming))
        if handler.response_streaming:
            wrapped = self._stream(method, kind, read, behaviour)
            return grpc.stream_stream_rpc_method_handler(wrapped, None, handler.response_serializer)
        wrapped = self._answer(method, kind, read, behaviour)
        return grpc.stream_unary_rpc_method_handler(wrapped, None, handler.response_serializer)

    def _kind(self, method: str, *, streams: bool) -> CallKind:
        if self._is_open(method):
            return CallKind.OPEN_STREAM if streams else CallKind.OPEN
        return self._kinds.get(method, CallKind.WATCH if streams else CallKind.UNARY)

    def _answer(self, method: str, kind: CallKind, read: _Reader, behaviour: Behaviour) -> Behaviour:
        longest = min(self._longest, _REQUEST_SECONDS) if self._is_open(method) else self._longest

        async def work(requests: Any, context: Any) -> Any:
            return await behaviour(await read(requests, longest), context)

        async def call(requests: Any, context: Any) -> Any:
            with self._around(method, context) as outcome:
                try:
                    async with asyncio.timeout(self._seconds(context)):
                        who = await self._identify(method, context)
                        async with self._limiter.admitted(kind, who):
                            return await self._limiter.served(kind, who, work(requests, context))
                except Exception as error:  # noqa: BLE001 - every error becomes a status here
                    await self._fail(context, error, outcome)

        return call

    def _stream(self, method: str, kind: CallKind, read: _Reader, behaviour: Behaviour) -> Behaviour:
        async def call(requests: Any, context: Any) -> None:
            with self._around(method, context) as outcome:
                try:
                    who = await self._identify(method, context)
                    async with self._limiter.admitted(kind, who):
                        await _send(behaviour(await read(requests, _REQUEST_SECONDS), context), context)
                except Exception as error:  # noqa: BLE001 - every error becomes a status here
                    await self._fail(context, error, outcome)

        return call

    def _is_open(self, method: str) -> bool:
        return method in self._public or method.startswith(_OPEN)

    async def _identify(self, method: str, context: Any) -> Caller:
        peer = str(context.peer() or "")
        try:
            who = await self._caller(method, context)
        except (Unauthenticated, PermissionDenied) as error:
            if self._gate is not None:
                self._gate.refused(method, peer, error)
            raise
        who = replace(who, channel="grpc", peer=peer)
        set_caller(who)
        return who

    async def _caller(self, method: str, context: Any) -> Caller:
        if self._is_open(method):
            return NOBODY
        who = await self._authenticate(_metadata(context, "authorization"))
        if self._gate is not None:
            self._gate.admit(method, who)
        return who

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


class _Reader:
    """Reads what a method is called with: one message, or an iterator of them."""

    def __init__(self, method: str, decode: Callable[[bytes], Any] | None, *, streams: bool) -> None:
        self._method = method
        self._decode = decode
        self._streams = streams

    async def __call__(self, requests: AsyncIterator[bytes], seconds: float) -> Any:
        """Raises InvalidArgument for a request that cannot be decoded, DeadlineExceeded for one that does not come."""
        if self._streams:
            return self._each(requests)
        try:
            async with asyncio.timeout(seconds):
                raw = await anext(aiter(requests), None)
        except TimeoutError as error:
            raise DeadlineExceeded(f"the request of {self._method} did not come within {seconds:g} s") from error
        if raw is None:
            raise InvalidArgument(f"{self._method} was called without a request")
        return self._decoded(raw)

    async def _each(self, requests: AsyncIterator[bytes]) -> AsyncGenerator[Any]:
        async for raw in requests:
            yield self._decoded(raw)

    def _decoded(self, raw: bytes) -> Any:
        try:
            return self._decode(raw) if self._decode is not None else raw
        except (DecodeError, ValueError) as error:
            UNDECODABLE.labels(self._method).inc()
            told = f"the request of {self._method} cannot be decoded: its {len(raw)} bytes are no message of that type"
            raise InvalidArgument(told, reason="UNDECODABLE") from error


async def _send(answers: Any, context: Any) -> None:
    """Sends what a streaming method yields; one that sends for itself is awaited."""
    if inspect.isawaitable(answers):
        await answers
        return
    async with aclosing(answers):
        async for item in answers:
            await context.write(item)


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
