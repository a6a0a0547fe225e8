"""What `muster clusters join` grants on a real API server: enough for the agent's work, and nothing beyond it.

The other tests of a real server run with these rights too (tests/support/kubernetes_agents.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest

from muster_client.joining.installing import objects_of
from muster_cluster_agent.domain.findings import Severity
from muster_kernel.agent_rights import ACCOUNT, RIGHTS, Scope
from tests.support.kubernetes import MISSING, Cluster, built
from tests.support.kubernetes_agents import CLUSTER, FORBIDDEN, INSTALLATION, NAMESPACE, joined, loop

pytestmark = pytest.mark.skipif(not built(), reason=MISSING)

OUTSIDE: Final = "default"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server with a node and an agent's account."""
    with joined(tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


@pytest.fixture(scope="module")
def agent(kubernetes: Cluster) -> Iterator[httpx.Client]:
    """Calls as the agent."""
    with kubernetes.called_by(kubernetes.agent) as http:
        yield http


def namespace(name: str, **labels: str) -> Any:
    known = {"app.kubernetes.io/managed-by": "muster", "muster.io/cluster": CLUSTER, "muster.io/project": "p"}
    named = {key: labels.get(key.rpartition("/")[2].replace("-", "_"), value) for key, value in known.items()}
    labels = {key: value for key, value in named.items() if value}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def config_map(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def granted(http: httpx.Client, where: str) -> set[tuple[str, str, str]]:
    """What the API server itself says that the caller may do in a namespace: group, resource and verb."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": where}}
    answer = http.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json=body).json()
    return {
        (group, resource, verb)
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        # Every account may ask what it may do.
        if group not in {"authorization.k8s.io", "authentication.k8s.io"}
    }


def needed(*places: Scope) -> set[tuple[str, str, str]]:
    return {
        (right.group, resource, verb)
        for right in RIGHTS
        if right.scope in places
        for resource in right.resources
        for verb in right.verbs
    }


def test_the_rights_are_those_of_the_table_and_no_others(agent: httpx.Client) -> None:
    assert granted(agent, OUTSIDE) == needed(Scope.CLUSTER, Scope.PROJECTS)
    assert granted(agent, NAMESPACE) == needed(*Scope)


def test_secrets_are_never_listed(agent: httpx.Client) -> None:
    assert agent.get("/api/v1/secrets").status_code == FORBIDDEN
    assert agent.get(f"/api/v1/namespaces/{NAMESPACE}/secrets").status_code == FORBIDDEN


def bodies(kind: str) -> dict[str, Any]:
    """What an object needs so that the API server has no other objection to it than the agent's rights."""
    container = {"name": "main", "image": "x"}
    selector = {"matchLabels": {"a": "b"}}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    specs = {
        "Pod": {"containers": [container]},
        "Service": {"ports": [{"port": 80}]},
        "PersistentVolumeClaim": storage,
        "PodDisruptionBudget": {"minAvailable": 1, "selector": selector},
        "NetworkPolicy": {"podSelector": {}},
        "ResourceClaim": {"devices": {}},
        "Ingress": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}},
    }
    return {"spec": specs[kind]} if kind in specs else {}


def test_every_write_outside_of_its_namespaces_is_denied(kubernetes: Cluster, agent: httpx.Client) -> None:
    """Rights deny most of it, and the admission policy the rest."""
    tried = 0
    for group in kubernetes.groups():
        for resource in kubernetes.http.get(group).json()["resources"]:
            name, verbs = resource["name"], resource["verbs"]
            if "create" not in verbs or name.startswith("selfsubject"):
                continue
            inside = f"/namespaces/{OUTSIDE}" if resource["namespaced"] else ""
            path, _, below = name.partition("/")
            there = f"{group}{inside}/{path}/x/{below}" if below else f"{group}{inside}/{path}"
            kind = resource["kind"]
            body = {"apiVersion": version(group, resource), "kind": kind, "metadata": {"name": "x"}, **bodies(kind)}
            answer = agent.post(there, json=body)
            assert answer.status_code == FORBIDDEN, (there, answer.status_code, answer.text)
            tried += 1
    assert tried > 40  # every resource of the API server that can be made


def test_what_others_have_outside_of_its_namespaces_is_neither_changed_nor_deleted(
    kubernetes: Cluster, agent: httpx.Client
) -> None:
    right = {resource for one in RIGHTS if one.scope is Scope.PROJECTS for resource in one.resources}
    tried = set()
    for group in ("/api/v1", "/apis/policy/v1", "/apis/networking.k8s.io/v1", "/apis/resource.k8s.io/v1"):
        for resource in kubernetes.http.get(group).json()["resources"]:
            if resource["name"] not in right or "create" not in resource["verbs"]:
                continue
            kind = resource["kind"]
            metadata = {"name": "others", "namespace": OUTSIDE}
            kubernetes.apply(
                [{"apiVersion": version(group, resource), "kind": kind, "metadata": metadata, **bodies(kind)}]
            )
            there = f"{group}/namespaces/{OUTSIDE}/{resource['name']}/others"
            change = {"metadata": {"labels": {"a": "b"}}}
            patched = agent.patch(there, json=change, headers={"Content-Type": "application/merge-patch+json"})
            assert (patched.status_code, agent.delete(there).status_code) == (FORBIDDEN, FORBIDDEN), there
            tried.add(resource["name"])
    assert tried == right - {"pods/log"}


