"""Keeps a copy of one kind of objects as the API server has them: a list, then a watch from there on, for ever.

A loop of our own, since the library's repeats a stale version and spins on an empty stream (reference/replicas.md 6).
Holds: what was deleted between two watches is seen as deleted after the next list; an object that cannot be read is
one line in the log, stays as it was last read, and the others are kept; an empty watch is never followed by the next
without a pause.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import aiohttp

from muster_chassis import logs, metrics
from muster_chassis.backoff import Backoff
from muster_cluster_agent.adapters.kubernetes.client import JSON, ApiError, Client, Unreachable, decoded
from muster_cluster_agent.errors import BackendError

T = TypeVar("T")
PAGE: Final = 500
_RELIST_SECONDS: Final = 600.0
_SHORTEST_WATCH: Final = 300  # seconds; each is up to twice as long, so that not all end at once
_SILENCE: Final = 90.0  # seconds; an API server sends a bookmark about once a minute
_LARGEST_LINE: Final = 8 << 20
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_EXPIRED: Final = 410
_SHORT_LIVED: Final = 1.0  # seconds: a watch that ended sooner is followed by a pause

RELISTS = metrics.counter(
    "muster_agent_kubernetes_lists_total",
    unit="lists",
    meaning="Full lists of one kind of objects that the agent has read from the API server.",
    action="If it grows by more than one in ten minutes a kind, look at the agent's log for why its watches break.",
    labels=("kind",),
)

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects that is followed: its name for people, its path, and the selector of labels.

    metadata_alone: only the metadata of the objects is read. optional: API servers of some versions do not serve it.
    """

    name: str
    path: str
    selector: str = ""
    metadata_alone: bool = False
    optional: bool = False


class Follower(Generic[T]):
    """The objects of one kind by `namespace/name`.

    read: an object of its JSON; it may raise ValueError, KeyError or TypeError. changed: called with the old and the
    new object after each change; None: there is none. listed: set once the first list is complete.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        read: Callable[[Mapping[str, Any]], T],
        changed: Callable[[str, T | None, T | None], None],
    ) -> None:
        self.items: dict[str, T] = {}
        self.listed = asyncio.Event()
        self.sound = False
        """Whether the copy follows the server: false from a break until the next list or watch."""
        self.unavailable = False
        """Whether the server has said that it does not serve the kind, or that this agent may not read it."""
        self.answered = asyncio.Event()
        """Set once the first list is complete, or it is known that there will be none."""
        self._client = client
        self._kind = kind
        self._read = read
        self._changed = changed
        self._version = ""
        self._listed_at = 0.0

    async def run(self) -> None:
        """Follows for ever. A break is said and repaired."""
        backoff = Backoff(first=0.8, last=30.0)
        while True:
            began = time.monotonic()
            try:
                if not self._version or began - self._listed_at >= _RELIST_SECONDS:
                    await self._list()
                await self._watch(backoff)
            except ApiError as error:
                if error.status == _EXPIRED:
                    self._version = ""
                elif error.status == _NOT_FOUND and self._kind.optional:
                    await self._without()
                else:
                    self._break(error)
            except BackendError as error:
                self._break(error)
            except (ValueError, KeyError, TypeError) as error:  # an event that is none: the next list says what is
                self._version = ""
                self._break(error)
            if time.monotonic() - began < _SHORT_LIVED:
                await backoff.pause()

    async def _without(self) -> None:
        """The server does not serve the kind. An upgrade of it may change that, which is seen in minutes."""
        self.sound = False
        self.unavailable = True
        self._version = ""
        self.answered.set()
        await asyncio.sleep(_RELIST_SECONDS)

    def _break(self, error: Exception) -> None:
        self.sound = False
        known, self.unavailable = self.unavailable, isinstance(error, ApiError) and error.status == _FORBIDDEN
        if self.unavailable:
            self._version = ""  # what changes meanwhile is in the next list alone
            self.answered.set()
        if not (known and self.unavailable):  # a right that is missing is said once
            _log.warning("objects of the cluster cannot be followed", kind=self._kind.name, error=str(error))

    async def _list(self) -> None:
        """Reads all pages, then takes the difference to what was known."""
        found: dict[str, T] = {}
        query = {"limit": str(PAGE), **self._selector()}
        while True:
            page = await self._client.call("GET", self._kind.path, query=query, accept=self._form("List"))
            for raw in page.get("items") or ():
                self._put(found, raw)
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        RELISTS.labels(self._kind.name).inc()
        self._version = str(metadata.get("resourceVersion", ""))
        self._listed_at = time.monotonic()
        for key in self.items.keys() - found.keys():
            self._tell(key, self.items.pop(key), None)
        for key, item in found.items():
            old = self.items.get(key)
            if old != item:
                self.items[key] = item
                self._tell(key, old, item)
        self.sound = True
        self.unavailable = False
        self.listed.set()
        self.answered.set()

    async def _watch(self, backoff: Backoff) -> None:
        seconds = random.randint(_SHORTEST_WATCH, 2 * _SHORTEST_WATCH)  # noqa: S311  spreads load, guards nothing
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": self._version,
            **self._selector(),
        }
        async with self._client.stream(self._kind.path, query, _SILENCE, self._form()) as content:
            self.sound = True
            buffered = bytearray()
            async for piece in _pieces(content):
                buffered += piece
                *lines, rest = bytes(buffered).split(b"\n")
                buffered = bytearray(rest)
                for line in lines:
                    if line:
                        self._take(decoded(line))
                        backoff.reset()
                if len(buffered) > _LARGEST_LINE:
                    self._version = ""
                    raise Unreachable(f"an event of {self._kind.name} has more than {_LARGEST_LINE} bytes")

    def _take(self, event: Mapping[str, Any]) -> None:
        """One event of a watch."""
        kind, raw = event["type"], event["object"]
        if kind == "ERROR":
            raise ApiError(int(raw.get("code", 0)), str(raw.get("reason", "")), str(raw.get("message", "")))
        self._version = str(raw["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            return
        key = _key(raw)
        old = self.items.get(key)
        if kind == "DELETED":
            if self.items.pop(key, None) is not None:
                self._tell(key, old, None)
            return
        self._put(self.items, raw)
        new = self.items.get(key)
        if new is not None and new != old:
            self._tell(key, old, new)

    def _tell(self, key: str, old: T | None, new: T | None) -> None:
        try:
            self._changed(key, old, new)
        except Exception:  # noqa: BLE001  what one object holds must not end the agent: it is in the log
            _log.exception("a change cannot be taken in", kind=self._kind.name, name=key)

    def _put(self, into: dict[str, T], raw: Mapping[str, Any]) -> None:
        key = _key(raw)
        try:
            into[key] = self._read(raw)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning("an object of the cluster cannot be read", kind=self._kind.name, name=key, error=repr(error))
            if key in self.items:  # it is still there: what was known of it must not look deleted
                into[key] = self.items[key]

    def _form(self, plural: str = "") -> str:
        """The form of the answer that is asked for: whole objects, or their metadata."""
        return f"{JSON};as=PartialObjectMetadata{plural};g=meta.k8s.io;v=v1" if self._kind.metadata_alone else JSON

    def _selector(self) -> dict[str, str]:
        return {"labelSelector": self._kind.selector} if self._kind.selector else {}


async def _pieces(content: aiohttp.StreamReader) -> Any:
    """The bytes as they come. Raises Unreachable where the connection breaks, or is silent for too long."""
    try:
        async for piece in content.iter_any():
            yield piece
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"the watch broke: {error!r}") from error


def _key(raw: Mapping[str, Any]) -> str:
    metadata = raw["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
