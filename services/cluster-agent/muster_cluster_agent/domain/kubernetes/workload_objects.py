"""What a workload has beyond its runs: its root, its claims, and the Services and Ingresses that lead to it.

Kubernetes.md 3.2 and 6. Called by the Kubernetes back end before a pod is made, and when the workload is deleted. Pure.
Holds: a Service leads to the pods that are labelled as serving, of whichever run, so that it stays over a rollout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster_cluster_agent.domain.container import Reach, ServedPort
from muster_cluster_agent.domain.kubernetes import ingresses, marks
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.names import port_name, service_name, workload_base
from muster_cluster_agent.domain.kubernetes.resources import (
    CLAIM,
    CONFIG_MAP,
    INGRESS,
    SERVICE,
    Manifest,
    Resource,
)
from muster_cluster_agent.domain.kubernetes.storage import claims_of
from muster_cluster_agent.domain.plan import ReplicaPlan

_SUFFIXES: Final = {Reach.NODES: "nodes", Reach.BALANCER: "balancer"}


def root(owner: Owner, plan: ReplicaPlan) -> Manifest:
    """What stands for the workload until it is deleted. What it names is added by `roots.naming`."""
    labels = marks.workload_labels(owner, plan.workload_id, plan.project)
    return {
        "apiVersion": CONFIG_MAP.api,
        "kind": CONFIG_MAP.kind,
        "metadata": {
            "name": workload_base(plan.workload_id),
            "namespace": plan.namespace,
            "labels": {**labels, marks.ROOT_OF: "workload"},
            "annotations": {marks.NAME: plan.workload},
            "finalizers": [marks.ROOT],
        },
    }


def objects_of(owner: Owner, plan: ReplicaPlan, urls: Urls) -> tuple[tuple[Resource, Manifest], ...]:
    """What has to be there before the plan's pod is made and stays when its run is over. Raises InvalidCommand."""
    labels = marks.workload_labels(owner, plan.workload_id, plan.project)
    claims = [
        (
            CLAIM,
            {
                "apiVersion": CLAIM.api,
                "kind": CLAIM.kind,
                "metadata": {"name": name, "namespace": plan.namespace, "labels": labels},
                "spec": spec,
            },
        )
        for name, spec in claims_of(plan, ephemeral=False)
    ]
    return (
        *claims,
        *((SERVICE, service) for service in services_of(owner, plan)),
        *((INGRESS, ingress) for ingress in ingresses.ingresses_of(owner, plan, urls)),
    )


def services_of(owner: Owner, plan: ReplicaPlan) -> tuple[Manifest, ...]:
    """The Services of the plan's workload: one inside the cluster for all ports, and one for each other reach."""
    ports = plan.served
    if not ports:
        return ()
    found = [_service(owner, plan, Reach.CLUSTER, [_inside(port) for port in ports])]
    nodes = [_on_nodes(port) for port in ports if port.reach is Reach.NODES]
    balanced = [_balanced(port) for port in ports if port.reach is Reach.BALANCER]
    found += [_service(owner, plan, Reach.NODES, nodes)] if nodes else []
    found += [_service(owner, plan, Reach.BALANCER, balanced)] if balanced else []
    return tuple(found)


def addresses_of(plan: ReplicaPlan, urls: Urls) -> tuple[str, ...]:
    """Where the workload is reached: from outside, from inside the cluster, and at ports of nodes that its user chose.

    None for a replica without ports: its workload is not reached by it. Raises InvalidCommand.
    """
    ports = plan.served if plan.ports or plan.container_or_empty.tensorboard else ()
    from_outside = [ingresses.text_of(each, urls) for each in ingresses.addresses_of(plan, urls)] if ports else []
    name = f"{_name(plan, Reach.CLUSTER)}.{plan.namespace}.svc"
    inside = [f"http://{name}:{_inside(port)['port']}" for port in ports]
    chosen = [port.external for port in ports if port.reach is Reach.NODES and port.external]
    return (*from_outside, *inside, *(f"http://{plan.node}:{port}" for port in chosen))


def change_of(resource: Resource, asked: Manifest, found: Mapping[str, Any]) -> Manifest | None:
    """The patch that an object needs which is there already; None: it needs none."""
    if resource is SERVICE and _ports_differ(asked, found):
        return {"spec": {"ports": asked["spec"]["ports"]}}
    if resource is INGRESS and ingresses.differs(asked, found):
        return {"metadata": {"annotations": asked["metadata"]["annotations"]}, "spec": {"tls": None, **asked["spec"]}}
    return None


def _ports_differ(asked: Manifest, found: Mapping[str, Any]) -> bool:
    """Whether a Service that is there leads to other ports than it should."""
    wanted, there = asked["spec"]["ports"], found["spec"].get("ports") or ()
    return _shown(wanted) != _shown(there) or not _chosen(wanted).items() <= _chosen(there).items()


def _name(plan: ReplicaPlan, reach: Reach) -> str:
    if reach is Reach.CLUSTER:
        return service_name(plan.workload_id, plan.workload)
    return f"{workload_base(plan.workload_id)}-{_SUFFIXES[reach]}"


def _service(owner: Owner, plan: ReplicaPlan, reach: Reach, ports: list[Manifest]) -> Manifest:
    return {
        "apiVersion": SERVICE.api,
        "kind": SERVICE.kind,
        "metadata": {
            "name": _name(plan, reach),
            "namespace": plan.namespace,
            "labels": marks.workload_labels(owner, plan.workload_id, plan.project),
        },
        "spec": {
            "type": str(reach),
            "selector": {marks.WORKLOAD: plan.workload_id, marks.SERVING: "true"},
            "ports": ports,
        },
    }


def _port(port: ServedPort, outside: int) -> Manifest:
    """The target is a name, so that the port leads only to replicas that have it.

    The port of a sidecar is a number: older clusters do not find the name of a port of an init container.
    """
    name = port_name(port.container)
    return {"name": name, "port": outside, "targetPort": port.container if port.sidecar else name}


def _inside(port: ServedPort) -> Manifest:
    return _port(port, port.external if port.external and port.reach is Reach.CLUSTER else port.container)


def _on_nodes(port: ServedPort) -> Manifest:
    chosen = {"nodePort": port.external} if port.external else {}
    return {**_port(port, port.container), **chosen}


def _balanced(port: ServedPort) -> Manifest:
    return _port(port, port.external or port.container)


def _shown(ports: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((one.get("name", ""), one["port"], one.get("targetPort", one["port"])) for one in ports)


def _chosen(ports: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The ports of nodes by the port's name."""
    return {one.get("name", ""): one["nodePort"] for one in ports if one.get("nodePort")}
