"""The inventory names the claims and ConfigMaps of projects' namespaces, and follows them."""

from __future__ import annotations

from typing import Any

from muster_cluster_agent.adapters.kubernetes.backend import KubernetesBackend
from muster_cluster_agent.domain.fleet import NamespaceObjects
from muster_cluster_agent.domain.kubernetes import marks
from tests.support.fake_api_server import FakeApiServer, Fault
from tests.support.kubernetes_backends import NAMESPACE, OWNER, backend_on, scene
from tests.support.waiting import eventually


def claim(server: FakeApiServer, name: str, namespace: str = NAMESPACE) -> None:
    server.put("persistentvolumeclaims", {"metadata": {"name": name, "namespace": namespace}, "spec": {}})


def config_map(server: FakeApiServer, name: str, namespace: str = NAMESPACE, **labels: str) -> None:
    server.put("configmaps", {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "data": {"k": "v"}})


async def reported(backend: KubernetesBackend, *wanted: NamespaceObjects) -> None:
    async def now() -> tuple[NamespaceObjects, ...]:
        return (await backend.fleet()).objects

    await eventually(now, lambda found: found == wanted)


async def test_the_first_inventory_names_what_projects_may_mount() -> None:
    async with scene() as made:
        claim(made.server, "data")
        config_map(made.server, "settings", **{marks.MANAGED_BY: "Helm"})
        config_map(made.server, "w-root", **OWNER.labels())
        claim(made.server, "of-no-project", "kube-system")
        async with backend_on(made.server) as backend:
            fleet = await backend.fleet()
    assert fleet.profile.names_objects
    assert fleet.objects == (NamespaceObjects(NAMESPACE, ("data",), ("settings",)),)


async def test_objects_that_come_and_go_change_the_inventory() -> None:
    async with scene() as made, backend_on(made.server) as backend:
        assert (await backend.fleet()).objects == ()
        claim(made.server, "data")
        await reported(backend, NamespaceObjects(NAMESPACE, ("data",)))

        def delete(item: dict[str, Any]) -> None:
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

        config_map(made.server, "settings")
        made.server.change("persistentvolumeclaims", f"{NAMESPACE}/data", delete)
        await reported(backend, NamespaceObjects(NAMESPACE, (), ("settings",)))
        made.server.remove("configmaps", f"{NAMESPACE}/settings")
        await reported(backend)


async def test_a_namespace_that_becomes_a_projects_is_named_with_what_it_has() -> None:
    async with scene() as made, backend_on(made.server) as backend:
        claim(made.server, "data", "later")
        await reported(backend)
        made.kubelets.add_namespace("later", "q")
        await reported(backend, NamespaceObjects("later", ("data",)))
        made.server.remove("namespaces", "later")
        await reported(backend)


def _forbid(_: str, path: str) -> Fault | None:
    return Fault(403, "Forbidden", "no") if path.endswith("/persistentvolumeclaims") else None


async def test_without_the_right_to_list_claims_the_agent_works_and_names_none() -> None:
    async with scene() as made:
        config_map(made.server, "settings")
        made.server.fault = _forbid
        async with backend_on(made.server) as backend:
            fleet = await backend.fleet()
            assert backend.observed_at() > 0
    assert (fleet.profile.names_objects, fleet.objects) == (False, ())
    assert len(fleet.nodes) == 2


async def test_a_right_that_is_taken_away_is_noticed_and_so_is_its_return() -> None:
    async with scene() as made, backend_on(made.server) as backend:

        async def is_naming() -> bool:
            return (await backend.fleet()).profile.names_objects

        assert await is_naming()
        made.server.fault = _forbid
        await made.server.cut_watches()
        await eventually(is_naming, lambda found: not found)
        claim(made.server, "data")
        made.server.fault = lambda *_: None
        await eventually(is_naming)
        await reported(backend, NamespaceObjects(NAMESPACE, ("data",)))
