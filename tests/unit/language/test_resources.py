"""Requests per role in base units, ranks and preemptibility."""

from __future__ import annotations

import pytest

from muster_language import Kind, WorkloadSpec, is_preemptible, priority_of, resource_requests
from muster_language.merging.roles import complete_master
from muster_language.spec import set_kind


def spec_of(kind: Kind, **fields: object) -> WorkloadSpec:
    spec = WorkloadSpec(**fields)  # type: ignore[arg-type]
    set_kind(spec, kind)
    return spec


@pytest.mark.parametrize(
    ("fields", "devices", "portion", "charge"),
    [
        ({}, 0, 0, 0),
        ({"gpu_devices_request": 0}, 0, 0, 0),
        ({"gpu_portion_request": 0.25}, 1, 250, 1750),
        ({"gpu_portion_request": 1.0}, 1, 1000, 7000),
        ({"gpu_devices_request": 3}, 3, 1000, 21000),
        ({"gpu_devices_request": 2, "gpu_portion_request": 0.5}, 2, 500, 7000),
        ({"gpu_memory_request": "4G"}, 1, 0, 0),
        ({"mig_profile": "3g.40gb"}, 1, 0, 3000),
        ({"mig_profile": "1g.5gb", "gpu_devices_request": 2}, 2, 0, 2000),
    ],
)
def test_gpu(fields: dict[str, object], devices: int, portion: int, charge: int) -> None:
    [request] = resource_requests(spec_of(Kind.TRAINING, **fields))
    assert (request.role, request.count) == ("worker", 1)
    assert (request.gpu_devices, request.gpu_portion_milli, request.gpu_charge) == (devices, portion, charge)


def test_base_units() -> None:
    [request] = resource_requests(spec_of(Kind.WORKSPACE, cpu="100m", memory="250M", gpu_memory_request="4Gi"))
    assert (request.cpu_milli, request.memory_bytes, request.gpu_memory_bytes) == (100, 250_000_000, 4 << 30)


def test_mpi_has_a_launcher_without_devices() -> None:
    spec = spec_of(Kind.DISTRIBUTED, framework=1, workers=4, gpu_devices_request=2, cpu="1")
    launcher, worker = resource_requests(spec)
    assert (launcher.role, launcher.count, launcher.gpu_devices, launcher.cpu_milli) == ("launcher", 1, 0, 0)
    assert (worker.role, worker.count, worker.gpu_devices) == ("worker", 4, 2)
    spec.master_spec.memory = "1G"
    launcher, _ = resource_requests(spec)
    assert (launcher.gpu_devices, launcher.cpu_milli, launcher.memory_bytes) == (0, 1000, 1_000_000_000)
    spec.master_spec.gpu_portion_request = 0.5
    assert resource_requests(spec)[0].gpu_portion_milli == 500


def test_pytorch_has_a_master_only_where_one_is_given() -> None:
    spec = spec_of(Kind.DISTRIBUTED, framework=2, workers=2, gpu_portion_request=0.5, image="w")
    assert [(each.role, each.count) for each in resource_requests(spec)] == [("worker", 2)]
    spec.master_spec.gpu_devices_request = 2
    spec.master_spec.name = "m"
    master, worker = resource_requests(spec)
    assert (master.role, master.count, master.gpu_devices, master.gpu_portion_milli) == ("master", 1, 2, 1000)
    assert (worker.role, worker.count) == ("worker", 2)
    whole = complete_master(spec)
    assert whole is not None
    assert (whole.image, whole.name, whole.workers) == ("w", "", 0)


def test_inference_starts_its_fewest_replicas_but_one_at_least() -> None:
    assert resource_requests(spec_of(Kind.INFERENCE))[0].count == 1
    assert resource_requests(spec_of(Kind.INFERENCE, min_scale=0))[0].count == 1
    assert resource_requests(spec_of(Kind.INFERENCE, min_scale=3))[0].count == 3


