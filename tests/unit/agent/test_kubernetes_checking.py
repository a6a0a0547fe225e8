"""What a cluster says of itself, judged: each line of a check in order, and not in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster_cluster_agent.domain.findings import Finding, Severity
from muster_cluster_agent.domain.kubernetes import checking
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceKey, ListedDevice, NodeDevices
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.marks import Owner
from muster_cluster_agent.domain.kubernetes.nodes import Counting, KubernetesNode, node_of
from muster_cluster_agent.domain.kubernetes.roots import Namespace
from muster_kernel.agent_rights import Right, Scope


def node(name: str, *, gpus: int = 0, ready: bool = True, **labels: str) -> KubernetesNode:
    """A node; labels: product and replicas of its GPUs."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"conditions": conditions, "allocatable": {"cpu": "8", "nvidia.com/gpu": str(gpus)}}
    named = {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}
    return node_of({"metadata": {"name": name, "uid": name, "labels": named}, "spec": {}, "status": status})


def levels(found: list[Finding]) -> dict[str, Severity]:
    return {one.subject: one.severity for one in found}


@pytest.mark.parametrize(
    ("raw", "level", "text"),
    [
        ({"major": "1", "minor": "34", "gitVersion": "v1.34.1"}, Severity.OK, "Kubernetes v1.34.1"),
        ({"major": "1", "minor": "30+", "gitVersion": "v1.30.2-eks"}, Severity.OK, "Kubernetes v1.30.2-eks"),
        ({"major": "1", "minor": "29", "gitVersion": "v1.29.0"}, Severity.ERROR, "upgrade it to 1.30 or newer"),
        ({"major": "1", "minor": "36", "gitVersion": "v1.36.0"}, Severity.WARNING, "newer than 1.35"),
        ({"gitVersion": "custom"}, Severity.WARNING, "cannot be read"),
    ],
)
def test_versions(raw: dict[str, Any], level: Severity, text: str) -> None:
    found = checking.version(raw)
    assert found.severity is level
    assert text in found.text


@pytest.mark.parametrize(
    ("skew", "level", "text"),
    [
        (0.4, Severity.OK, "the clocks agree"),
        (3600.0, Severity.ERROR, "3600 s ahead of the agent's"),
        (-61.0, Severity.ERROR, "61 s behind the agent's"),
        (None, Severity.WARNING, "sends no Date header"),
    ],
)
def test_clocks(skew: float | None, level: Severity, text: str) -> None:
    found = checking.clock(skew)
    assert found.severity is level
    assert text in found.text


def test_each_missing_right_is_a_line_and_says_where() -> None:
    pods, budgets = Right(Scope.PROJECTS, "", ("pods",), ("create",)), Right(Scope.OWN, "policy", ("b",), ("get",))
    (granted,) = checking.rights([], 43)
    assert (granted.severity, granted.text) == (Severity.OK, "all 43 rights are granted")
    found = list(checking.rights([(pods, "pods", "create", "vision"), (budgets, "b", "get", "")], 43))
    assert [one.text.partition(":")[0] for one in found] == [
        "the agent may not create pods in namespace vision",
        "the agent may not get b.policy in its own namespace",
    ]


def test_namespaces() -> None:
    here = Namespace("vision", "vision", terminating=False)
    assert checking.namespaces([here], managed=False) == Finding(Severity.OK, "namespaces", "vision")
    assert checking.namespaces([], managed=True).severity is Severity.OK
    assert checking.namespaces([], managed=False).severity is Severity.ERROR
    ending = checking.namespaces([here, replace(here, name="speech", terminating=True)], managed=True)
    assert (ending.severity, ending.text) == (Severity.WARNING, "speech is being deleted: nothing is placed there")


