"""Traces that follow a workload: W3C traceparent through gRPC metadata and Kafka headers.

The identifier travels always, in a context variable; spans are made and exported only where an OTLP endpoint is set,
so that a service without one pays a few microseconds a call.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

_FORM: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)
_provider: TracerProvider | None = None


def configure(service: str, instance: str, endpoint: str | None) -> None:
    """Exports spans to `endpoint` (OTLP over gRPC) in batches; None: nothing is exported."""
    global _provider  # noqa: PLW0603 - one process, one exporter
    if endpoint is None:
        return
    # Half a second of every process's start, paid only where something is exported.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    resource = Resource.create({"service.name": f"muster-{service}", "service.instance.id": instance})
    _provider = TracerProvider(resource=resource)
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True)))


def close() -> None:
    """Sends what is left. Bounded by the exporter's own deadline."""
    if _provider is not None:
        _provider.shutdown()


def valid(text: str | None) -> str | None:
    """`text` where it is a well-formed traceparent of version 00, else None: a trace never fails an event."""
    return text if text is not None and _FORM.fullmatch(text) else None


def fresh() -> str:
    """The traceparent of a new trace."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def current() -> str | None:
    """The traceparent of what this task is doing."""
    return _current.get()


def trace_id(traceparent: str) -> str:
    """The 32 hexadecimal digits that all spans of one trace share."""
    return traceparent[3:35]


@contextmanager
def span(name: str, parent: str | None, *, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[str]:
    """Does the body under a span named `name`; yields its traceparent, which children and headers carry on."""
    parent = valid(parent)
    if _provider is None:
        traceparent = parent or fresh()
        token = _current.set(traceparent)
        try:
            yield traceparent
        finally:
            _current.reset(token)
        return
    context = trace.set_span_in_context(trace.NonRecordingSpan(_parse(parent))) if parent else None
    with _provider.get_tracer("muster").start_as_current_span(name, context=context, kind=kind) as started:
        here = started.get_span_context()
        traceparent = f"00-{here.trace_id:032x}-{here.span_id:016x}-{int(here.trace_flags):02x}"
        token = _current.set(traceparent)
        try:
            yield traceparent
        finally:
            _current.reset(token)


def recording() -> bool:
    """Whether spans are exported, so that callers on a hot path can leave them out."""
    return _provider is not None


def _parse(traceparent: str) -> SpanContext:
    _version, trace_hex, span_hex, flags = traceparent.split("-")
    return SpanContext(int(trace_hex, 16), int(span_hex, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
