"""One mutating call, done once, however often it is sent (rule 4).

Methods call `once` around their work. The key's row, the work and the stored answer are one transaction: a failure
leaves no trace, a concurrent twin waits for the row and then gets the first one's answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeVar

from google.protobuf.message import Message

from muster_chassis.database import Database
from muster_chassis.errors import AlreadyExists, InvalidArgument, Violation
from muster_chassis.rpc.caller import caller
from muster_chassis.text import clean
from muster_chassis.unit import Unit

LONGEST_KEY: Final = 200
"""Characters of a key."""
_WINDOW: Final = timedelta(hours=24)
_TAKE: Final = """
INSERT INTO idempotency (caller, method, key, body, at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (caller, method, key) DO UPDATE SET body = excluded.body, response = NULL, at = excluded.at
    WHERE idempotency.at < excluded.at - $6::interval
RETURNING true
"""
_STORED: Final = "SELECT body, response FROM idempotency WHERE caller = $1 AND method = $2 AND key = $3"
_KEEP: Final = "UPDATE idempotency SET response = $4 WHERE caller = $1 AND method = $2 AND key = $3"

Response = TypeVar("Response", bound=Message)


async def once(
    database: Database,
    method: str,
    request: Message,
    response: type[Response],
    work: Callable[[Unit], Awaitable[Response]],
    *,
    key: str | None = None,
    window: timedelta = _WINDOW,
) -> Response:
    """The answer of `work`, done at most once for (caller, method, key) within the window.

    key: defaults to the request's field `idempotency_key`. Raises InvalidArgument for a missing key, KeyReused
    where the key came with another body before, and whatever `work` raises.
    """
    key = getattr(request, "idempotency_key", "") if key is None else key
    check_key(key)
    who, content = clean(caller().key, 1000), bytes_of(request)
    body = database.fingerprints.of(content)
    async with database.unit() as unit:
        # Waits here while a twin is under way: its row is locked until its transaction has ended.
        if await unit.connection.fetchval(_TAKE, who, method, key, body, unit.now, window):
            answer = await work(unit)
            await unit.connection.execute(_KEEP, who, method, key, answer.SerializeToString())
            return answer
        (row,) = await unit.connection.fetch(_STORED, who, method, key)
        if not database.fingerprints.same(row["body"], content):
            raise KeyReused(key)
        return response.FromString(row["response"])


class KeyReused(AlreadyExists):
    """Another request came under a key before. The key was the caller's own."""

    reason = "IDEMPOTENCY_KEY_REUSED"
    said = "This idempotency key belongs to another request"

    def __init__(self, key: str) -> None:
        super().__init__(f"idempotency key {key!r} came with another request before; use a new key for a new request")


def check_key(key: str) -> None:
    """Raises InvalidArgument where a key is missing or too long."""
    if 1 <= len(key) <= LONGEST_KEY and "\x00" not in key:
        return
    described = f"{len(key)} characters" if key else "missing"
    raise InvalidArgument(
        f"idempotency_key is {described}; every call that changes something needs one of 1 to {LONGEST_KEY} characters",
        violations=[Violation("idempotency_key", f"1 to {LONGEST_KEY} characters, a new UUID for each new request")],
    )


def bytes_of(request: Message) -> bytes:
    """What makes two requests the same."""
    return request.SerializeToString(deterministic=True)