def test_classes() -> None:
    assert checking.priority_class("", None).severity is Severity.WARNING
    assert checking.priority_class("muster", None).severity is Severity.ERROR
    assert checking.priority_class("muster", {"preemptionPolicy": "Never"}).severity is Severity.OK
    assert "PreemptLowerPriority: set it to Never" in checking.priority_class("muster", {}).text
    said = ("runtime class", "RuntimeClass")
    assert checking.named_class(*said, "", there=False) is None
    missing, there = (checking.named_class(*said, "nvidia", there=found) for found in (False, True))
    assert missing is not None
    assert there is not None
    assert (missing.severity, there.severity) == (Severity.ERROR, Severity.OK)
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes: list[dict[str, Any]] = [
        {"metadata": {"name": "slow"}},
        {"metadata": {"name": "fast", "annotations": default}},
    ]
    assert checking.storage_classes([]).severity is Severity.WARNING
    assert checking.storage_classes(classes[:1]).text.endswith("have to name one of slow")
    assert checking.storage_classes(classes) == Finding(
        Severity.OK, "storage", "claims get StorageClass fast unless they name another"
    )


def test_labels_and_resources_have_to_agree() -> None:
    good = node("a", gpus=8, product="NVIDIA-H100-80GB-HBM3")
    assert levels(list(checking.nodes([good], Counting(), {}))) == {"nodes": Severity.OK}
    bare, unknown = node("b", product="NVIDIA-H100"), node("c", gpus=4)
    shared, silent = node("d", gpus=16, product="A100-SHARED", replicas="4"), node("e", ready=False)
    found = list(checking.nodes([good, bare, unknown, shared, silent], Counting(), {}))
    assert [one.text for one in found] == [
        "e is not Ready: nothing is placed there",
        "b has a GPU label but no nvidia.com/gpu: check the device plugin",
        "c has GPUs of an unknown model: run GPU feature discovery, or label them",
        "d is reported without GPUs: the cards are shared by time-slicing",
        "5 nodes with 12 GPUs (nvidia.com/gpu)",
    ]
    assert [one.severity for one in found] == [
        Severity.WARNING,
        Severity.ERROR,
        Severity.WARNING,
        Severity.WARNING,
        Severity.OK,
    ]
    (none,) = checking.nodes([], Counting(), {})
    assert none.severity is Severity.ERROR


def test_of_many_names_five_are_shown() -> None:
    found = next(iter(checking.nodes([node(f"n-{n}", ready=False) for n in range(9)], Counting(), {})))
    assert found.text == "n-0, n-1, n-2, n-3, n-4 and 4 more are not Ready: nothing is placed there"


def test_a_trial_pod_is_as_the_cluster_file_wants_pods() -> None:
    style = Style(priority_class="muster", runtime_class="nvidia", pull_secrets=("registry",))
    pod = checking.trial_pod(Owner("agent", "lab"), "vision", style)
    assert pod["metadata"]["namespace"] == "vision"
    assert pod["spec"]["priorityClassName"] == "muster"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert "schedulerName" not in pod["spec"]
    assert checking.trial("vision", "").severity is Severity.OK
    assert checking.trial("vision", "denied by team-policy").text.endswith("to namespace vision: denied by team-policy")


def test_devices_by_claims_need_their_class_and_no_plugin_beside_them() -> None:
    key = DeviceKey("a", "gpu-0")
    apart = {"a": NodeDevices((ListedDevice(key, "GPU-0", "T4", 16 << 30),), frozenset({"a"}), parts=2)}
    told = node("a", product="NVIDIA-T4")
    (nodes,) = checking.nodes([told], Counting(), apart)
    assert nodes.text == "1 node with 0 GPUs (nvidia.com/gpu) and 1 by device claims"
    assert [*checking.device_claims([told], {}, Counting(), "gpu", there=False)] == []
    missing, _ = checking.device_claims([told], apart, Counting(), "gpu", there=False)
    assert (missing.severity, missing.text.partition(":")[0]) == (Severity.ERROR, "DeviceClass gpu is missing")
    both, parts, good = checking.device_claims([node("a", gpus=1)], apart, Counting(), "gpu", there=True)
    assert both.text.startswith("a has devices by a driver and by nvidia.com/gpu: run one of the two there")
    assert parts.text == "a has parts of cards, which are left out: claims are for whole cards"
    assert good == Finding(Severity.OK, "device claims", "a has devices of class gpu")
