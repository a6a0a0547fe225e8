"""Structured logs: one JSON object a line on standard error, with the service, the instance and the trace.

Called once by the runtime; everyone else asks `logs.get(__name__)`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

from muster_chassis import tracing

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_MILD: Final = frozenset({"debug", "info", "warning"})
_LIMIT: Final = 4096  # characters of one value: a poisonous record must not fill the disk through its log line


def configure(service: str, instance: str, level: str) -> None:
    """Sends this process's logs, those of its libraries included, to standard error as JSON lines."""
    threshold = _LEVELS.get(level.lower())
    if threshold is None:
        raise ValueError(f"MUSTER_LOG_LEVEL={level}: expected one of {', '.join(_LEVELS)}")
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _trace,
        _bounded,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_traces_of_warnings,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)
    # aiokafka reports every retry of a broker that is down, twenty times a second; ours say it once with what it means.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.contextvars.bind_contextvars(service=service, instance=instance)


# Until `configure` is called (tests, tools): plain lines through the standard library. structlog's own default would
# render every traceback with all local variables, which takes half a minute for one that holds events.
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["event"]),
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
    logger_factory=structlog.stdlib.LoggerFactory(),
)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of one module."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger


def _trace(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    current = tracing.current()
    if current is not None:
        event["trace"] = tracing.trace_id(current)
    return event


def _without_traces_of_warnings(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Keep a warning of a library to one line, such as asyncpg's of a slow database: nothing has failed for good."""
    given = event.get("exc_info")
    if not given or event.get("level") not in _MILD:
        return event
    del event["exc_info"]
    error = given if isinstance(given, BaseException) else (given if isinstance(given, tuple) else sys.exc_info())[1]
    return event if error is None else {**event, "error": repr(error)[:_LIMIT]}


def _bounded(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > _LIMIT:
            event[key] = value[:_LIMIT] + "..."
    return event
