"""Connections of aiokafka that end as the library expects, under uvloop too (aiokafka issue 1038).

uvloop raises RuntimeError where something is written to a connection that was closed a moment ago; asyncio drops it, or
raises OSError. aiokafka handles OSError alone. Its task that refreshes the metadata ends with any other error, and
whatever waits for new metadata after that waits for ever. Called by `kafka`, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError

_WRITING: Final = ("send", "_send_sasl_token")


def repair() -> None:
    """Makes every connection raise KafkaConnectionError where it is found closed while something is written."""
    for name in _WRITING:
        setattr(AIOKafkaConnection, name, _as_broken(getattr(AIOKafkaConnection, name)))


def _as_broken(write: Callable[..., Any]) -> Callable[..., Any]:
    def written(connection: AIOKafkaConnection, *args: Any, **kwargs: Any) -> Any:
        try:
            return write(connection, *args, **kwargs)
        except KafkaError:  # a RuntimeError, too
            raise
        except RuntimeError as error:
            connection.close(reason=CloseReason.CONNECTION_BROKEN)
            where = f"{connection.host}:{connection.port}"
            raise KafkaConnectionError(f"the connection to {where} is closed: {error}") from error

    return written
