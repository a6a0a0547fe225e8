"""The two stages of checking: a layer by itself, and the effective spec."""

from __future__ import annotations

import math

import pytest

from muster_language import Kind, WorkloadSpec, check_effective, check_layer
from muster_language.spec import set_kind


def spec_of(kind: Kind, **fields: object) -> WorkloadSpec:
    spec = WorkloadSpec(**fields)  # type: ignore[arg-type]
    set_kind(spec, kind)
    return spec


def test_a_layer_without_a_kind() -> None:
    assert [(each.path, each.message) for each in check_layer(WorkloadSpec(image="x"))] == [
        ("kind", "the kind of workload is not said")
    ]


@pytest.mark.parametrize("portion", [0.001, -1.0, 1.5, 0.0, math.nan, math.inf])
def test_portions_of_typed_specs(portion: float) -> None:
    found = check_layer(spec_of(Kind.TRAINING, gpu_portion_request=portion))
    assert [each.path for each in found] == ["spec.gpu.value"]
    assert "is not a GPU request: 0 is no GPU" in found[0].text


def test_typed_items() -> None:
    spec = spec_of(Kind.TRAINING)
    for label in ("A", "A", ""):
        spec.environment.add(label=label, value="x\0")
    spec.ports.add(container=80)
    spec.ports.add(container=80)
    found = [(each.path, each.message) for each in check_layer(spec)]
    assert ("spec.environment.items.A", "two items have the label A") in found
    assert ("spec.environment.items.A.value", "the value is not taken") in found
    assert ("spec.environment.items.", "'' is not a label") in found
    assert ("spec.ports.items.p-80", "two items have the label p-80") in found


def test_too_many_items() -> None:
    spec = spec_of(Kind.TRAINING)
    for number in range(1001):
        spec.environment.add(label=f"A{number}", value="x")
    assert [each.message for each in check_layer(spec)] == ["1001 items are too many"]


def test_other_typed_values() -> None:
    spec = spec_of(Kind.INFERENCE, target=math.nan, image="a\0b", image_pull_policy=9)
    spec.node_pools.values.extend(f"p{number}" for number in range(65))
    found = {each.path: each.message for each in check_layer(spec)}
    assert found == {
        "spec.target.value": "nan is not a number",
        "spec.image.value": "the value has a NUL character",
        "spec.imagePullPolicy.value": "9 is not known",
        "spec.nodePools.value": "65 entries are too many",
    }


def issues(spec: WorkloadSpec) -> dict[str, str]:
    return {each.path: each.details for each in check_effective(spec)}


def test_something_has_to_run() -> None:
    assert "nothing says what to run" in issues(spec_of(Kind.TRAINING))["command"]
    master = spec_of(Kind.DISTRIBUTED, framework=1, workers=1)
    master.master_spec.command = "x"
    assert issues(master) == {}


def test_a_gang_needs_framework_and_workers_and_room_for_its_processes() -> None:
    assert set(issues(spec_of(Kind.DISTRIBUTED, image="x"))) == {"distributedFramework", "numWorkers"}
    spec = spec_of(Kind.DISTRIBUTED, image="x", framework=1, workers=2, slots_per_worker=2, processes=5)
    assert issues(spec) == {"processes": "5 processes do not fit 2 workers with 2 slots each"}
    spec.processes = 4
    assert issues(spec) == {}


def test_a_service_needs_a_port_and_a_sane_scale() -> None:
    assert set(issues(spec_of(Kind.INFERENCE, image="x"))) == {"ports"}

    def served(**fields: object) -> dict[str, str]:
        spec = spec_of(Kind.INFERENCE, image="x", **fields)
        spec.ports.add(label="http", container=80)
        return issues(spec)

    assert served() == {}
    assert served(min_scale=0, max_scale=1) == {}
    assert served(min_scale=3) == {}
    assert served(min_scale=3, max_scale=2) == {"autoscaling.minReplicas": "minScale 3 is above maxScale 2"}
    assert set(served(min_scale=1, max_scale=2)) == {"autoscaling.metric"}
    assert set(served(max_scale=2, metric=1)) == {"autoscaling.metricThreshold"}
    assert served(max_scale=2, metric=1, target=5.0) == {}
    assert set(served(min_scale=0, max_scale=2, metric=3, target=5.0)) == {"autoscaling.metric"}


def test_the_effective_spec_is_checked_like_a_layer_too() -> None:
    assert issues(spec_of(Kind.TRAINING, image="x", backoff_limit=5000)) == {
        "backoffLimit": "5000 is too large: a whole number from 0 to 1000"
    }
