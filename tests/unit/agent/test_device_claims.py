"""Device claims: what a replica's claim asks for, and what it was given."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.container import Container
from muster_cluster_agent.domain.kubernetes import device_claims, device_requests, manifests, marks, refusals
from muster_cluster_agent.domain.kubernetes.device_claims import Claim, claim_of
from muster_cluster_agent.domain.kubernetes.device_slices import DeviceKey, DeviceNames, ListedDevice, NodeDevices
from muster_cluster_agent.domain.kubernetes.device_sources import DeviceSource
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.kubernetes.observing import TERMINATED, evidence_of, observed
from muster_cluster_agent.domain.kubernetes.pods import Pod, pod_of
from muster_cluster_agent.domain.model import Assignment, Failure, Pattern, Revision, Run, Share, State, Template
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan, plans_of
from muster_cluster_agent.domain.status import DEVICES_DIFFER, failure_of, judge
from tests.support import kubernetes_pods
from tests.support.kubernetes_pods import KEY, OWNER

NAMES = DeviceNames()
UUIDS = ("GPU-b", "GPU-a")
HERE = NodeDevices(
    tuple(ListedDevice(DeviceKey("n-0", f"gpu-{n}"), f"GPU-{n}", "T4", 1) for n in range(4)), frozenset({"n-0"})
)


def plan(*shares: Share) -> ReplicaPlan:
    template = Template(command="train", container=Container("team/bert:7"))
    run = Run("worker", 0, 1, "n-0", shares=(shares or tuple(Share(uuid, whole=True) for uuid in UUIDS),))
    revision = Revision(1, 0, Pattern.SINGLE, template, (run,))
    assigned = Assignment(KEY.workload_id, 1, "me", 1, (revision,), "p", "runai-p", "bert")
    ((plans),) = plans_of(assigned).values()
    assert not isinstance(plans, str)
    return next(iter(plans))


def pod_with(status: dict[str, Any], *uuids: str) -> Pod:
    raw = kubernetes_pods.raw(status)
    raw["metadata"]["annotations"][marks.DEVICES] = json.dumps(uuids)
    return pod_of(raw, OWNER)


def claim(*keys: DeviceKey, users: tuple[str, ...] = ("u",)) -> Claim:
    return Claim("c", "runai-p", "x", ours=True, allocated=keys, users=frozenset(users))


def keys(*numbers: int, pool: str = "n-0") -> tuple[DeviceKey, ...]:
    return tuple(DeviceKey(pool, f"gpu-{number}") for number in numbers)


def test_a_claim_asks_for_the_assigned_devices_alone() -> None:
    made = device_claims.manifest(OWNER, plan(), NAMES, "root")
    (request,) = made["spec"]["devices"]["requests"]
    assert (request["exactly"]["count"], request["exactly"]["deviceClassName"]) == (2, "gpu.nvidia.com")
    assert request["exactly"]["selectors"][0]["cel"]["expression"] == (
        'device.driver == "gpu.nvidia.com" && "uuid" in device.attributes["gpu.nvidia.com"] && '
        'device.attributes["gpu.nvidia.com"]["uuid"] in ["GPU-a", "GPU-b"]'
    )
    assert made["metadata"]["name"] == plan().name
    assert made["metadata"]["ownerReferences"][0]["uid"] == "root"
    assert marks.replica_labels(OWNER, "p", plan()) == made["metadata"]["labels"]


def test_a_pod_refers_to_its_claim_and_sees_what_its_runtime_shows() -> None:
    made = manifests.pod(OWNER, plan(), Style(), "root")
    assert made["spec"]["resourceClaims"] == [{"name": "devices", "resourceClaimName": plan().name}]
    main = made["spec"]["containers"][0]
    assert main["resources"]["claims"] == [{"name": "devices"}]
    env = {one["name"]: one.get("value") for one in main["env"]}
    assert json.loads(env["MUSTER_DEVICES"]) == [{"uuid": uuid, "whole": True} for uuid in UUIDS]
    assert "NVIDIA_VISIBLE_DEVICES" not in env
    assert json.loads(made["metadata"]["annotations"][marks.DEVICES]) == [*UUIDS]


@pytest.mark.parametrize(
    ("share", "direct", "said"),
    [
        (Share("GPU-a", whole=True), True, "set `binder: pinned`"),
        (Share("GPU-a", portion_milli=500), False, "only as a whole"),
        (Share("GPU-a", memory_bytes=1 << 30), False, "only as a whole"),
    ],
)
def test_what_no_claim_can_give_is_refused_with_its_reason(share: Share, direct: bool, said: str) -> None:
    with pytest.raises(InvalidCommand, match=said):
        device_requests.check(plan(share), DeviceSource.SLICES, direct=direct)


def test_an_admission_that_takes_the_claim_away_is_a_mutation() -> None:
    made = manifests.pod(OWNER, plan(), Style(), "root")
    assert refusals.mutated(made, made) == ()
    changed = json.loads(json.dumps(made))
    del changed["spec"]["resourceClaims"]
    changed["spec"]["containers"][0]["resources"]["claims"] = []
    assert refusals.mutated(made, changed) == ("spec.resourceClaims", "spec.containers[main].resources")


def test_a_claim_is_read_as_its_scheduler_wrote_it() -> None:
    results = [
        {"driver": "gpu.nvidia.com", "pool": "n-0", "device": "gpu-1"},
        {"driver": "gpu.nvidia.com", "pool": "n-0", "device": "gpu-2", "adminAccess": True},
        {"driver": "nic.example", "pool": "n-0", "device": "nic-0"},
    ]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "u"}]}
    metadata = {"name": "c", "namespace": "x", "uid": "y"}
    found = claim_of({"metadata": metadata, "status": status}, OWNER, "gpu.nvidia.com")
    assert (found.ours, found.allocated, found.users) == (False, keys(1), {"u"})
    assert claim_of({"metadata": metadata}, OWNER, "gpu.nvidia.com").allocated is None


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, None),
        (replace(claim(), allocated=None), None),
        (claim(*keys(0, 1)), ("GPU-0", "GPU-1")),
        (claim(*keys(0, 2)), ("GPU-0", "GPU-2")),
        (claim(*keys(0)), None),
        (claim(*keys(0, 1, 2)), None),
        (claim(*keys(0, 9)), ("GPU-0", "n-0/gpu-9")),  # its pool is complete and lacks it
        (claim(*keys(0, 1, pool="away")), ("GPU-0", "GPU-1")),  # the driver starts again
    ],
)
def test_what_a_replica_was_given(held: Claim | None, expected: tuple[str, ...] | None) -> None:
    assert device_claims.given(held, ("GPU-0", "GPU-1"), HERE) == expected


def test_nothing_is_ready_before_its_claim_is_allocated() -> None:
    running = pod_with(kubernetes_pods.running(), "GPU-0")
    waiting = observed(running, boot="b", charge=0, given=None)
    assert (waiting.ready, waiting.devices, waiting.moved) == (False, (), False)
    good = observed(running, boot="b", charge=0, given=("GPU-0",))
    assert (good.ready, good.devices, good.moved) == (True, ("GPU-0",), False)


def test_other_devices_are_told_so_that_the_charge_follows() -> None:
    running = pod_with(kubernetes_pods.running(), "GPU-0")
    other = observed(running, boot="b", charge=0, given=("GPU-3",))
    status = judge(other, None)
    assert status.devices == ("GPU-3",)
    assert judge(observed(running, boot="b", charge=0, given=("GPU-0",)), None).devices == ()


def test_a_replica_with_another_number_of_devices_is_no_fault_of_its_own() -> None:
    running = pod_with(kubernetes_pods.running(), "GPU-0", "GPU-1")
    stopped = replace(observed(running, boot="b", charge=0, given=("GPU-0",)), stop_reason=DEVICES_DIFFER, gone=True)
    assert failure_of(stopped) is Failure.INFRASTRUCTURE
    assert judge(stopped, None).state is State.GONE


def test_gone_waits_until_the_cluster_has_released_the_claim() -> None:
    ended = pod_with(kubernetes_pods.ended(0, "Completed"), "GPU-0")
    held = claim(*keys(0))
    assert device_claims.holds(held, ended)
    assert evidence_of(ended, holds_devices=True) == ""
    for released in (None, replace(held, allocated=None), replace(held, users=frozenset({"another"}))):
        assert not device_claims.holds(released, ended)
    assert evidence_of(ended) == TERMINATED


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[", '"GPU-0"'])
def test_an_annotation_that_was_edited_names_no_device(text: str) -> None:
    raw = kubernetes_pods.raw(kubernetes_pods.running())
    raw["metadata"]["annotations"][marks.DEVICES] = text
    assert pod_of(raw, OWNER).devices == ()


@given(st.lists(st.integers(0, 3), unique=True), st.lists(st.integers(0, 3), unique=True))
def test_as_many_devices_are_given_as_are_allocated(allocated: list[int], listed: list[int]) -> None:
    """Whatever part of a node is listed: no device is named twice, and what is listed has its own UUID."""
    here = NodeDevices(tuple(HERE.devices[n] for n in listed), frozenset({"n-0"}) if listed else frozenset())
    assigned = tuple(f"GPU-{number}" for number in allocated)
    found = device_claims.given(claim(*keys(*allocated)), assigned, here)
    assert found is not None
    assert len(found) == len(set(found)) == len(allocated)
    assert {f"GPU-{n}" for n in allocated if n in listed} <= {*found}
    if not listed:
        assert {*found} == {*assigned}


@given(st.lists(st.text(max_size=30), max_size=6))
def test_any_uuid_is_a_text_of_the_expression(uuids: list[str]) -> None:
    expression = device_claims.selector(uuids, NAMES)
    assert json.loads(expression.rpartition('["uuid"] in ')[2]) == sorted(uuids)
