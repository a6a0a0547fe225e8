"""Devices that KAI-Scheduler gives: what a pod says to it, and what is read of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.kubernetes import device_requests, kai, manifests, marks
from muster_cluster_agent.domain.kubernetes.device_parts import Part
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.kai import KaiSettings
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.pods import pod_of
from muster_cluster_agent.domain.kubernetes.resources import Manifest
from muster_cluster_agent.domain.model import Share, Slice
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan
from tests.support import kubernetes_pods
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


@pytest.mark.parametrize(
    ("share", "units", "annotations"),
    [
        (Share("c", whole=True), {"nvidia.com/gpu": "2"}, {}),
        (Share("c", portion_milli=1000), {"nvidia.com/gpu": "2"}, {}),
        (Share("c", portion_milli=125), {}, {"gpu-fraction": "0.125", "gpu-fraction-num-devices": "2"}),
        (Share("c", memory_bytes=(8 << 30) + 1), {}, {"gpu-memory": "8192", "gpu-fraction-num-devices": "2"}),
    ],
)
def test_whole_cards_are_units_and_parts_are_annotations(
    share: Share, units: dict[str, str], annotations: dict[str, str]
) -> None:
    made = pod(plan(replace(share, device="lab/n-0/0"), replace(share, device="lab/n-0/1")))
    said, main = made["metadata"]["annotations"], made["spec"]["containers"][0]
    limits = main.get("resources", {}).get("limits", {})
    assert {name: text for name, text in limits.items() if "/" in name} == units
    assert {name: text for name, text in said.items() if name.startswith("gpu-")} == annotations
    assert "resourceClaims" not in made["spec"]
    assert "NVIDIA_VISIBLE_DEVICES" not in {one["name"] for one in main["env"]}
    assert made["spec"]["schedulerName"] == "kai-scheduler"
    found = pod_of({**made, "metadata": {**made["metadata"], "uid": "u"}}, OWNER)
    assert (found.source, found.devices) == (DeviceSource.KAI, ("lab/n-0/0", "lab/n-0/1"))
    assert found.parted == bool(annotations)


def test_one_part_needs_no_number_of_devices() -> None:
    said = pod(plan(Share("lab/n-0/0", portion_milli=500)))["metadata"]["annotations"]
    assert {name: text for name, text in said.items() if name.startswith("gpu-")} == {"gpu-fraction": "0.5"}


@given(st.integers(1, 999))
def test_a_portion_is_asked_for_exactly(milli: int) -> None:
    assert Decimal(kai.annotations_of((Share("c", portion_milli=milli),))["gpu-fraction"]) * 1000 == milli


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((Share("c", slice=Slice("1g.10gb", 0)),), "given by KAI-Scheduler, which has no MIG slices"),
        ((Share("c", portion_milli=500), Share("d", portion_milli=250)), "equal parts"),
    ],
)
def test_what_kai_cannot_give_is_refused_with_its_reason(shares: tuple[Share, ...], words: str) -> None:
    with pytest.raises(InvalidCommand, match=words):
        device_requests.check(plan(*shares), DeviceSource.KAI, direct=False)


def test_groups_are_read_of_both_forms_of_the_label() -> None:
    assert kai.groups_in({"team": "a"}) == ()
    assert kai.groups_in({"runai-gpu-group": "A"}) == ("A",)
    assert kai.groups_in({"runai-gpu-group/B": "B", "runai-gpu-group/A": "A", "runai-gpu-group": ""}) == ("A", "B")


@pytest.mark.parametrize(
    ("text", "found"), [("w-a-shared-gpu", "w-a-shared-gpu"), ("../secrets/a", ""), ("a/b", ""), ("", ""), ("a?b", "")]
)
def test_a_config_map_is_read_by_a_name_that_is_one(text: str, found: str) -> None:
    assert kai.config_map_in({"runai/shared-gpu-configmap": text}) == found


@pytest.mark.parametrize(
    ("said", "part", "count", "expected"),
    [
        ({}, Part(500), 1, False),
        ({"RUNAI-VISIBLE-DEVICES": "0,3", "RUNAI_NUM_OF_GPUS": "0.5"}, Part(500), 2, False),
        ({"NVIDIA_VISIBLE_DEVICES": "0", "GPU_PORTION": "0.5"}, Part(500), 2, True),
        ({"GPU_PORTION": "0.51"}, Part(500), 1, True),
        ({"GPU_PORTION": "0.12"}, Part(125), 1, False),
        ({"GPU_PORTION": "0.38"}, Part(375), 1, False),
        ({"GPU_PORTION": "0.30000000000000004"}, Part(300), 1, False),
        ({"GPU_PORTION": "0.1"}, Part(0, 1 << 30), 1, False),
        ({"GPU_PORTION": "half"}, Part(500), 1, False),
        ({"GPU_PORTION": "inf"}, Part(500), 1, True),
    ],
)
def test_what_a_config_map_says_is_compared_with_what_was_assigned(
    said: dict[str, str], part: Part, count: int, expected: bool
) -> None:
    assert kai.contradicts(said, part, count) == expected


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"A": 1}', "7", "[" * 100_000])
def test_an_annotation_of_cards_that_cannot_be_read_names_none(text: str) -> None:
    raw = kubernetes_pods.raw(kubernetes_pods.running())
    raw["metadata"]["annotations"] |= {marks.CARDS: text, marks.PART: "portion=500", marks.BY_KAI: "true"}
    assert pod_of(raw, OWNER).cards == {}


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
