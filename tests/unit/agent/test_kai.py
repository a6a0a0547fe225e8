"""Devices that KAI-Scheduler gives: what a pod says to it."""

from __future__ import annotations

from dataclasses import replace

from muster_cluster_agent.domain.kubernetes import manifests
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.plan import ReplicaPlan
from tests.support.kubernetes_pods import OWNER
from tests.unit.agent.test_device_claims import plan

STYLE = Style(scheduler="batch", kai=KaiSettings("muster"))


def pod(made: ReplicaPlan) -> Manifest:
    return manifests.pod(OWNER, made, STYLE, "root", source=DeviceSource.KAI)


def test_a_pod_with_counted_devices_is_scheduled_by_kai() -> None:
    made = pod(replace(plan(), shares=(), slots=(("", 2),)))
    assert made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert (made["spec"]["schedulerName"], made["metadata"]["labels"]["kai.scheduler/queue"]) == (
        "kai-scheduler",
        "muster",
    )


def test_a_pod_without_devices_is_scheduled_as_any_other() -> None:
    made = pod(replace(plan(), shares=()))
    assert made["spec"]["schedulerName"] == "batch"
    assert "kai.scheduler/queue" not in made["metadata"]["labels"]


def test_users_choose_no_queue_and_no_devices_of_kai() -> None:
    labels = (("kai.scheduler/queue", "theirs"), ("runai-gpu-group", "x"), ("team", "a"))
    annotations = (("gpu-fraction", "0.9"), ("nvidia.com/mig-1g.5gb", "1"), ("note", "b"))
    asked = replace(plan(), shares=(), slots=(("", 1),))
    container = replace(asked.container_or_empty, labels=labels, annotations=annotations)
    metadata = pod(replace(asked, container=container))["metadata"]
    assert {name: metadata["labels"].get(name) for name, _ in labels} == {
        "kai.scheduler/queue": "muster",
        "runai-gpu-group": None,
        "team": "a",
    }
    assert {name: metadata["annotations"].get(name) for name, _ in annotations} == {
        "gpu-fraction": None,
        "nvidia.com/mig-1g.5gb": None,
        "note": "b",
    }
