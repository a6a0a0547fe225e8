"""One call to the control plane: its token, its deadline, and trying again without doing twice.

Called by every method of the SDK. Holds: each attempt of a call sends the very same request, idempotency key
included, so that an answer lost on the way is asked for again and never repeated as an action; each attempt has a
deadline, and so has the whole; attempts are logged at debug level only, because a program's output is its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol, TypeVar

import grpc

from muster_client import tls
from muster_client.errors import TRANSIENT, MusterError, Unauthenticated, Unavailable, error_of
from muster_client.login import Login
from muster_kernel.ids import uuid7

Q = TypeVar("Q")
R = TypeVar("R")

MESSAGE_LIMIT: Final = 32 << 20
CHANNEL_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # grpc's own wait before it dials again grows to two minutes: a control plane that is back would go unnoticed.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 2.0
_DOUBLINGS: Final = 5

_log: Final = logging.getLogger(__name__)

OnRetry = Callable[[MusterError], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a caller waits, in seconds.

    For one attempt of a call, and for the call with all that are tried after it.
    """

    attempt: float = 10.0
    whole: float = 30.0


class Unary(Protocol[Q, R]):
    """A unary method of a generated stub."""

    def __call__(
        self, request: Q, /, *, timeout: float | None = None, metadata: grpc.aio.Metadata | None = None
    ) -> grpc.aio.UnaryUnaryCall[Q, R]:
        """Sends `request`; `timeout` in seconds."""
        ...


class Streaming(Protocol[Q, R]):
    """A server-streaming method of a generated stub."""

    def __call__(
        self, request: Q, /, *, timeout: float | None = None, metadata: grpc.aio.Metadata | None = None
    ) -> grpc.aio.UnaryStreamCall[Q, R]:
        """Sends `request`; `timeout` in seconds."""
        ...


def new_key() -> str:
    """A key that makes a mutation harmless to repeat: a UUIDv7, so that keys sort by time where they are looked at."""
    return uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))


class Calls:
    """Makes calls for one caller over one channel.

    `on_retry` hears of every attempt that failed and is followed by another.
    """

    def __init__(self, server: str, login: Login, patience: Patience, on_retry: OnRetry | None) -> None:
        self.server = server
        self.patience = patience
        self._login = login
        self._on_retry = on_retry

    async def unary(self, method: Unary[Q, R], request: Q, *, attempt: float | None = None) -> R:
        """The answer to `request`. `attempt`: seconds for one try, where the call itself waits for something.

        Raises the error of the last attempt once it is not worth another, or the time for the whole is over.
        """
        begun, fresh = time.monotonic(), False
        for failed in count():
            try:
                metadata = await self._login.metadata()
                return await method(request, timeout=attempt or self.patience.attempt, metadata=metadata)
            except grpc.aio.AioRpcError as answer:
                problem = self._named(error_of(answer))
            except TRANSIENT as trouble:
                problem = self._named(trouble)
            if isinstance(problem, Unauthenticated) and not fresh and self._login.forget():
                fresh = True  # once: a secret that was renewed since is read anew
                continue
            if not isinstance(problem, TRANSIENT) or time.monotonic() - begun >= self.patience.whole:
                raise problem
            self.told(problem)
            await asyncio.sleep(_pause(failed, problem.retry_after))
        raise AssertionError("the last attempt returns or raises")

    async def stream(self, method: Streaming[Q, R], request: Q) -> AsyncIterator[R]:
        """The items of one stream, as long as it lasts; not tried again here, because only its reader knows from where.

        It has no deadline: a watch or a log that is followed lasts as long as its reader, and keepalive notices a
        dead peer.
        """
        call = method(request, metadata=await self._login.metadata())
        try:
            async for item in call:
                yield item
        except grpc.aio.AioRpcError as problem:
            raise self._named(error_of(problem)) from None
        finally:
            call.cancel()

    def told(self, problem: MusterError) -> None:
        """Lets the caller know that `problem` is being waited out."""
        _log.debug("%s: asking again", problem.message)
        if self._on_retry is not None:
            self._on_retry(problem)

    def _named(self, problem: MusterError) -> MusterError:
        """`problem`, in words for a person where gRPC's own are about sockets."""
        if isinstance(problem, Unavailable) and not problem.service and not problem.detail.reason:
            silent = f"the control plane at {self.server} does not answer"
            why = tls.explain(self.server, problem.message) or _short(problem.message)
            return type(problem)(f"{silent}: {why}", detail=problem.detail)
        return problem


def _pause(failed: int, asked: float | None) -> float:
    """Seconds before the next attempt: what the control plane asked for, else twice as long each time.

    The random part keeps callers apart that have failed together.
    """
    if asked is not None:
        return asked
    doubled = _FIRST_WAIT * (1 << min(failed, _DOUBLINGS))
    return min(doubled + random.uniform(0, _FIRST_WAIT), _LONGEST_WAIT)  # noqa: S311  nobody guesses a pause


def _short(text: str) -> str:
    """What gRPC says of a broken connection, without the list of addresses it tried."""
    return text.rpartition("; last error: ")[2].removeprefix("UNKNOWN: ") or "no answer in time"
