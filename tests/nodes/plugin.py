"""A device plugin: devices without hardware that a kubelet gives out as it gives out real ones.

A pod's container sees the ids of its devices in NVIDIA_VISIBLE_DEVICES, as NVIDIA's plugin has it. Holds: every device
that was given out is in the log, in order; a kubelet that starts again is registered with again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tests.support.waiting import until

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_PROTOS: Final = "tests/nodes/protos"
_VERSION: Final = "v1beta1"
_LOOK_AGAIN: Final = 0.2  # seconds
_PATIENCE: Final = 10.0

_plugin: Any = grpc.protos(f"{_PROTOS}/deviceplugin.proto")
_resources: Any = grpc.protos(f"{_PROTOS}/podresources.proto")


@dataclass
class Plugin:
    """Devices of one resource on a node whose kubelet keeps its files in `folder`.

    given: the ids of each container that was given some, in order.
    """

    folder: Path
    resource: str
    devices: Sequence[str]
    given: list[tuple[str, ...]] = field(default_factory=list)

    async def serve(self) -> None:
        """Serve for ever, one kubelet after the other."""
        name = f"{self.resource.replace('/', '-')}.sock"
        kubelet, own = self.folder / "device-plugins" / "kubelet.sock", self.folder / "device-plugins" / name
        while True:
            known = _identity(kubelet)
            if known is None:
                await asyncio.sleep(_LOOK_AGAIN)
                continue
            server = grpc.aio.server()
            server.add_generic_rpc_handlers((self._handlers(),))
            server.add_insecure_port(f"unix:{own}")
            await server.start()
            try:
                with suppress(grpc.aio.AioRpcError):  # it is starting or ending; the next look tells
                    await self._register(kubelet, own)
                    await until(partial(_is_another, kubelet, own, known), within=inf, every=_LOOK_AGAIN)
            finally:
                await server.stop(None)
            await asyncio.sleep(_LOOK_AGAIN)

    async def _register(self, kubelet: Path, own: Path) -> None:
        asked = _plugin.RegisterRequest(version=_VERSION, endpoint=own.name, resource_name=self.resource)
        await _call(kubelet, f"/{_VERSION}.Registration/Register", asked, _plugin.Empty)

    def _handlers(self) -> Any:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            f"{_VERSION}.DevicePlugin",
            {
                "GetDevicePluginOptions": unary(self._options, _plugin.Empty.FromString, _bytes),
                "ListAndWatch": stream(self._list, _plugin.Empty.FromString, _bytes),
                "Allocate": unary(self._allocate, _plugin.AllocateRequest.FromString, _bytes),
            },
        )

    async def _options(self, _: Any, __: Any) -> Any:
        return _plugin.DevicePluginOptions()

    async def _list(self, _: Any, __: Any) -> AsyncIterator[Any]:
        yield _plugin.ListAndWatchResponse(devices=[_plugin.Device(id=each, health="Healthy") for each in self.devices])
        await asyncio.get_running_loop().create_future()  # nothing of it changes

    async def _allocate(self, asked: Any, _: Any) -> Any:
        answers = []
        for each in asked.container_requests:
            self.given.append(tuple(sorted(each.devices_ids)))
            answers.append(_plugin.ContainerAllocateResponse(envs={VISIBLE: ",".join(sorted(each.devices_ids))}))
        return _plugin.AllocateResponse(container_responses=answers)


@asynccontextmanager
async def serving(plugins: Sequence[Plugin]) -> AsyncIterator[None]:
    """Plugins that serve until the block ends."""
    tasks = [asyncio.create_task(each.serve()) for each in plugins]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def given_out(folder: Path) -> dict[str, tuple[str, ...]]:
    """The devices that a kubelet says it has given out, by the name of the pod."""
    socket = folder / "pod-resources" / "kubelet.sock"
    asked = _resources.ListPodResourcesRequest()
    answer = await _call(socket, "/v1.PodResourcesLister/List", asked, _resources.ListPodResourcesResponse)
    return {
        pod.name: tuple(
            sorted(device for each in pod.containers for held in each.devices for device in held.device_ids)
        )
        for pod in answer.pod_resources
    }


async def _call(socket: Path, method: str, asked: Any, kind: Any) -> Any:
    # The kubelet's server refuses a socket's path as the name of a host.
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        decode: Callable[[bytes], Any] = kind.FromString
        call: Any = channel.unary_unary(method, request_serializer=_bytes, response_deserializer=decode)
        return await call(asked, timeout=_PATIENCE)


def _bytes(message: Any) -> bytes:
    found: bytes = message.SerializeToString()
    return found


def _is_another(kubelet: Path, own: Path, known: tuple[int, int]) -> bool:
    """Whether the kubelet was started again, and so has removed every socket."""
    return _identity(kubelet) != known or not own.exists()


def _identity(socket: Path) -> tuple[int, int] | None:
    """Which socket it is: a kubelet that starts again makes another one."""
    try:
        found = socket.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns
