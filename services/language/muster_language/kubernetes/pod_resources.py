"""The resources of a container in a pod template: CPU, memory, GPUs, MIG slices, and other devices.

Called by PodReader. Kubernetes' rule holds: a limit without a request is the request as well.
"""

from __future__ import annotations

import re
from typing import Final

from muster_language.documents.nodes import Mapping, Node, Scalar, entry
from muster_language.kubernetes.pods import Pod

GPU: Final = "nvidia.com/gpu"
_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9a-z.+]{1,20})")
_AMOUNTS: Final = {"cpu": ("cpu", "cpu_limit"), "memory": ("memory", "memory_limit")}


def read_resources(pod: Pod, node: Node, path: str) -> None:
    """Reads requests and limits into the fields of the spec."""
    if not isinstance(node, Mapping):
        pod.findings.say(path, node, "this is not a mapping", "requests and limits")
        return
    pod.findings.unknown(node, ["requests", "limits"], f"{path}.")
    given: dict[str, dict[str, tuple[Node, str]]] = {}
    for part in ("requests", "limits"):
        found = entry(node, part)
        for key, value in found[1].entries if found and isinstance(found[1], Mapping) else []:
            given.setdefault(key.text, {})[part] = (value, f"{path}.{part}.{key.text}")
    for name, parts in given.items():
        if name in _AMOUNTS:
            request, limit = _AMOUNTS[name]
            pod.set(request, *(parts.get("requests") or parts["limits"]))
            if "limits" in parts:
                pod.set(limit, *parts["limits"])
        else:
            _device(pod, name, parts)


def _device(pod: Pod, name: str, parts: dict[str, tuple[Node, str]]) -> None:
    """Devices are counted whole, and Kubernetes takes no request that differs from the limit."""
    node, path = parts.get("limits") or parts["requests"]
    texts = {each.text for each, _ in parts.values() if isinstance(each, Scalar)}
    if len(texts) != 1:
        pod.findings.say(path, node, f"request and limit of {name} differ", "the same number in both")
        return
    profile = _MIG.fullmatch(name)
    if name == GPU and texts == {"0"}:
        return  # Kubernetes takes a limit of none, and it asks for nothing
    if name == GPU:
        pod.set("gpu_devices_request", node, path)
    elif profile is not None:
        if texts != {"1"}:
            pod.findings.say(path, node, "more than one MIG slice a replica", "1")
        pod.spec.mig_profile = profile[1]
    else:
        (quantity,) = texts
        pod.spec.extended_resources.add(label=name, resource=name, quantity=quantity)
        pod.findings.moved[f"{pod.base}.extendedResources.items.{name}"] = path
