"""Asks a cluster what `domain/kubernetes/checking.py` judges: its version, rights, classes, and a pod on trial.

Called through `KubernetesBackend.check`. Holds: nothing is made; a question that cannot be asked is a finding.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from email.utils import parsedate_to_datetime
from typing import Final

from muster_cluster_agent.adapters.kubernetes.cache import Cache
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, Json
from muster_cluster_agent.adapters.kubernetes.cluster_file import KubernetesFile
from muster_cluster_agent.domain.findings import Finding, error
from muster_cluster_agent.domain.kubernetes import checking
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.resources import DEVICE_CLASS
from muster_cluster_agent.domain.kubernetes.roots import Namespace
from muster_cluster_agent.errors import BackendError
from muster_kernel.agent_rights import Right, Scope, rights

_REVIEW: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_AT_ONCE: Final = 32  # questions about rights
_MOST_NAMESPACES: Final = 20
"""Namespaces of projects that are tried; a check asks some 40 questions and as many more for each of them."""


class Checks:
    """One cluster's checks."""

    def __init__(self, client: Client, cache: Cache, owner: Owner, file: KubernetesFile) -> None:
        self._client = client
        self._cache = cache
        self._owner = owner
        self._file = file

    async def run(self) -> list[Finding]:
        """Every finding. Raises nothing."""
        found: list[Finding] = []
        parts = {
            "version": self._version,
            "rights": self._rights,
            "classes": self._classes,
            "nodes": self._here,
            "admission": self._trials,
        }
        for subject, part in parts.items():
            try:
                found += [one async for one in part()]
            except BackendError as problem:
                found.append(error(subject, f"this part of the check failed: {problem}"))
        return found

    async def _version(self) -> AsyncIterator[Finding]:
        yield checking.version(await self._client.get("/version"))
        said, at = self._client.server_date
        yield checking.clock(parsedate_to_datetime(said).timestamp() - at if said else None)

    async def _rights(self) -> AsyncIterator[Finding]:
        """Each right where it is needed: the API server is asked what this account may do."""
        asked = [
            (right, resource, verb, namespace)
            for right, namespace in self._needed()
            for resource in right.resources
            for verb in right.verbs
        ]
        granted: list[bool] = []
        for begin in range(0, len(asked), _AT_ONCE):
            questions = asked[begin : begin + _AT_ONCE]
            granted += await asyncio.gather(*(self._may(right.group, *rest) for right, *rest in questions))
        denied = [question for question, allowed in zip(asked, granted, strict=True) if not allowed]
        for one in checking.rights(denied, len(asked)):
            yield one

    def _needed(self) -> Iterable[tuple[Right, str]]:
        """Each right with the namespace in which it is needed; empty: in the whole cluster."""
        managed, mig = self._file.managed, self._file.mig_manager
        yield from ((right, "") for right in rights(Scope.CLUSTER, managed=managed, mig_manager=mig))
        yield from ((right, self._file.namespace) for right in rights(Scope.OWN, managed=managed))
        # Namespaces that are made on demand are not known yet: the rights in them have to hold everywhere.
        places = [""] if managed else self._projects()
        yield from ((right, place) for place in places for right in rights(Scope.PROJECTS, managed=managed))

    async def _may(self, group: str, resource: str, verb: str, namespace: str) -> bool:
        name, _, below = resource.partition("/")
        attributes = {"group": group, "resource": name, "subresource": below, "verb": verb, "namespace": namespace}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}},
        }
        return bool((await self._client.post(_REVIEW, body))["status"].get("allowed"))

    async def _classes(self) -> AsyncIterator[Finding]:
        style = self._file.style
        raw = await self._class("scheduling.k8s.io/v1", "priorityclasses", style.priority_class)
        yield checking.priority_class(style.priority_class, raw)
        named = (
            ("runtime class", "RuntimeClass", "node.k8s.io/v1", "runtimeclasses", style.runtime_class),
            ("ingress class", "IngressClass", "networking.k8s.io/v1", "ingressclasses", style.urls.ingress_class),
        )
        for subject, kind, api, plural, name in named:
            raw = await self._class(api, plural, name)
            found = checking.named_class(subject, kind, name, there=raw is not None)
            if found is not None:
                yield found
        classes = await self._client.get("/apis/storage.k8s.io/v1/storageclasses")
        yield checking.storage_classes(classes["items"])

    async def _class(self, api: str, plural: str, name: str) -> Json | None:
        return await self._client.find(f"/apis/{api}/{plural}/{name}") if name else None

    async def _here(self) -> AsyncIterator[Finding]:
        yield checking.namespaces(self._namespaces(), managed=self._file.managed)
        here, counting, apart = self._cache.nodes.items.values(), self._file.counting, self._cache.devices.apart()
        for one in checking.nodes(here, counting, apart):
            yield one
        name = self._file.device_names.device_class
        raw = await self._class(DEVICE_CLASS.api, DEVICE_CLASS.plural, name) if apart else None
        for one in checking.device_claims(here, apart, counting, name, there=raw is not None):
            yield one
        used = self._file.device_source in {DeviceSource.AUTO, DeviceSource.HAMI}
        for one in checking.hami_nodes(here, apart, self._cache.nodes.unread(), used=used):
            yield one
        if self._file.style.kai is not None:
            cards = {node.name: len(self._cache.nodes.cards(node.name) or ()) for node in here}
            for one in checking.kai_nodes(here, cards, self._file.style.kai.queue):
                yield one

    async def _trials(self) -> AsyncIterator[Finding]:
        """A pod in each namespace as Muster makes them, which the API server admits or not and does not keep."""
        for namespace in self._projects():
            body = checking.trial_pod(self._owner, namespace, self._file.style)
            try:
                await self._client.call(
                    "POST", f"/api/v1/namespaces/{namespace}/pods", body=body, query={"dryRun": "All"}
                )
            except ApiError as problem:
                yield checking.trial(namespace, problem.message)
            else:
                yield checking.trial(namespace, "")

    def _projects(self) -> list[str]:
        """Those that are tried, by name."""
        return sorted(one.name for one in self._namespaces() if not one.terminating)[:_MOST_NAMESPACES]

    def _namespaces(self) -> list[Namespace]:
        return [one for one in self._cache.namespaces.items.values() if one.belongs_to(self._owner)]
