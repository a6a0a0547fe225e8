"""Namespaces of projects: made where they are missing, never taken from others, and let go when they are deleted."""

from __future__ import annotations

from typing import Any

from tests.conformance import programs
from tests.conformance.platforms import Capability
from tests.conformance.platforms.played import cluster_of
from tests.conformance.registry import case
from tests.conformance.stage import GONE, READY, Stage, Work
from tests.support.waiting import eventually, until


@case(Capability.CONTAINERS)
async def the_namespace_of_a_project_is_made(stage: Stage) -> None:
    work = stage.work(programs.ends(0))
    await work.assign()
    await work.state(GONE)
    found = await cluster_of(stage).kubelets.call("GET", f"/api/v1/namespaces/{stage.namespace}")
    assert found["metadata"]["labels"]["muster.io/project"] == "p"


@case(Capability.CONTAINERS, given=["none", "other"])
async def a_namespace_of_others_is_never_written_to(stage: Stage, project: str) -> None:
    name = f"theirs-{project}-{stage.namespace}"
    labels = {} if project == "none" else {"muster.io/project": project}
    body = {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Active"}}
    await cluster_of(stage).kubelets.call("POST", "/api/v1/namespaces", body)
    work = stage.work(programs.ends(0))
    made = work.assignment()
    made.namespace = name
    await stage.bus.assign(made)
    assert name in (await work.refused("NamespaceNotOurs")).reason.message
    assert await cluster_of(stage).left(work.id) == []


@case(Capability.CONTAINERS)
async def what_ran_in_a_namespace_that_is_deleted_is_gone_and_holds_nothing_up(stage: Stage) -> None:
    here = cluster_of(stage)
    name = f"mine-{stage.node()}-{stage.namespace}"
    path = f"/api/v1/namespaces/{name}"
    # A finalizer keeps it, as its controller does until it is empty; that controller is not played.
    metadata = {"name": name, "labels": {"muster.io/project": "p"}, "finalizers": ["example.com/not-yet"]}
    made = {"metadata": metadata, "status": {"phase": "Active"}}
    await here.kubelets.call("POST", "/api/v1/namespaces", made)
    work = stage.work(programs.WAITS)
    await assign_in(work, name)
    await work.state(READY)
    await here.kubelets.call("DELETE", path)
    for root in await roots_in(stage, name):
        await here.kubelets.call("DELETE", f"{path}/configmaps/{root['metadata']['name']}")
    await here.kubelets.call("DELETE", f"{path}/pods/{work.name()}")
    assert (await work.state(GONE)).gone_evidence == "containers-terminated"
    await until(lambda: f"{path}/pods/{work.name()}" not in here.kubelets.pods)
    await assign_in(work, name, attempt=1, revision=1)
    assert name in (await work.refused("NamespaceNotOurs")).reason.message
    await eventually(lambda: roots_in(stage, name), lambda found: not found)
    await here.end_namespace(name)
    await here.kubelets.call("POST", "/api/v1/namespaces", {**made, "metadata": {**metadata, "finalizers": None}})
    await work.state(READY, attempt=1)
    await work.release(attempt=1)
    await work.nothing_left()


async def roots_in(stage: Stage, namespace: str) -> list[Any]:
    """The roots of runs in a namespace."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=muster.io/root-of"
    found: list[Any] = (await cluster_of(stage).kubelets.call("GET", path))["items"]
    return found


async def assign_in(work: Work, namespace: str, **changed: Any) -> None:
    """Writes the desired state of a workload whose project has another namespace."""
    made = work.assignment(**changed)
    made.namespace = namespace
    await work.stage.bus.assign(made)
