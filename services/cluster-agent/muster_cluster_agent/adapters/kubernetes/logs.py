"""Logs of pods, read from the API server.

The API begins at a second or at the last lines, never at a byte. Lines are asked for with their times, so that a log
that is opened again goes on after the last line that was read. Holds: a followed log ends with its pod's container; one
that has gone silent is opened again, since the kubelet forgets to follow a file that was rotated (kubernetes 115701).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Final

import aiohttp

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Unreachable
from muster_cluster_agent.adapters.kubernetes.recorder import path_of
from muster_cluster_agent.domain.kubernetes.manifests import MAIN
from muster_cluster_agent.domain.kubernetes.pods import Pod
from muster_cluster_agent.domain.model import NodeHealth

SILENCE: Final = 30.0
_AGAIN_SECONDS: Final = 1.0
_NOTHING: Final = frozenset({400, 404})  # no container was made yet, or the pod has gone
_PIECE: Final = 64 << 10
_LONGEST_LINE: Final = 8 << 20
_TAIL_LINES: Final = 100
_TAIL_BYTES: Final = 1 << 20
_TAIL_SECONDS: Final = 5.0  # a report waits for it


class PodLogs:
    """The logs of this agent's pods."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    def names(self, workload_id: str) -> list[str]:
        """Replicas of a workload of which a pod is there, the newest run last."""
        pods = [pod for pod in self._cache.by_name.values() if pod.replica and pod.replica.workload_id == workload_id]
        ordered = sorted(pods, key=lambda pod: (pod.replica.generation, pod.replica.attempt, pod.name))  # type: ignore[union-attr]
        return [pod.name for pod in ordered]

    async def read(self, name: str, since: float | None, tail: int, *, follow: bool) -> AsyncIterator[bytes]:
        """A replica's log in pieces. Raises ApiError or Unreachable."""
        query = {"container": MAIN, "timestamps": "true"}
        if tail:
            query["tailLines"] = str(tail)
        if since is not None:
            query["sinceTime"] = _text(since)
        last = ""
        while (pod := self._cache.by_name.get(name)) is not None:
            following = follow and not pod.terminal
            try:
                async for at, text in self._lines(pod, {**query, "follow": str(following).lower()}, last):
                    last = at
                    for start in range(0, len(text), _PIECE):
                        yield text[start : start + _PIECE]
            except Unreachable:
                if not following:
                    raise
            if not following:
                return
            await asyncio.sleep(_AGAIN_SECONDS)  # the container may not be made yet
            query.pop("tailLines", None)
            if last:
                query["sinceTime"] = f"{last[:19]}Z"

    async def _lines(self, pod: Pod, query: Mapping[str, str], last: str) -> AsyncIterator[tuple[str, bytes]]:
        """Lines that were written after `last`, many at once, with the time of the newest of them."""
        try:
            async with self._client.stream(f"{path_of(pod)}/log", query, SILENCE) as content:
                async for lines in _whole_lines(content):
                    new = []
                    for line in lines:
                        stamp, _, text = line.partition(b" ")
                        at = _comparable(stamp.decode("ascii", "replace"))
                        if at > last:
                            last = at
                            new.append(text)
                    if new:
                        yield last, b"".join(new)
        except ApiError as error:
            if error.status not in _NOTHING:
                raise

    async def tail(self, name: str, limit: int) -> bytes:
        """The last lines, at most `limit` bytes. Empty where the log cannot be had: a report goes out without it."""
        pod = self._cache.by_name.get(name)
        node = self._cache.views().get(pod.node) if pod is not None else None
        if pod is None or node is None or node.health is not NodeHealth.UP:
            return b""
        query = {"container": MAIN, "tailLines": str(_TAIL_LINES), "limitBytes": str(_TAIL_BYTES)}
        try:
            async with self._client.stream(f"{path_of(pod)}/log", query, _TAIL_SECONDS) as content:
                return (await content.read())[-limit:]
        except (ApiError, Unreachable):
            return b""


async def _whole_lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come; the last one may have no end. Raises Unreachable."""
    held = b""
    try:
        async for piece in content.iter_any():
            *lines, held = (held + piece).split(b"\n")
            if lines:
                yield [line + b"\n" for line in lines]
            if len(held) > _LONGEST_LINE:
                raise Unreachable(f"a line of the log has more than {_LONGEST_LINE} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise Unreachable(f"the log broke off: {error!r}") from error
    if held:
        yield [held]


def _comparable(stamp: str) -> str:
    """A time of RFC 3339 with all nine digits of its fraction, so that later ones compare greater as texts."""
    seconds, _, fraction = stamp.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
