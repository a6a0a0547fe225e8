"""What the containers of a replica request and may use at most: CPU, memory, devices, extended resources.

Called while a pod is made of a plan. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.kubernetes.device_requests import DeviceRequest
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.plan import ReplicaPlan

DEVICES: Final = "devices"
"""The name that a pod gives its device claim."""


def resources_of(plan: ReplicaPlan, container: Container, request: DeviceRequest) -> Manifest:
    """Return the requests and limits of the main container, with its devices and other extended resources."""
    units = {name: str(count) for name, count in container.extended}
    claims = {"claims": [{"name": DEVICES}]} if request.claimed else {}
    return {**amounts_of(plan, units | dict(request.units)), **claims}


def amounts_of(plan: ReplicaPlan, units: Mapping[str, str]) -> Manifest:
    """Return requests and limits. units: of extended resources, which are both at once, as the API wants them."""
    limits = plan.limits
    requests = {"cpu": _milli(limits.cpu), "memory": _bytes(limits.memory)}
    most = {"cpu": _milli(limits.cpu_limit), "memory": _bytes(limits.memory_limit)}
    found = {
        "requests": {**{name: text for name, text in requests.items() if text}, **units},
        "limits": {**{name: text for name, text in most.items() if text}, **units},
    }
    return {name: amounts for name, amounts in found.items() if amounts}


def _milli(cpu: int) -> str:
    return f"{cpu}m" if cpu else ""


def _bytes(memory: int) -> str:
    return str(memory) if memory else ""
