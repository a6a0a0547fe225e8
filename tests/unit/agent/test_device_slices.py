"""ResourceSlices as devices of nodes: which count, by which names, and what becomes of those that are not listed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_cluster_agent.domain.fleet import Device
from muster_cluster_agent.domain.kubernetes.device_slices import (
    GONE,
    DeviceKey,
    DeviceNames,
    DeviceSlice,
    ListedDevice,
    NodeDevices,
    devices_of,
    reported,
    slice_of,
)
from tests.support.fake_kubelet import slice_of as listed

NAMES = DeviceNames()
EXAMPLE = DeviceNames("gpu.example.com", "gpu.example.com", model="model")


def read(raw: dict[str, Any], names: DeviceNames = NAMES) -> DeviceSlice:
    found = slice_of(raw, names)
    assert found is not None
    return found


def device(number: int, pool: str = "n-0") -> ListedDevice:
    return ListedDevice(DeviceKey(pool, f"gpu-{number}"), f"{pool}:{number}", "T4", 16 << 30)


def part(pool: str, generation: int, count: int, *numbers: int) -> DeviceSlice:
    return DeviceSlice("n-0", pool, generation, count, tuple(device(number, pool) for number in numbers))


def test_a_vendors_slice_is_devices_with_uuids() -> None:
    found = devices_of([read(listed("n-0", "GPU-a", "GPU-b"))])
    assert reported(found) == (
        Device("GPU-a", "H100-80GB", 80 << 30, 0),
        Device("GPU-b", "H100-80GB", 80 << 30, 1),
    )


def test_the_example_drivers_names_are_settings() -> None:
    attributes = {"uuid": {"string": "gpu-1"}, "model": {"string": "LATEST-GPU-MODEL"}}
    devices = [{"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}]
    raw = listed("n-0")
    raw["spec"] |= {"driver": "gpu.example.com", "devices": devices}
    assert reported(devices_of([read(raw, EXAMPLE)])) == (Device("gpu-1", "LATEST-GPU-MODEL", 80 << 30, 0),)
    assert slice_of(raw, NAMES) is None


@pytest.mark.parametrize("written", ["vendor.example/id", "id"])
def test_a_name_may_belong_to_another_domain(written: str) -> None:
    raw = listed("n-0", "unused")
    raw["spec"]["devices"][0]["attributes"] = {written: {"string": "u"}}
    found = read(raw, DeviceNames(uuid="vendor.example/id"))
    assert [each.uuid for each in found.devices] == (["u"] if "/" in written else [])


def test_devices_of_no_single_node_are_left_out() -> None:
    raw = listed("n-0", "GPU-a")
    del raw["spec"]["nodeName"]
    assert slice_of(raw | {"spec": raw["spec"] | {"allNodes": True}}, NAMES) is None


def test_a_part_of_a_card_is_no_device() -> None:
    raw = listed("n-0", "GPU-a", "MIG-b", "GPU-c")
    for entry, kind in zip(raw["spec"]["devices"], ("gpu", "mig", None), strict=True):
        entry["attributes"] |= {"type": {"string": kind}} if kind else {}
    found = devices_of([read(raw)])
    assert ([each.uuid for each in found.devices], found.parts) == (["GPU-a", "GPU-c"], 1)


def test_a_device_without_a_uuid_is_left_out() -> None:
    raw = listed("n-0", "GPU-a")
    del raw["spec"]["devices"][0]["attributes"]["uuid"]
    assert read(raw).devices == ()


@pytest.mark.parametrize(("effect", "evicts"), [("NoSchedule", False), ("NoExecute", True)])
def test_a_tainted_device_serves_nothing(effect: str, evicts: bool) -> None:
    found = devices_of([read(listed("n-0", "GPU-a", taints=[{"key": "xid", "effect": effect}]))])
    (one,) = reported(found)
    assert (one.healthy, one.trouble) == (False, "its driver has tainted it: xid")
    assert found.devices[0].evicts is evicts


def test_devices_are_in_the_order_of_their_numbers() -> None:
    found = devices_of([part("n-0", 1, 1, 10, 2, 0)])
    assert [each.key.name for each in found.devices] == ["gpu-0", "gpu-2", "gpu-10"]


def test_a_pool_counts_once_it_is_complete() -> None:
    first = part("n-0", 1, 2, 0)
    assert devices_of([first]) == NodeDevices()
    whole = devices_of([first, part("n-0", 1, 2, 1)])
    assert [each.uuid for each in whole.devices] == ["n-0:0", "n-0:1"]


def test_a_driver_that_starts_again_loses_no_device() -> None:
    before = devices_of([part("n-0", 1, 1, 0, 1)])
    without = devices_of([], before)
    assert [(one.uuid, one.healthy, one.trouble) for one in reported(without)] == [
        ("n-0:0", False, GONE),
        ("n-0:1", False, GONE),
    ]
    half = devices_of([part("n-0", 2, 2, 0)], without)
    assert half.missing == {"n-0:0", "n-0:1"}
    # The new pool is complete: what it lacks is lost.
    after = devices_of([part("n-0", 2, 1, 1)], half)
    assert ([each.uuid for each in after.devices], after.missing) == (["n-0:1"], frozenset())


PARTS = st.builds(
    lambda pool, generation, count, numbers: part(pool, generation, count, *numbers),
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
    st.integers(1, 3),
    st.lists(st.integers(0, 6), max_size=4),
)


@given(st.lists(st.lists(PARTS, max_size=6), max_size=4), st.randoms())
def test_what_is_offered_is_listed_by_a_complete_pool(history: list[list[DeviceSlice]], random: Any) -> None:
    """Whatever was there before: only pools with all slices of their newest generation offer, and none twice."""
    here: NodeDevices | None = None
    for slices in history:
        here = devices_of(slices, here)
        offered = {each.uuid for each, told in zip(here.devices, reported(here), strict=True) if told.healthy}
        newest = {each.pool: max(one.generation for one in slices if one.pool == each.pool) for each in slices}
        current = [each for each in slices if each.generation == newest[each.pool]]
        assert offered <= {device.uuid for each in current for device in each.devices}
        assert here.pools.isdisjoint({each.key.pool for each in here.devices if each.uuid in here.missing})
        assert len({each.uuid for each in here.devices}) == len(here.devices)
        shuffled = random.sample(slices, len(slices))
        assert devices_of(shuffled, None).pools == here.pools
