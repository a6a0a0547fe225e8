"""The catalogue of metrics: each declared once, with its unit, its meaning and what an operator does about it.

A module declares its metrics as constants; `catalogue()` lists all of them for the documentation and for the test
that holds every name and text to the rules. A metric outside the catalogue cannot be made.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any, Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
from prometheus_client.metrics import MetricWrapperBase

REGISTRY: Final = CollectorRegistry()
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_SILENCE: Final = 5.0  # seconds that a connection may say nothing
_MOST_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Declared:
    """One line of the catalogue."""

    name: str
    kind: str
    unit: str
    meaning: str
    action: str
    labels: tuple[str, ...]


_declared: dict[str, Declared] = {}


def counter(name: str, *, unit: str, meaning: str, action: str, labels: Iterable[str] = ()) -> Counter:
    """Declares what only grows. `name` begins with muster_ and ends in _total."""
    return Counter(*_declare(name, "counter", unit, meaning, action, labels), registry=REGISTRY)


def gauge(name: str, *, unit: str, meaning: str, action: str, labels: Iterable[str] = ()) -> Gauge:
    """Declares what goes up and down."""
    return Gauge(*_declare(name, "gauge", unit, meaning, action, labels), registry=REGISTRY)


def histogram(
    name: str,
    *,
    unit: str,
    meaning: str,
    action: str,
    labels: Iterable[str] = (),
    buckets: Iterable[float] = SECONDS,
) -> Histogram:
    """Declares a distribution; `buckets` are upper bounds in `unit`."""
    return Histogram(
        *_declare(name, "histogram", unit, meaning, action, labels),
        registry=REGISTRY,
        buckets=tuple(buckets),
    )


def catalogue() -> tuple[Declared, ...]:
    """Everything declared so far, by name."""
    return tuple(_declared[name] for name in sorted(_declared))


def value(metric: MetricWrapperBase, **labels: str) -> float:
    """What a counter or gauge shows now; 0 where nothing was counted yet."""
    name = next(iter(metric.describe())).name
    suffix = "_total" if isinstance(metric, Counter) else ""
    return REGISTRY.get_sample_value(f"{name}{suffix}", labels) or 0.0


def _declare(
    name: str, kind: str, unit: str, meaning: str, action: str, labels: Iterable[str]
) -> tuple[str, str, tuple[str, ...]]:
    if not name.startswith("muster_") or name in _declared:
        raise ValueError(f"metric {name!r}: a name begins with muster_ and is declared once")
    if not meaning or not action:
        raise ValueError(f"metric {name!r}: say what it means and what an operator does about it")
    entry = Declared(name, kind, unit, meaning, action, tuple(labels))
    _declared[name] = entry
    return name, f"{meaning} [{unit}] {action}", entry.labels


class _Quiet(WSGIRequestHandler):
    timeout = _SILENCE

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """A scrape every few seconds is not worth a line."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection. Where there are too many, the oldest one is closed: it had its time."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        self._open: dict[socket.socket, None] = {}  # in the order of their coming
        self._turn = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._turn:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > _MOST_CONNECTIONS else None
        if oldest is not None:
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread ends by itself
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._turn:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke or said nothing is not worth a line."""


class Exposition:
    """The HTTP side door of a process: /metrics for Prometheus, /healthz and /ready with the reasons.

    It runs in threads of its own, so that it still answers when the event loop does not, or one caller says nothing.
    """

    def __init__(
        self,
        listen: str,
        health: Callable[[], dict[str, str]],
        degraded: Callable[[], dict[str, str]] = dict,
    ) -> None:
        """`health`: what keeps the process from serving. `degraded`: which part of its work waits, and why."""
        host, _, port = listen.rpartition(":")
        self._health = health
        self._degraded = degraded
        self._metrics = make_wsgi_app(REGISTRY)
        self._server: WSGIServer = make_server(
            host, int(port), self._answer, server_class=_Server, handler_class=_Quiet
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and frees the port."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") not in ("/healthz", "/ready"):
            return cast("Iterable[bytes]", self._metrics(environ, start_response))
        troubles = self._health()
        status = "200 OK" if not troubles else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        body = {"serving": not troubles, "troubles": troubles, "degraded": self._degraded()}
        return [json.dumps(body).encode()]
