"""A driver of devices (DRA): it lists devices without hardware, and prepares those that are allocated to claims.

A container sees the UUIDs of its devices in NVIDIA_VISIBLE_DEVICES, and a file of each in /dev/muster; both come by the
Container Device Interface. Holds: what is prepared was allocated by the cluster's scheduler; the description of a claim
is on the node as long as it is prepared.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import httpx

from tests.nodes.machine import Node
from tests.nodes.plugin import VISIBLE
from tests.support.fake_kubelet import slice_of
from tests.support.kubernetes import Cluster

NAME: Final = "gpu.nvidia.com"
_FOLDER: Final = "/dev/muster"  # where a container finds a file of each of its devices
_KIND: Final = "muster.test/gpu"
_API: Final = "/apis/resource.k8s.io/v1"
_SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404

_dra: Any = grpc.protos("tests/nodes/protos/dra.proto")
_registration: Any = grpc.protos("tests/nodes/protos/pluginregistration.proto")


@dataclass
class Driver:
    """The driver of one node. uuids: of its devices.

    prepared: the UUIDs that each claim has now, by its uid. refusals: why a kubelet did not take the driver.
    """

    node: Node
    cluster: Cluster
    uuids: Sequence[str]
    prepared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Registers with the kubelet of the node and lists the devices, until the block ends."""
        folder = self.node.home / "kubelet"
        own, found_by = folder / "plugins" / NAME / "dra.sock", folder / "plugins_registry" / f"{NAME}.sock"
        for socket in (own, found_by):
            socket.parent.mkdir(parents=True, exist_ok=True)
            socket.unlink(missing_ok=True)
        registered = asyncio.Event()
        servers = [_server(own, self._preparing()), _server(found_by, self._registering(str(own), registered))]
        try:
            for server in servers:
                await server.start()
            await registered.wait()
            await asyncio.to_thread(self._list)
            yield
        finally:
            for server in servers:
                await server.stop(None)
            await asyncio.to_thread(self._unlist)

    # towards the API server

    def _list(self) -> None:
        expression = f'device.driver == "{NAME}"'
        made = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": NAME}}
        made["spec"] = {"selectors": [{"cel": {"expression": expression}}]}
        for path, body in (("deviceclasses", made), ("resourceslices", slice_of(self.node.name, *self.uuids))):
            answer = self.cluster.post(f"{_API}/{path}", body)
            if answer.status_code != _CONFLICT:
                answer.raise_for_status()

    def _unlist(self) -> None:
        name = slice_of(self.node.name)["metadata"]["name"]
        answer = self.cluster.http.delete(f"{_API}/resourceslices/{name}")
        if answer.status_code != _NOT_FOUND:
            answer.raise_for_status()

    def _allocated(self, claim: Any) -> tuple[tuple[str, str], ...]:
        """The devices of a claim on this node: each one's name, and its UUID."""
        path = f"{_API}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        raw = self.cluster.http.get(path).raise_for_status().json()
        if raw["metadata"]["uid"] != claim.uid:
            raise LookupError(f"claim {claim.name} has another uid than {claim.uid}")
        results = raw["status"]["allocation"]["devices"]["results"]
        mine = [one["device"] for one in results if (one["driver"], one["pool"]) == (NAME, self.node.name)]
        return tuple((device, self.uuids[int(device.rpartition("-")[2])]) for device in mine)

    # towards the kubelet

    def _registering(self, endpoint: str, registered: asyncio.Event) -> Any:
        async def info(_: Any, __: Any) -> Any:
            versions = ["v1.DRAPlugin"]
            return _registration.PluginInfo(type="DRAPlugin", name=NAME, endpoint=endpoint, supported_versions=versions)

        async def told(status: Any, _: Any) -> Any:
            if status.plugin_registered:
                registered.set()
            else:
                self.refusals.append(status.error)
            return _registration.RegistrationStatusResponse()

        return grpc.method_handlers_generic_handler(
            "pluginregistration.Registration",
            {
                "GetInfo": _unary(info, _registration.InfoRequest),
                "NotifyRegistrationStatus": _unary(told, _registration.RegistrationStatus),
            },
        )

    def _preparing(self) -> Any:
        return grpc.method_handlers_generic_handler(
            _SERVICE,
            {
                "NodePrepareResources": _unary(self._prepare, _dra.NodePrepareResourcesRequest),
                "NodeUnprepareResources": _unary(self._unprepare, _dra.NodeUnprepareResourcesRequest),
            },
        )

    async def _prepare(self, asked: Any, _: Any) -> Any:
        answer = _dra.NodePrepareResourcesResponse()
        for claim in asked.claims:
            one = answer.claims[claim.uid]
            try:
                devices = await asyncio.to_thread(self._allocated, claim)
            except (httpx.HTTPError, LookupError) as error:
                one.error = repr(error)
                continue
            self.prepared[claim.uid] = tuple(sorted(uuid for _, uuid in devices))
            self._describe(claim.uid)
            for device, _uuid in devices:
                made = one.devices.add(pool_name=self.node.name, device_name=device)
                made.cdi_device_ids.append(f"{_KIND}={claim.uid}")
        return answer

    async def _unprepare(self, asked: Any, _: Any) -> Any:
        answer = _dra.NodeUnprepareResourcesResponse()
        for claim in asked.claims:
            self.prepared.pop(claim.uid, None)
            self._file(claim.uid).unlink(missing_ok=True)
            answer.claims[claim.uid].error = ""
        return answer

    def _describe(self, uid: str) -> None:
        """What a container gets that has the claim."""
        uuids = self.prepared[uid]
        files = [{"path": f"{_FOLDER}/{uuid}", "hostPath": "/dev/null", "permissions": "rw"} for uuid in uuids]
        edits = {"env": [f"{VISIBLE}={','.join(uuids)}"], "deviceNodes": files}
        spec = {"cdiVersion": "0.6.0", "kind": _KIND, "devices": [{"name": uid, "containerEdits": edits}]}
        file = self._file(uid)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(spec))

    def _file(self, uid: str) -> Path:
        return self.node.home / "cdi" / f"muster.test-{uid}.json"


def files_of(pid: int) -> list[str]:
    """The UUIDs of the devices whose files a process finds."""
    return sorted(file.name for file in Path(f"/proc/{pid}/root{_FOLDER}").iterdir())


def _server(socket: Path, handlers: Any) -> Any:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"unix:{socket}")
    return server


def _unary(handle: Any, asked: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(handle, asked.FromString, lambda message: message.SerializeToString())
