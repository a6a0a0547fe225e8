"""What a cluster does about device claims, played by the calls that its own parts make.

A driver lists devices of nodes. Of pods that no real scheduler binds, the claims are allocated here. The controller
that releases claims once their pods have ended is played everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp

from tests.support.fake_kubelet import allocation_of, claim_name, slice_of

Object = dict[str, Any]
API: Final = "/apis/resource.k8s.io/v1"
CLASS: Final = "gpu.nvidia.com"
REAL: Final = "real-scheduler"
"""The name of the scheduler of pods that a real one binds."""
_MERGE: Final = "application/merge-patch+json"
_CONFLICT: Final = 409
_GONE: Final = 404


class Drivers:
    """call: calls the API server. kept: names of pods whose claims are not released."""

    def __init__(self, call: Callable[..., Awaitable[Any]]) -> None:
        self._call = call
        self._slices: dict[str, Object] = {}  # by node
        self.kept: set[str] = set()

    async def list_devices(self, node: str, *uuids: str) -> None:
        """A driver lists the devices of a node, and its installation has made their class."""
        expression = f'device.driver == "{CLASS}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        await self._make(
            f"{API}/deviceclasses",
            {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS}, "spec": spec},
        )
        self._slices[node] = slice_of(node, *uuids)
        await self._make(f"{API}/resourceslices", self._slices[node])

    async def allocate(self, path: str, pod: Object) -> None:
        """What a scheduler does before it binds a pod."""
        claim = _claim_path(path, pod)
        if not claim:
            return
        found = await self._call("GET", claim)
        await self._call("PATCH", f"{claim}/status", {"status": self.allocation(found, pod)}, content=_MERGE)

    def allocation(self, claim: Object, pod: Object) -> Object:
        """The status of a claim that has what it asks for."""
        return allocation_of(claim, [*self._slices.values()], pod)

    async def take(self, namespace: str, name: str, node: str, *uuids: str) -> None:
        """Others hold devices of a node, by a claim of theirs."""
        expression = f"device.driver in {json.dumps(uuids)}"
        exactly = {"deviceClassName": CLASS, "count": len(uuids), "selectors": [{"cel": {"expression": expression}}]}
        request = {"name": "theirs", "exactly": exactly}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"devices": {"requests": [request]}},
        }
        made = await self._call("POST", f"{API}/namespaces/{namespace}/resourceclaims", body)
        status = allocation_of(made, [self._slices[node]], {"metadata": {"name": "theirs", "uid": "theirs"}})
        path = f"{API}/namespaces/{namespace}/resourceclaims/{name}/status"
        await self._call("PATCH", path, {"status": status}, content=_MERGE)

    async def release(self, path: str, pod: Object) -> None:
        """What the controller of claims does once a pod has ended."""
        claim = _claim_path(path, pod)
        if not claim or pod["metadata"]["name"] in self.kept:
            return
        try:
            found = await self._call("GET", claim)
            if "allocation" not in found.get("status", {}):
                return
            free = {"status": {"allocation": None, "reservedFor": None}}
            await self._call("PATCH", f"{claim}/status", free, content=_MERGE)
            await self._call("PATCH", claim, {"metadata": {"finalizers": None}}, content=_MERGE)
        except aiohttp.ClientResponseError as error:
            if error.status != _GONE:
                raise

    async def _make(self, path: str, body: Object) -> None:
        try:
            await self._call("POST", path, body)
        except aiohttp.ClientResponseError as error:
            if error.status != _CONFLICT:
                raise


def _claim_path(path: str, pod: Object) -> str:
    """Where the API has the claim of a pod; empty: it has none."""
    name = claim_name(pod)
    namespace = path.split("/")[4]
    return f"{API}/namespaces/{namespace}/resourceclaims/{name}" if name else ""
