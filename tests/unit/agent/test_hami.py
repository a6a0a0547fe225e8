"""Devices that HAMi shares: its annotations as they are read, and what a pod asks of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.adapters.kubernetes.support import KUBERNETES
from muster_cluster_agent.domain.findings import Severity
from muster_cluster_agent.domain.fleet import Identity, Mig, Node, NodeState, Profile, SlotGroup
from muster_cluster_agent.domain.kubernetes import checking, device_parts, device_requests, hami, manifests, marks
from muster_cluster_agent.domain.kubernetes.abilities import GPU_MEMORY, abilities
from muster_cluster_agent.domain.kubernetes.device_parts import Allocation, Part, part_in, part_of, text_of
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.hami import Registered
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.nodes import Counting, KubernetesNode, node_of, reported
from muster_cluster_agent.domain.kubernetes.pods import Pod, pod_of
from muster_cluster_agent.domain.model import Share, Slice
from muster_cluster_agent.domain.plan import InvalidCommand
from tests.support import kubernetes_pods
from tests.support.hami import device, register
from tests.support.kubernetes_pods import OWNER
from tests.unit.agent.test_device_claims import plan

GIB = 1 << 30
OLD = (
    "GPU-a,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,true:"
    "GPU-b,10,15360,100,NVIDIA-Tesla T4,0,false,1,hami-core:"
    "GPU-c,10,40960,100,NVIDIA-A100-SXM4-40GB,1,true,2,mig:"
)


def here(*uuids: str) -> Registered:
    return hami.registered(register(*uuids))


def portions(milli: int, *uuids: str) -> tuple[Share, ...]:
    return tuple(Share(uuid, portion_milli=milli) for uuid in uuids)


def test_both_forms_of_the_annotation_say_the_same() -> None:
    entries = [
        device("GPU-a", devmem=81_559, type="NVIDIA-NVIDIA H100 80GB HBM3"),
        device("GPU-b", devmem=15_360, type="NVIDIA-Tesla T4", health=False),
        device("GPU-c", devmem=40_960, type="NVIDIA-A100-SXM4-40GB", mode="mig"),
    ]
    found = hami.registered(OLD)
    assert found == hami.registered(json.dumps(entries))
    assert [(one.uuid, one.model, one.memory_bytes, one.slot, one.healthy) for one in found.devices] == [
        ("GPU-a", "H100-80GB", 81_559 << 20, 0, True),
        ("GPU-b", "T4", 15_360 << 20, 1, False),
    ]
    assert (found.devices[1].trouble, found.parts, found.problem) == (hami.UNHEALTHY, 1, "")


@pytest.mark.parametrize(
    "text",
    [
        "GPU-a,10,81559",
        "GPU-a,10,much,100,T4,0,true:",
        "GPU-a,10,1,100,T4,0,perhaps:",
        ",10,1,100,T4,0,true:",
        "[1]",
        "[" * 100_000,
        '[{"id": "GPU-a"}]',
        register("GPU-a", "GPU-a"),
        json.dumps([device("GPU-a", devmem=-1)]),
        json.dumps([device("GPU-a", devmem=1 << 60)]),
        json.dumps([device("GPU-a", devmem=True)]),
        json.dumps([device("GPU-a", health="yes")]),
        json.dumps([device(7)]),
    ],
)
def test_an_annotation_that_cannot_be_read_offers_nothing_and_says_why(text: str) -> None:
    found = hami.registered(text)
    assert found.devices == ()
    assert 0 < len(found.problem) <= 200


@given(st.one_of(st.text(max_size=60), st.text(alphabet='GPU-a1,:;true[]{}" ', max_size=60)))
def test_no_text_of_an_annotation_raises(text: str) -> None:
    assert not (hami.registered(text).problem and hami.registered(text).devices)
    assert not (hami.allocation(text).problem and hami.allocation(text).devices)
    part = part_in(text)
    assert (part is None) == (not text.partition("=")[0])


@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text()), st.lists, max_leaves=8))
def test_no_json_of_an_annotation_raises(value: Any) -> None:
    for text in (json.dumps([value]), json.dumps([{"id": value, "devmem": value, "type": value, "health": value}])):
        assert hami.registered(text).problem


@given(st.lists(st.lists(st.from_regex(r"GPU-[0-9a-f]{1,6}", fullmatch=True), max_size=4), min_size=1, max_size=4))
def test_an_allocation_names_the_devices_of_all_containers_once(containers: list[list[str]]) -> None:
    text = "".join("".join(f"{uuid},NVIDIA,1024,50:" for uuid in each) + ";" for each in containers)
    assert hami.allocation(text) == Allocation(tuple(dict.fromkeys(uuid for each in containers for uuid in each)))


@pytest.mark.parametrize("text", ["GPU-a:;", "GPU-a,NVIDIA,1:;", ",NVIDIA,1,1:;"])
def test_an_allocation_that_cannot_be_read_says_so(text: str) -> None:
    assert hami.allocation(text).problem


@given(st.integers(1, 999), st.integers(1, 4))
def test_a_portion_never_takes_more_than_it_is_charged_for(milli: int, count: int) -> None:
    units = hami.units_of(portions(milli, *"abcd"[:count]), "nvidia.com/gpu")
    assert units["nvidia.com/gpu"] == str(count)
    assert units["nvidia.com/gpumem-percentage"] == units["nvidia.com/gpucores"]
    assert int(units["nvidia.com/gpucores"]) == max(1, milli // 10)


@given(st.integers(1 << 20, 1 << 40))
def test_memory_is_asked_for_in_whole_mebibytes(amount: int) -> None:
    units = hami.units_of((Share("a", memory_bytes=amount),), "nvidia.com/gpu")
    assert amount - (1 << 20) < int(units.pop("nvidia.com/gpumem")) << 20 <= amount
    assert units == {"nvidia.com/gpu": "1"}


@given(st.one_of(st.just(Part()), st.integers(1, 999).map(Part), st.integers(1, 1 << 50).map(lambda n: Part(0, n))))
def test_a_part_is_read_as_it_was_written(part: Part) -> None:
    assert part_in(text_of(part)) == part
    assert part_of(part.shares(["GPU-a", "GPU-b"])) == part


def test_whole_devices_are_asked_for_by_their_uuids() -> None:
    made = manifests.pod(OWNER, plan(), Style(), "root", source=DeviceSource.HAMI)
    main, annotations = made["spec"]["containers"][0], made["metadata"]["annotations"]
    assert main["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert not [name for name in main["resources"]["limits"] if "gpumem" in name or "gpucores" in name]
    assert (annotations["nvidia.com/use-gpuuuid"], annotations[marks.PART]) == ("GPU-b,GPU-a", "whole")
    assert made["spec"]["schedulerName"] == "hami-scheduler"
    assert "resourceClaims" not in made["spec"]
    assert "claims" not in main["resources"]
    env = {one["name"]: one.get("value") for one in main["env"]}
    assert "NVIDIA_VISIBLE_DEVICES" not in env
    assert json.loads(env["MUSTER_DEVICES"]) == [{"uuid": uuid, "whole": True} for uuid in ("GPU-b", "GPU-a")]


@pytest.mark.parametrize("scheduler", ["", "batch"])
def test_a_scheduler_may_be_left_to_the_webhook_of_hami(scheduler: str) -> None:
    style = Style(scheduler=scheduler, hami_scheduler="")
    made = manifests.pod(OWNER, plan(), style, "root", source=DeviceSource.HAMI)
    assert made["spec"].get("schedulerName", "") == scheduler


def test_users_choose_no_devices_of_hami() -> None:
    made = plan(Share("GPU-a", portion_milli=250))
    said = (("nvidia.com/nouse-gpuuuid", "GPU-a"), ("hami.io/vgpu-devices-allocated", "x"), ("team", "a"))
    container = replace(made.container_or_empty, annotations=(*said, ("nvidia.com/use-gpuuuid", "GPU-z")))
    made = replace(made, container=container)
    annotations = manifests.pod(OWNER, made, Style(), "root", source=DeviceSource.HAMI)["metadata"]["annotations"]
    assert annotations["team"] == "a"
    assert annotations["nvidia.com/use-gpuuuid"] == "GPU-a"
    assert not [name for name in annotations if name.startswith("hami.io/") or "nouse" in name]
    assert annotations[marks.PART] == "portion=250"


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((Share("GPU-a", slice=Slice("1g.10gb", 0)),), "no MIG slices"),
        ((Share("GPU-a", portion_milli=500), Share("GPU-b", portion_milli=250)), "equal parts"),
    ],
)
def test_what_hami_cannot_give_is_refused_with_its_reason(shares: tuple[Share, ...], words: str) -> None:
    with pytest.raises(InvalidCommand, match=words):
        device_requests.check(plan(*shares), DeviceSource.HAMI, direct=False)


def pod_with(annotations: dict[str, str]) -> Pod:
    raw = kubernetes_pods.raw(kubernetes_pods.running())
    raw["metadata"]["annotations"].update(annotations)
    return pod_of(raw, OWNER)


def test_a_pod_keeps_what_it_was_assigned_and_what_it_was_given() -> None:
    said = {marks.DEVICES: '["GPU-a"]', marks.PART: "bytes=1024", hami.ALLOCATED: "GPU-b,NVIDIA,1,0:;"}
    found = pod_with(said)
    assert found.shares == (Share("GPU-a", memory_bytes=1024),)
    assert found.allocation == Allocation(("GPU-b",))
    assert pod_with({marks.DEVICES: '["GPU-a"]'}).shares == (Share("GPU-a", whole=True),)


def test_ready_waits_for_the_devices_and_another_number_is_told() -> None:
    both, one = Allocation(("GPU-b", "GPU-a")), Allocation(("GPU-a",))
    assert device_parts.given(None, ("GPU-a",), listed=True) is None
    assert device_parts.given(both, ("GPU-a", "GPU-c"), listed=True) == ("GPU-a", "GPU-b")
    assert device_parts.given(both, ("GPU-a", "GPU-c"), listed=False) == ()
    assert device_parts.given(one, ("GPU-a", "GPU-c"), listed=True) is None
    assert device_parts.differs(one, ("GPU-a", "GPU-c"), bound=False)
    assert not device_parts.differs(both, ("GPU-a", "GPU-c"), bound=True)
    assert not device_parts.differs(None, ("GPU-a",), bound=False)
    assert device_parts.differs(None, ("GPU-a",), bound=True), "another scheduler has bound it"


def test_devices_of_others_are_told_and_all_of_them_where_it_cannot_be_read() -> None:
    node = here("GPU-a", "GPU-b")
    assert hami.foreign(node, [None, Allocation(("GPU-b", "GPU-x"))]) == ("GPU-b",)
    assert hami.foreign(node, [Allocation(problem="odd")]) == ("GPU-a", "GPU-b")


def node_with(text: str, name: str = "n-0") -> KubernetesNode:
    return node_of(
        {
            "metadata": {"name": name, "uid": "u", "annotations": {hami.REGISTERED: text}},
            "status": {
                "allocatable": {"cpu": "8", "nvidia.com/gpu": "20"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )


def test_units_of_a_node_of_hami_are_no_devices() -> None:
    assert reported(node_with("?"), [], Counting()).slots == ()


def test_the_check_tells_of_nodes_that_hami_has_registered() -> None:
    good, odd = node_with(register("GPU-a", "GPU-b")), node_with("GPU-a,1:", "odd")
    sliced = node_with(json.dumps([device("GPU-c", mode="mig")]), "sliced")
    found = list(checking.hami_nodes([good, odd, sliced], {}, {"n-0", "other"}, used=True))
    assert [one.severity for one in found] == [Severity.ERROR, Severity.WARNING, Severity.WARNING, Severity.OK]
    assert "node odd cannot be read (ValueError: expected 7 fields, not 'GPU-a,1')" in found[0].text
    assert found[2].text.startswith("n-0 has pods whose annotation")
    assert found[3].text == "n-0 has 2 devices, which HAMi gives whole and in parts"
    (unused,) = checking.hami_nodes([good], {}, (), used=False)
    assert (unused.severity, "without GPUs" in unused.text) == (Severity.WARNING, True)
    assert [one.severity for one in checking.nodes([good], Counting(), {})] == [Severity.OK]


PROFILE = Profile("k", portions=False, memory_requests=False, mig=Mig.STATIC, refused_fields=("gpuMemory", "s3"))


def node(*slots: SlotGroup) -> Node:
    return Node("n", "u", "b", NodeState.READY, 1, 1, slots=slots)


def test_parts_are_offered_where_no_driver_lists_devices() -> None:
    assert GPU_MEMORY in KUBERNETES.refused_words
    found = abilities(PROFILE, [node(SlotGroup("nvidia.com/gpu", 2))], claims=False, shared=True)
    assert (found.identity, found.portions, found.memory_requests, found.memory_isolation) == (
        Identity.UUID,
        True,
        True,
        True,
    )
    assert (found.mig, found.refused_fields) == (Mig.NONE, ("s3",))
    sliced = node(SlotGroup("nvidia.com/mig-1g.5gb", 2, "1g.5gb"))
    assert abilities(PROFILE, [sliced], claims=False, shared=True).mig is Mig.STATIC


def test_parts_of_kai_are_not_held_to_their_memory() -> None:
    found = abilities(PROFILE, [], claims=False, shared=True, isolated=False)
    assert (found.portions, found.memory_requests, found.memory_isolation) == (True, True, False)


def test_parts_are_not_offered_while_a_node_counts_whole_devices_and_slices() -> None:
    both = node(SlotGroup("nvidia.com/gpu", 2), SlotGroup("nvidia.com/mig-1g.5gb", 2, "1g.5gb"))
    assert abilities(PROFILE, [both], claims=False, shared=True) == replace(PROFILE, identity=Identity.UUID)


@pytest.mark.parametrize(("claims", "shared"), [(True, True), (True, False), (False, False)])
def test_other_clusters_give_devices_as_a_whole(claims: bool, shared: bool) -> None:
    identity = Identity.UUID if claims else Identity.ANONYMOUS
    assert abilities(PROFILE, [], claims=claims, shared=shared) == replace(PROFILE, identity=identity)