@pytest.mark.parametrize(
    ("fields", "count"),
    [({}, 1), ({"completions": 12}, 1), ({"completions": 12, "parallelism": 3}, 3), ({"parallelism": 3}, 1)],
)
def test_trials_side_by_side(fields: dict[str, object], count: int) -> None:
    assert [each.count for each in resource_requests(spec_of(Kind.TRAINING, **fields))] == [count]


def test_a_limit_alone_is_a_request() -> None:
    [request] = resource_requests(spec_of(Kind.TRAINING, cpu_limit="2", memory_limit="1Gi"))
    assert (request.cpu_milli, request.memory_bytes) == (2000, 1 << 30)
    [request] = resource_requests(spec_of(Kind.TRAINING, cpu="1", cpu_limit="2", memory="1Mi", memory_limit="1Gi"))
    assert (request.cpu_milli, request.memory_bytes) == (1000, 1 << 20)


@pytest.mark.parametrize(
    ("framework", "roles"), [(3, ["launcher", "worker"]), (4, ["worker"]), (5, ["worker"]), (6, ["worker"])]
)
def test_the_roles_of_each_framework(framework: int, roles: list[str]) -> None:
    spec = spec_of(Kind.DISTRIBUTED, framework=framework, workers=2, gpu_devices_request=1)
    assert [each.role for each in resource_requests(spec)] == roles
    spec.master_spec.cpu = "1"
    first, worker = resource_requests(spec)
    assert (first.role, first.gpu_devices) == (("launcher", 0) if framework == 3 else ("master", 1))
    assert (worker.count, worker.gpu_devices) == (2, 1)


def test_what_implies_a_class() -> None:
    place = spec_of(Kind.WORKSPACE, preemptible=True)
    assert (priority_of(place), is_preemptible(place)) == (75, True)
    gang = spec_of(Kind.DISTRIBUTED, non_preemptible=True)
    assert (priority_of(gang), is_preemptible(gang)) == (100, False)
    assert not is_preemptible(spec_of(Kind.INFERENCE, priority_class="interactive-preemptible"))


def test_priorities() -> None:
    words = {
        "very-low": 10,
        "low": 25,
        "medium-low": 40,
        "medium": 50,
        "train": 50,
        "medium-high": 75,
        "interactive-preemptible": 75,
        "high": 90,
        "very-high": 100,
        "build": 100,
        "inference": 125,
        "77": 77,
    }
    assert {word: priority_of(spec_of(Kind.TRAINING, priority_class=word)) for word in words} == words
    by_kind = {kind: priority_of(spec_of(kind)) for kind in Kind}
    assert by_kind == {Kind.WORKSPACE: 100, Kind.TRAINING: 50, Kind.DISTRIBUTED: 50, Kind.INFERENCE: 125}


def test_who_gives_its_place_up() -> None:
    assert {kind: is_preemptible(spec_of(kind)) for kind in Kind} == {
        Kind.WORKSPACE: False,
        Kind.TRAINING: True,
        Kind.DISTRIBUTED: True,
        Kind.INFERENCE: False,
    }
    assert not is_preemptible(spec_of(Kind.TRAINING, priority_class="build"))
    assert is_preemptible(spec_of(Kind.WORKSPACE, priority_class="interactive-preemptible"))


def test_named_resources_are_counted_in_whole_units() -> None:
    spec = spec_of(Kind.TRAINING)
    for label, resource, quantity in (
        ("a", "vendor.example/nic", "2"),
        ("b", "vendor.example/nic", "500m"),
        ("c", "ephemeral-storage", "2Gi"),
    ):
        spec.extended_resources.add(label=label, resource=resource, quantity=quantity)
    spec.extended_resources.add(label="d", resource="gone", quantity="1", deleted=True)
    (request,) = resource_requests(spec)
    assert dict(request.extended) == {"vendor.example/nic": 3, "ephemeral-storage": 2 << 30}
