"""One agent leads a cluster: a Lease that is taken, renewed, and given back (kubernetes.md 4.2).

The composition root takes the lead before anything is read or written. The library's own election raises out of a
broken connection and does not tell until when the lead holds, which every write needs to know.
Holds: writes end before another agent may lead, by this agent's own clock, whether or not the API server answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from muster_chassis import logs
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client
from muster_cluster_agent.errors import BackendError

LEASE: Final = "muster-agent"
DURATION: Final = 15
"""Seconds without a renewal after which others may lead."""
DEADLINE: Final = 10.0
"""Seconds without a renewal after which this agent stops to write."""
_RENEW_SECONDS: Final = 2.0
_CONFLICT: Final = 409

_log = logs.get(__name__)


class LeadLost(BackendError):
    """Another agent leads this cluster: this one ends."""


class Lead:
    """This agent's lead of a cluster. identity: who it is, for people and for the Lease."""

    def __init__(
        self, client: Client, namespace: str, identity: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._lease: dict[str, Any] = {}
        self._until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)  # a foreign holder's last renewal, and when it was first seen

    @property
    def holds(self) -> bool:
        """Whether this agent may write now."""
        return self.left > 0

    @property
    def left(self) -> float:
        """For how many seconds this agent may write."""
        return self._until - self._clock()

    async def take(self) -> None:
        """Waits until this agent leads."""
        said = False
        while not await self._try():
            if not said:
                _log.info("another agent leads this cluster", holder=self._holder())
                said = True
            await asyncio.sleep(_RENEW_SECONDS)
        _log.info("this agent leads the cluster", identity=self._identity)

    async def keep(self) -> None:
        """Renews for ever. Raises LeadLost where another agent leads.

        Without an answer of the API server the agent stays, writes nothing, and reports that it sees nothing.
        """
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._try(retake=False)
            except BackendError as error:
                _log.warning("the lead was not renewed", error=str(error), writes=self.holds)
                continue
            if self._holder() != self._identity:  # also where another has led since and has given it back
                raise LeadLost(f"{self._holder() or 'another agent'} leads this cluster now")

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[asyncio.Task[None]]:
        """Renew a lead that was taken, until the block ends, and then give it back. Yields the task of `keep`."""
        renewing = asyncio.create_task(self.keep(), name="lead")
        try:
            yield renewing
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await self.give_back()

    async def give_back(self) -> None:
        """Lets the next agent lead at once."""
        if self.holds:
            self._until = 0.0
            spec = {**self._lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            try:
                await self._put({**self._lease, "spec": spec})
            except BackendError as error:
                _log.info("the lead was not given back; it ends by itself", error=str(error))

    async def _try(self, *, retake: bool = True) -> bool:
        """Takes or renews. Raises Unreachable, and ApiError where the Lease may not be read or written.

        retake: also a lead that this agent does not have.
        """
        began = self._clock()
        found = await self._client.find(f"{self._path}/{LEASE}")
        if found is None:
            return await self._won(began, self._client.call("POST", self._path, body=self._new_lease(), fenced=False))
        self._lease = found
        mine = self._holder() == self._identity
        if not mine:
            self._until = 0.0  # or this agent would write on, and give back the lead of another when it ends
        if not mine and (not retake or (self._holder() and not self._is_over())):
            return False
        return await self._won(began, self._put(self._renewed(mine=mine)))

    async def _won(self, began: float, call: Any) -> bool:
        try:
            self._lease = await call
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            return False  # another agent was faster
        self._until = began + DEADLINE
        return True

    async def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Replaces the Lease as it was read: its version makes a second writer fail."""
        return await self._client.call("PUT", f"{self._path}/{LEASE}", body=lease, fenced=False)

    def _is_over(self) -> bool:
        """Whether the holder has not renewed for the Lease's duration, by this machine's clock alone."""
        spec = self._lease.get("spec") or {}
        stamp = f"{self._holder()} {spec.get('renewTime')}"
        if self._seen[0] != stamp:
            self._seen = (stamp, self._clock())
        return self._clock() - self._seen[1] >= float(spec.get("leaseDurationSeconds") or DURATION)

    def _holder(self) -> str:
        return str((self._lease.get("spec") or {}).get("holderIdentity") or "")

    def _new_lease(self) -> dict[str, Any]:
        metadata = {"name": LEASE, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._spec(0)}

    def _renewed(self, *, mine: bool) -> dict[str, Any]:
        old = self._lease.get("spec") or {}
        spec = self._spec(int(old.get("leaseTransitions") or 0) + (not mine))
        if mine:
            spec["acquireTime"] = old.get("acquireTime", spec["acquireTime"])
        return {**self._lease, "spec": spec}

    def _spec(self, transitions: int) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }
