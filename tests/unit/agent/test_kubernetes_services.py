"""What a workload with ports becomes: how its pod is asked, where it is reached, and which Services lead to it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.domain.kubernetes import manifests, marks, roots, workload_objects
from muster_cluster_agent.domain.kubernetes.ingresses import Urls
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.resources import SERVICE
from muster_cluster_agent.domain.kubernetes.roots import WorkloadRoot
from muster_cluster_agent.domain.model import Assignment, Revision, Run
from muster_cluster_agent.domain.plan import ReplicaPlan, replica_plans
from muster_kernel import ids
from tests.support.kubernetes_pods import OWNER

ID = "33333333-3333-4333-8333-333333333333"
CLUSTER_IP = workload_pb2.SERVICE_TYPE_CLUSTER_IP
NODE_PORT = workload_pb2.SERVICE_TYPE_NODE_PORT
BALANCER = workload_pb2.SERVICE_TYPE_LOAD_BALANCER


def port(container: int, external: int = 0, reach: int = 0) -> workload_pb2.Port:
    made = workload_pb2.Port(label=f"p-{container}", container=container)
    if external:
        made.external = external
    if reach:
        made.service_type = reach  # type: ignore[assignment]
    return made


def served(*ports: workload_pb2.Port, name: str = "chat", grace: float = 30.0, **fields: Any) -> ReplicaPlan:
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_INFERENCE, image="i", ports=ports, **fields)
    revision = Revision(1, 0, specs.pattern(spec), specs.template(spec, containers=True), (Run("worker", 0, 1, "n-7"),))
    assignment = Assignment(ID, 1, "", 1, (revision,), project="p", namespace="runai-p", name=name, grace=grace)
    return replica_plans(assignment, revision)[0]


def main_of(plan: ReplicaPlan) -> dict[str, Any]:
    pod = manifests.pod(OWNER, plan, Style(), "uid", workload_objects.addresses_of(plan, Urls()))
    (main,) = pod["spec"]["containers"]
    return dict(main)


def test_a_server_is_asked_on_its_first_port_and_told_its_ports() -> None:
    main = main_of(served(port(8080), port(9090)))
    assert main["ports"] == [
        {"containerPort": 8080, "name": "p-8080"},
        {"containerPort": 9090, "name": "p-9090"},
    ]
    assert main["readinessProbe"] == {"tcpSocket": {"port": 8080}, "successThreshold": 1, "failureThreshold": 3}
    env = {one["name"]: one["value"] for one in main["env"]}
    assert (env["PORT"], env["MUSTER_PORT_8080"], env["MUSTER_PORT_9090"]) == ("8080", "8080", "9090")
    assert main["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}


def test_a_probe_asks_as_the_spec_says() -> None:
    probe = workload_pb2.ReadinessProbe(
        path="/health",
        port=8080,
        host="chat.example",
        scheme=workload_pb2.PROBE_SCHEME_HTTPS,
        period_seconds=7,
        failure_threshold=9,
    )
    assert main_of(served(port(8080), readiness_probe=probe))["readinessProbe"] == {
        "httpGet": {
            "path": "/health",
            "port": 8080,
            "scheme": "HTTPS",
            "httpHeaders": [{"name": "Host", "value": "chat.example"}],
        },
        "successThreshold": 1,
        "failureThreshold": 9,
        "periodSeconds": 7,
    }


def test_a_training_with_a_port_is_not_held_up_when_it_ends() -> None:
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, image="i", ports=[port(6006)])
    revision = Revision(1, 0, specs.pattern(spec), specs.template(spec, containers=True), (Run("worker", 0, 1, "n-7"),))
    plan = replica_plans(Assignment(ID, 1, "", 1, (revision,), "p", "runai-p", "train"), revision)[0]
    assert {"lifecycle", "readinessProbe"}.isdisjoint(main_of(plan))
    assert workload_objects.addresses_of(plan, Urls()) == ("http://train.runai-p.svc:6006",)


def test_every_port_is_reached_inside_and_some_of_them_from_outside() -> None:
    plan = served(port(8080), port(9090, 30090, NODE_PORT), port(7070, 80, BALANCER), port(5050, 50, CLUSTER_IP))
    inside, nodes, balancer = workload_objects.services_of(OWNER, plan)
    base = f"w-{ids.digest(ID)}"
    assert [one["metadata"]["name"] for one in (inside, nodes, balancer)] == [
        "chat",
        f"{base}-nodes",
        f"{base}-balancer",
    ]
    assert [one["spec"]["type"] for one in (inside, nodes, balancer)] == ["ClusterIP", "NodePort", "LoadBalancer"]
    assert [one["port"] for one in inside["spec"]["ports"]] == [8080, 9090, 7070, 50]
    assert nodes["spec"]["ports"] == [{"name": "p-9090", "port": 9090, "targetPort": "p-9090", "nodePort": 30090}]
    assert balancer["spec"]["ports"] == [{"name": "p-7070", "port": 80, "targetPort": "p-7070"}]
    assert inside["spec"]["selector"] == {marks.WORKLOAD: ID, marks.SERVING: "true"}
    assert workload_objects.addresses_of(plan, Urls())[-1] == "http://n-7:30090"


def test_the_service_type_of_the_workload_holds_for_ports_that_say_none() -> None:
    plan = served(port(8080), port(9090, reach=CLUSTER_IP), service_type=NODE_PORT)
    _, nodes = workload_objects.services_of(OWNER, plan)
    assert [one["targetPort"] for one in nodes["spec"]["ports"]] == ["p-8080"]


@pytest.mark.parametrize(("name", "service"), [("chat", "chat"), ("7b-chat", f"w-{ids.digest(ID)}")])
def test_a_service_has_the_workloads_name_where_it_may(name: str, service: str) -> None:
    inside, *_ = workload_objects.services_of(OWNER, served(port(80), name=name))
    assert inside["metadata"]["name"] == service


def test_without_ports_there_is_no_address() -> None:
    plan = served()
    assert workload_objects.services_of(OWNER, plan) == ()
    assert marks.ADDRESS not in manifests.pod(OWNER, plan, Style(), "uid")["metadata"]["annotations"]


def test_the_root_of_a_workload_is_held_until_it_is_deleted() -> None:
    made = workload_objects.root(OWNER, served(port(80)))
    root = roots.root_of({**made, "metadata": {**made["metadata"], "uid": "u"}}, OWNER)
    assert isinstance(root, WorkloadRoot)
    assert (root.workload_id, root.objects, root.finalizers) == (ID, (), (marks.ROOT,))


def test_ports_that_the_api_completes_are_the_same_ports() -> None:
    (asked,) = workload_objects.services_of(OWNER, served(port(80)))
    completed = [{**one, "protocol": "TCP", "nodePort": 31000} for one in asked["spec"]["ports"]]
    assert workload_objects.change_of(SERVICE, asked, {"spec": {"ports": completed}}) is None
    assert workload_objects.change_of(SERVICE, asked, {"spec": {}}) == {"spec": {"ports": asked["spec"]["ports"]}}


def test_another_port_of_the_nodes_is_another_port() -> None:
    _, nodes = workload_objects.services_of(OWNER, served(port(80, 30001, NODE_PORT)))
    there = {"spec": {"ports": [{**nodes["spec"]["ports"][0], "nodePort": 30002}]}}
    assert workload_objects.change_of(SERVICE, nodes, there)
    _, chosen = workload_objects.services_of(OWNER, served(port(80, reach=NODE_PORT)))
    assert workload_objects.change_of(SERVICE, chosen, there) is None


@pytest.mark.parametrize(("grace", "seconds"), [(0.0, 0), (1.0, 0), (4.0, 2), (300.0, 5)])
def test_a_server_keeps_half_of_its_grace(grace: float, seconds: int) -> None:
    main = main_of(served(port(80), grace=grace))
    assert main.get("lifecycle") == ({"preStop": {"sleep": {"seconds": seconds}}} if seconds else None)