def version(path: str, resource: Any) -> str:
    own = "/".join(filter(None, (resource.get("group"), resource.get("version"))))
    return own or path.removeprefix("/apis/").removeprefix("/api/")


def test_a_namespace_of_another_cluster_is_not_written_to(kubernetes: Cluster, agent: httpx.Client) -> None:
    kubernetes.apply([namespace("of-another", cluster="another"), namespace("of-the-admin", cluster="", managed_by="")])
    denied = agent.post("/api/v1/namespaces/of-another/configmaps", json=config_map("a"))
    assert denied.status_code == FORBIDDEN
    assert "belong to no other cluster of Muster" in denied.json()["message"]
    assert agent.post("/api/v1/namespaces/of-the-admin/configmaps", json=config_map("a")).status_code == 201


def test_it_makes_namespaces_of_its_own_projects_alone(agent: httpx.Client) -> None:
    assert agent.post("/api/v1/namespaces", json=namespace("p-1")).status_code == 201
    for name, labels in {"p-2": {"project": ""}, "p-3": {"cluster": "another"}, "p-4": {"managed_by": ""}}.items():
        assert agent.post("/api/v1/namespaces", json=namespace(name, **labels)).status_code == FORBIDDEN
    assert agent.delete("/api/v1/namespaces/p-1").status_code == FORBIDDEN


async def test_a_check_finds_nothing_that_is_missing(kubernetes: Cluster) -> None:
    async with loop(kubernetes, 1) as here:
        found = await here.backend.check()
    assert [one for one in found if one.severity is Severity.ERROR] == []
    told = {one.subject: one for one in found}
    assert told["version"].text.startswith("Kubernetes v1.")
    assert told["clock"].severity is Severity.OK
    assert told["nodes"].text == "1 node with 2 GPUs (nvidia.com/gpu)"
    assert told["gpus"].severity is Severity.WARNING  # no label says the model


async def test_a_check_names_each_missing_right_and_what_admission_says(kubernetes: Cluster) -> None:
    spec = {"limits": [{"type": "Pod", "min": {"memory": "1Gi"}}]}
    metadata = {"name": "least", "namespace": "limited"}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec}
    kubernetes.apply([namespace("limited"), limits])
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/muster-agent-c-projects"
    rules = kubernetes.http.get(role).json()
    fewer = {**rules, "rules": [one for one in rules["rules"] if "services" not in one["resources"]]}
    kubernetes.http.put(role, json=fewer).raise_for_status()
    try:
        async with loop(kubernetes, 2) as here:
            found = await here.backend.check()
    finally:
        fresh = kubernetes.http.get(role).json()
        kubernetes.http.put(role, json={**fresh, "rules": rules["rules"]}).raise_for_status()
    errors = [one for one in found if one.severity is Severity.ERROR]
    denied = {one.text.partition(":")[0] for one in errors if one.subject == "rights"}
    assert denied == {
        f"the agent may not {verb} services in namespaces of projects" for verb in ("create", "get", "patch", "delete")
    }
    (denial,) = [one.text for one in errors if one.subject == "admission"]
    assert denial.startswith("a pod would not be admitted to namespace limited")
    assert "minimum memory usage per Pod is 1Gi" in denial


@pytest.mark.parametrize("image", ["", "registry.example/muster-agent:1"])
def test_all_that_is_printed_can_be_applied_twice(kubernetes: Cluster, image: str) -> None:
    installation = replace(INSTALLATION, image=image)
    kubernetes.apply(objects_of(installation))
    account = kubernetes.http.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}")
    assert account.status_code == 200


def test_of_nodes_it_changes_the_labels_of_a_mig_manager_alone(kubernetes: Cluster, agent: httpx.Client) -> None:
    (node,) = [each["metadata"]["name"] for each in kubernetes.http.get("/api/v1/nodes").json()["items"]]
    merge = {"Content-Type": "application/merge-patch+json"}

    def patch(change: Any, below: str = "") -> int:
        return agent.patch(f"/api/v1/nodes/{node}{below}", json=change, headers=merge).status_code

    asked = {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": None}
    assert patch({"metadata": {"labels": asked}}) == 200
    for labels in ({"a": "b"}, {**asked, "a": "b"}, {"kubernetes.io/hostname": "x"}, {"kubernetes.io/hostname": None}):
        kubernetes.http.patch(
            f"/api/v1/nodes/{node}", json={"metadata": {"labels": {"kubernetes.io/hostname": node}}}, headers=merge
        )
        assert patch({"metadata": {"labels": labels}}) == FORBIDDEN, labels
    assert patch({"metadata": {"annotations": {"a": "b"}}}) == FORBIDDEN
    assert patch({"metadata": {"finalizers": ["a.b/c"]}}) == FORBIDDEN
    assert patch({"spec": {"unschedulable": True}}) == FORBIDDEN
    assert patch({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}) == FORBIDDEN
    assert patch({"status": {"allocatable": {"nvidia.com/gpu": "9"}}}, "/status") == FORBIDDEN
    assert patch({"metadata": {"labels": {"nvidia.com/mig.config": None}}}) == 200
