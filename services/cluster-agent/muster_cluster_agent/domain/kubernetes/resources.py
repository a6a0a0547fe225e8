"""Kinds of objects in the API, and how a root names the objects that belong to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, and the name of its collection in the API."""

    api: str
    kind: str
    plural: str

    def path(self, namespace: str) -> str:
        """Where the API has the objects of a namespace."""
        return f"{self._group}/namespaces/{namespace}/{self.plural}"

    @property
    def everywhere(self) -> str:
        """Where the API has the objects of all namespaces."""
        return f"{self._group}/{self.plural}"

    @property
    def _group(self) -> str:
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"


SERVICE: Final = Resource("v1", "Service", "services")
SECRET: Final = Resource("v1", "Secret", "secrets")
CONFIG_MAP: Final = Resource("v1", "ConfigMap", "configmaps")
BUDGET: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
POLICY: Final = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
INGRESS: Final = Resource("networking.k8s.io/v1", "Ingress", "ingresses")
CLAIM: Final = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
DEVICE_CLAIM: Final = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
DEVICE_SLICE: Final = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices")
DEVICE_CLASS: Final = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses")
NAMESPACE: Final = Resource("v1", "Namespace", "namespaces")
POD: Final = Resource("v1", "Pod", "pods")
WITH_RUNS: Final = (SERVICE, SECRET, CONFIG_MAP, BUDGET, POLICY, INGRESS, CLAIM)
"""What Muster makes for runs and workloads, in addition to their pods."""
_BY_PLURAL: Final = {each.plural: each for each in WITH_RUNS}


def text_of(names: Iterable[tuple[Resource, str]]) -> str:
    """The objects as the root's annotation names them."""
    return ",".join(f"{resource.plural}/{name}" for resource, name in names)


def names_in(text: str) -> tuple[tuple[Resource, str], ...]:
    """The objects that a root's annotation names; what is none of the known kinds is left out."""
    parts = [each.partition("/") for each in text.split(",")]
    return tuple((_BY_PLURAL[plural], name) for plural, _, name in parts if plural in _BY_PLURAL and name)
