"""HAMi as replicas.md 5.2 describes it: the annotations by which it registers devices and gives them to pods.

A stand-in: the real HAMi is not run by any test.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
REGISTERED = "hami.io/node-nvidia-register"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MEBIBYTES = 81_920


def device(uuid: Any, **more: Any) -> Object:
    """One device of a node's annotation."""
    usual = {"count": 10, "devmem": MEBIBYTES, "devcore": 100, "type": "NVIDIA-NVIDIA H100 80GB HBM3", "numa": 0}
    return {"id": uuid, **usual, "health": True, **more}


def register(*uuids: str) -> str:
    """The annotation by which HAMi's device plugin registers the devices of a node."""
    return json.dumps([device(uuid) for uuid in uuids])


def allocation(*uuids: str, mebibytes: int = MEBIBYTES, cores: int = 0) -> str:
    """The annotation of a pod with one container that has these devices."""
    return "".join(f"{uuid},NVIDIA,{mebibytes},{cores}:" for uuid in uuids) + ";"


def given(pod: Object, instead: Sequence[str] | None = None) -> Object:
    """The annotations that HAMi's scheduler writes on a pod before it binds it; none for a pod that asks for nothing.

    instead: what it gives in place of the devices that the pod names.
    """
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    count = int(limits.get("nvidia.com/gpu", 0))
    if not count:
        return {}
    named = pod["metadata"]["annotations"]["nvidia.com/use-gpuuuid"].split(",")
    chosen = named[:count] if instead is None else instead
    percent = int(limits.get("nvidia.com/gpumem-percentage", 100))
    memory = int(limits.get("nvidia.com/gpumem", MEBIBYTES * percent // 100))
    text = allocation(*chosen, mebibytes=memory, cores=int(limits.get("nvidia.com/gpucores", 0)))
    return {ALLOCATED: text, "hami.io/bind-phase": "success"}
