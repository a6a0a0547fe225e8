"""What a cluster needs before its agent runs there, as `muster clusters join` prints it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster_client.cli.joining import Kafka
from muster_client.errors import InvalidInput
from muster_client.joining.installing import objects_of
from muster_client.joining.settings import cluster_file, has_mig_manager
from muster_client.joining.values import BusAccess, Installation
from muster_cluster_agent.adapters.kubernetes.cluster_file import parse
from muster_kernel.agent_rights import RIGHTS

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "kubernetes-clusters.md"
_ONLY_IF = (", where the agent makes namespaces", ", with `mig_manager: true`")
INSTALLATION = Installation(
    cluster="lab",
    namespace="muster",
    projects=(),
    cluster_file=cluster_file("lab", "muster", managed=True),
    trust='{"keys": []}',
    submission="10.0.0.1:7070",
    submission_tls=True,
    submission_ca="-----BEGIN CERTIFICATE-----",
    bus=BusAccess("10.0.0.1:9092", "sasl_ssl", "agent-lab", "its-password", "-----BEGIN CERTIFICATE-----"),
    application=("id", "its-secret"),
    image="registry.example/agent:1",
)


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in found if one["kind"] == kind]


def test_namespaces_that_the_agent_makes_need_its_rights_everywhere_and_a_policy() -> None:
    found = objects_of(INSTALLATION)
    bound = {one["roleRef"]["name"] for one in of_kind(found, "ClusterRoleBinding")}
    assert bound == {"muster-agent-lab", "muster-agent-lab-projects"}
    policy, of_nodes = of_kind(found, "ValidatingAdmissionPolicy")
    assert of_nodes["metadata"]["name"] == f"{policy['metadata']['name']}-nodes"
    assert "system:serviceaccount:muster:muster-agent" in policy["spec"]["matchConditions"][0]["expression"]
    binding, _ = of_kind(found, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}


def test_namespaces_that_are_listed_have_a_binding_each_and_nothing_is_bound_everywhere() -> None:
    found = objects_of(replace(INSTALLATION, projects=("vision", "speech")))
    everywhere = {one["roleRef"]["name"]: len(one["subjects"]) for one in of_kind(found, "ClusterRoleBinding")}
    assert everywhere == {"muster-agent-lab": 1, "muster-agent-lab-projects": 0}
    bound = {one["metadata"]["namespace"]: one["roleRef"]["name"] for one in of_kind(found, "RoleBinding")}
    roles = "muster-agent-lab-projects"
    assert bound == {"vision": roles, "speech": roles, "muster": "muster-agent"}
    (role,) = [one for one in of_kind(found, "ClusterRole") if one["metadata"]["name"] == "muster-agent-lab"]
    assert not any("create" in rule["verbs"] for rule in role["rules"])


def test_no_role_lists_or_watches_secrets() -> None:
    for role in (*of_kind(objects_of(INSTALLATION), "ClusterRole"), *of_kind(objects_of(INSTALLATION), "Role")):
        for rule in role["rules"]:
            assert "secrets" not in rule["resources"] or not {"list", "watch"} & {*rule["verbs"]}


def test_the_agent_finds_every_file_that_its_settings_name() -> None:
    found = objects_of(INSTALLATION)
    (deployment,) = of_kind(found, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (config,), (secret,) = of_kind(found, "ConfigMap"), of_kind(found, "Secret")
    assert pod["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]
    assert pod["volumes"][1]["secret"]["secretName"] == secret["metadata"]["name"]
    files = {f"{folders['config']}/{name}" for name in config["data"]}
    files |= {f"{folders['credentials']}/{name}" for name in secret["stringData"]}
    named = {one["value"] for one in container["env"] if one.get("value", "").startswith("/")}
    assert named == files


def test_a_standby_that_waits_for_the_lead_is_neither_killed_nor_waited_for() -> None:
    (deployment,) = of_kind(objects_of(INSTALLATION), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert "readinessProbe" not in container
    assert container["livenessProbe"]["httpGet"]["path"] == "/metrics"


def test_credentials_stand_in_the_secret_alone() -> None:
    found = objects_of(INSTALLATION)
    shown = [one["kind"] for one in found if "its-secret" in str(one) or "its-password" in str(one)]
    assert shown == ["Secret"]
    assert not of_kind(objects_of(replace(INSTALLATION, application=None)), "Secret")


def test_the_agent_does_not_take_its_own_installation_for_its_work() -> None:
    for one in objects_of(INSTALLATION):
        assert "app.kubernetes.io/managed-by" not in one["metadata"]["labels"]
        assert "muster.io/project" not in one["metadata"]["labels"]


def test_without_an_image_nothing_runs_in_the_cluster() -> None:
    kinds = {one["kind"] for one in objects_of(replace(INSTALLATION, image=""))}
    assert kinds.isdisjoint({"Deployment", "PodDisruptionBudget", "NetworkPolicy"})


def test_the_printed_cluster_file_is_one_that_the_agent_reads(tmp_path: Path) -> None:
    more = "tolerate: [{key: nvidia.com/gpu, operator: Exists}]\npriority_class: own\n"
    text = cluster_file("lab", "ops", managed=False, more=more)
    found = parse(text, where=tmp_path / "cluster.yaml")
    assert (found.cluster, found.namespace, found.managed) == ("lab", "ops", False)
    assert (found.style.priority_class, found.kubeconfig) == ("own", None)
    assert found.counting.tolerated == {"nvidia.com/gpu"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cluster: other", "cluster is 'other', but this command sets it to 'lab'"),
        ("kubeconfig: here", "kubeconfig is for an agent outside of the cluster"),
        ("- a", "expected settings as `key: value`"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_cluster_file_that_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        cluster_file("lab", "muster", managed=True, more=text, where="more.yaml")


def test_a_kafka_that_asks_for_a_password_is_given_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="give --kafka-password-file FILE"):
        Kafka(bootstrap="k:9092").access("lab", rotate=False)
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        Kafka(bootstrap="k:9092", password_file=tmp_path / "none").access("lab", rotate=False)
    file = tmp_path / "password"
    file.write_text("secret\n")
    access = Kafka(bootstrap="k:9092", password_file=file).access("lab", rotate=False)
    assert access == BusAccess("k:9092", "sasl_ssl", "agent-lab", "secret")


def test_the_guide_lists_exactly_the_rights_of_the_table() -> None:
    """A line of the guide: | where | resources | verbs |, `resources` as `kubectl api-resources` names them."""
    lines = [line.split("|")[1:-1] for line in GUIDE.read_text().splitlines() if line.startswith("| ")]
    listed = set()
    for cells in lines:
        where, resources, verbs = (cell.strip() for cell in (*cells, "", "")[:3])
        for place in {right.scope.value for right in RIGHTS}:
            only_if = where.removeprefix(place)
            if where.startswith(place) and only_if in {"", *_ONLY_IF}:
                listed |= {
                    (place, resource, verb, only_if) for resource in resources.split(", ") for verb in verbs.split(", ")
                }
    assert listed == {
        (right.scope.value, resource, verb, _ONLY_IF[0] * right.managed + _ONLY_IF[1] * right.mig_manager)
        for right in RIGHTS
        for resource in right.resources
        for verb in right.verbs
    }


def test_only_an_agent_with_a_mig_manager_may_change_nodes_and_only_two_labels_of_them() -> None:
    def changes_nodes(found: list[dict[str, Any]]) -> bool:
        rules = [rule for one in of_kind(found, "ClusterRole") for rule in one["rules"]]
        return any("nodes" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)

    assert not changes_nodes(objects_of(INSTALLATION))
    found = objects_of(replace(INSTALLATION, mig_manager=True))
    assert changes_nodes(found)
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(found, "ValidatingAdmissionPolicy")}
    assert set(policies) == {"muster-agent-lab", "muster-agent-lab-nodes"}
    assert len(of_kind(found, "ValidatingAdmissionPolicyBinding")) == 2
    (rule,) = policies["muster-agent-lab-nodes"]["validations"]
    assert "['nvidia.com/mig.config', 'nvidia.com/mig.config.state']" in rule["expression"]


def test_the_cluster_file_says_whether_there_is_a_mig_manager() -> None:
    assert not has_mig_manager(cluster_file("lab", "muster", managed=True))
    assert has_mig_manager(cluster_file("lab", "muster", managed=True, more="mig_manager: true\n"))
