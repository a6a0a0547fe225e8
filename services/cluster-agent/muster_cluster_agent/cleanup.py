"""`muster clusters cleanup`: deletes what agents created in a cluster, without an agent or a control plane.

Found by the client through the entry-point group `muster.clusters`. It acts by an administrator's kubeconfig. Holds:
only objects with Muster's labels of that cluster are touched; it may be repeated.
"""

from __future__ import annotations

import sys
from collections import Counter
from json import dumps
from pathlib import Path
from typing import Any, Final

from muster_cluster_agent.adapters.kubernetes import removal
from muster_cluster_agent.adapters.kubernetes.client import ApiError, Client, configuration
from muster_cluster_agent.domain.kubernetes import marks
from muster_cluster_agent.domain.kubernetes.resources import DEVICE_CLAIM, NAMESPACE, POD, WITH_RUNS, Resource
from muster_cluster_agent.errors import BackendError, ClusterFileError

_PAGE: Final = "500"
_NOT_FOUND: Final = 404
_RATE: Final = 100.0
_BURST: Final = 200.0
_OURS: Final = frozenset({marks.GONE, marks.ROOT})


async def cleanup(
    cluster: str,
    *,
    kubeconfig: Path,
    context: str = "",
    namespaces: bool = False,
    yes: bool = False,
    json: bool = False,
) -> int:
    """Deletes everything that agents of Muster created in a cluster. Needs no control plane.

    Use it if the agent or the control plane is lost. Pods are stopped, and claims that Muster created are deleted with
    their data. The objects that `muster clusters join` printed stay.

    Args:
        cluster: Its id.
        kubeconfig: How the cluster is reached, with the rights to list and delete everything there.
        context: Of the kubeconfig; else its current one.
        namespaces: Also the namespaces that agents created, with everything in them.
        yes: Delete the objects. Without it they are counted and nothing is done.
        json: Print one JSON object: the cluster, the objects by their kind, namespaces, whether they were deleted, and
            failures.
    """
    try:
        how = await configuration(kubeconfig, context or None)
        async with Client(how, rate=_RATE, burst=_BURST) as client:
            counted, failures = await _clean(client, cluster, do=yes)
            named, more = await _namespaces(client, cluster, do=yes) if namespaces else ([], [])
            failures += more
            if named:
                counted[NAMESPACE.plural] = len(named)
    except (BackendError, ClusterFileError) as error:
        sys.stderr.write(f"muster: {error}\n")
        return 1
    if json:
        found = {
            "cluster": cluster,
            "objects": dict(counted),
            "namespaces": named,
            "deleted": yes,
            "failures": failures,
        }
        sys.stdout.write(f"{dumps(found)}\n")
        return 1 if failures else 0
    total = ", ".join(f"{count} {plural}" for plural, count in sorted(counted.items()))
    done = "deleted" if yes else "to delete; say --yes to delete them"
    if named:
        sys.stdout.write(f"namespaces, with everything in them: {', '.join(named)}\n")
    sys.stdout.write(f"cluster {cluster}: {f'{total} {done}' if total else 'nothing to delete'}\n")
    for failure in failures:
        sys.stderr.write(f"muster: {failure}\n")
    return 1 if failures else 0


async def _clean(client: Client, cluster: str, *, do: bool) -> tuple[Counter[str], list[str]]:
    """Deletes pods first and then the rest; how many of each kind there were, and what could not be deleted."""
    counted: Counter[str] = Counter()
    failures: list[str] = []
    for resource in (POD, *WITH_RUNS, DEVICE_CLAIM):
        for item in await _all(client, resource, _selector(cluster)):
            counted[resource.plural] += 1
            if do:
                namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
                path = f"{resource.path(namespace)}/{name}"
                failures += await _delete(client, path, item["metadata"], f"{resource.kind} {namespace}/{name}")
    return counted, failures


async def _namespaces(client: Client, cluster: str, *, do: bool) -> tuple[list[str], list[str]]:
    """Deletes the namespaces that agents created; their names, and what could not be deleted."""
    named, failures = [], []
    for item in await _all(client, NAMESPACE, _selector(cluster)):
        name = item["metadata"]["name"]
        named.append(name)
        if do:
            failures += await _delete(client, f"{NAMESPACE.everywhere}/{name}", item["metadata"], f"Namespace {name}")
    return sorted(named), failures


def _selector(cluster: str) -> str:
    return f"{marks.SELECTOR},{marks.CLUSTER}={cluster}"


async def _all(client: Client, resource: Resource, selector: str) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        query = {"labelSelector": selector, "limit": _PAGE, **({"continue": token} if token else {})}
        try:
            page = await client.get(resource.everywhere, **query)
        except ApiError as error:
            if resource is DEVICE_CLAIM and error.status == _NOT_FOUND:
                return []  # Kubernetes serves them from 1.34 on
            raise
        found += page["items"]
        token = page["metadata"].get("continue") or ""
        if not token:
            return found


async def _delete(client: Client, path: str, metadata: Any, what: str) -> list[str]:
    """Strips Muster's finalizers and deletes the object; others' finalizers stay. Returns what failed, by its name."""
    try:
        await removal.release(client, path, metadata["uid"], metadata.get("finalizers") or (), _OURS)
        if "deletionTimestamp" not in metadata:
            await removal.delete(client, path, metadata["uid"])
    except BackendError as error:
        if not removal.is_done(error):
            return [f"{what}: {error}"]
    return []
