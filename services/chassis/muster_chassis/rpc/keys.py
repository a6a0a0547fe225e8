"""The keys that an issuer signs with: from a file, or from where the issuer publishes them (JWKS).

Called by the authenticator with the `kid` of a token. Holds: whatever a token says (`jku`, `x5u` and
`jwk` are not read), nothing is fetched but the address in the settings, at most once a minute, bounded in size and
time, without redirects.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import h11
import jwt
import msgspec

from muster_chassis import logs
from muster_chassis.errors import Unavailable
from muster_chassis.settings import fetchable

_log = logs.get(__name__)
_AGAIN: Final = 60.0  # seconds between two fetches, whatever tokens come
_OLD: Final = 3600.0  # after which keys are looked up again, so that a withdrawn one goes
_LARGEST: Final = 256 << 10
_SECONDS: Final = 5.0
_MOST: Final = 100
_KINDS: Final = ("EC", "RSA", "OKP")  # a symmetric key in public would sign for everybody

Fetch = Callable[[str], Awaitable[bytes]]


class Keys(Protocol):
    """Where the key of a token is found."""

    async def find(self, kid: str | None) -> Any | None:
        """The key of that id; without one the only key there is; None where there is none. May raise Unavailable."""
        ...


@dataclass(frozen=True, slots=True)
class OneKey:
    """A key from a file: it signs whatever the token's `kid` says."""

    key: bytes

    async def find(self, _kid: str | None) -> bytes:
        """The key."""
        return self.key


class FetchError(Exception):
    """The keys could not be had: says why."""


class FetchedKeys:
    """The keys at an address, remembered."""

    def __init__(self, url: str, *, fetch: Fetch | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._url = url
        self._fetch = fetch or get
        self._clock = clock
        self._keys: Mapping[str, Any] = {}
        self._tried = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None) -> Any | None:
        """The key of that id. Raises Unavailable while the issuer has never answered."""
        if self._fetching is None and self._clock() - self._tried >= (_OLD if self._known(kid) is not None else _AGAIN):
            self._tried = self._clock()
            self._fetching = asyncio.create_task(self._refresh(), name=f"keys of {self._url}")
        if self._fetching is not None:
            # Shielded: a caller that hangs up must not keep the keys from everyone else for a minute.
            await asyncio.shield(self._fetching)
        found = self._known(kid)
        if found is None and not self._keys:
            raise Unavailable(f"the keys of the token's issuer cannot be had from {self._url}", retry_after=5.0)
        return found

    def _known(self, kid: str | None) -> Any | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                self._keys = read_keys(await self._fetch(self._url))
        except (FetchError, OSError, TimeoutError) as error:
            _log.warning("an issuer's keys cannot be had", url=self._url, error=repr(error))
        finally:
            self._fetching = None


def read_keys(document: bytes) -> dict[str, Any]:
    """The public keys of a JWKS by id; what is no signing key of a known kind is left out. Raises FetchError."""
    try:
        read = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FetchError(f"it is no JSON: {error}") from error
    listed = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(listed, list):
        raise FetchError("it is no JWKS: a member `keys` with a list is expected")
    found = {}
    for one in listed[:_MOST]:
        if not isinstance(one, dict) or one.get("kty") not in _KINDS or one.get("use", "sig") != "sig":
            continue
        try:
            found[str(one.get("kid", ""))] = jwt.PyJWK(one).key
        except (jwt.PyJWTError, ValueError, TypeError):
            continue  # a key of a kind that is not known here must not take the others with it
    return found


async def get(url: str) -> bytes:
    """The body of a GET: status 200 only, so no redirect is followed. Raises FetchError and OSError."""
    if not fetchable(url):
        raise FetchError("only https, or http on the loopback, is fetched")
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=ssl.create_default_context() if secure else None
    )
    try:
        return await _exchange(reader, writer, parts.netloc, parts.path or "/", parts.query)
    except h11.RemoteProtocolError as error:
        raise FetchError(f"it does not speak HTTP: {error}") from error
    finally:
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, path: str, query: str
) -> bytes:
    talk = h11.Connection(h11.CLIENT)
    target = f"{path}?{query}" if query else path
    headers = [("Host", host), ("Accept", "application/json"), ("Connection", "close")]
    writer.write(talk.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
    writer.write(talk.send(h11.EndOfMessage()) or b"")
    body = bytearray()
    while True:
        match talk.next_event():
            case h11.NEED_DATA:
                talk.receive_data(await reader.read(65536))
            case h11.Response(status_code=status) if status != 200:  # noqa: PLR2004 - OK
                raise FetchError(f"it answers {status}")
            case h11.Data(data=data):
                body += data
                if len(body) > _LARGEST:
                    raise FetchError(f"it is larger than {_LARGEST} bytes")
            case h11.EndOfMessage() | h11.ConnectionClosed():
                return bytes(body)
