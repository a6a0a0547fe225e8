"""What follows from the merged values: derived, never over what somebody gave; and what has no effect."""

from __future__ import annotations

from typing import Any

import pytest

from muster_language import Kind, Layer, LayerName, Merged, WorkloadSpec, derive, language_layer, merge, warnings_of
from muster_language.spec import set_kind


def merged_of(kind: Kind = Kind.TRAINING, **fields: object) -> Merged:
    spec = WorkloadSpec(**fields)  # type: ignore[arg-type]
    set_kind(spec, kind)
    return merge([language_layer(kind), Layer(LayerName.WORKLOAD, spec)])


def derived(merged: Merged, *, rest: bool = False) -> Any:
    derive(merged, rest=rest)
    return merged.spec


CONCURRENCY, THROUGHPUT, LATENCY = 1, 2, 3


@pytest.mark.parametrize(
    ("fields", "yaml", "rest"),
    [
        ({}, (0, 1, 0), (1, 1, 0)),
        ({"metric": THROUGHPUT}, (0, 1, THROUGHPUT), (1, 1, THROUGHPUT)),
        ({"metric": LATENCY}, (1, 1, LATENCY), (1, 1, LATENCY)),
        ({"min_scale": 3}, (3, 3, 0), (3, 3, 0)),
        ({"min_scale": 0}, (0, 1, 0), (0, 1, 0)),
        ({"max_scale": 4}, (0, 4, CONCURRENCY), (1, 4, 0)),
        ({"min_scale": 1, "max_scale": 2}, (1, 2, CONCURRENCY), (1, 2, 0)),
    ],
)
def test_scaling_by_channel(fields: dict[str, Any], yaml: tuple[int, ...], rest: tuple[int, ...]) -> None:
    for expected, by_rest in ((yaml, False), (rest, True)):
        spec = derived(merged_of(Kind.INFERENCE, **fields), rest=by_rest)
        assert (spec.min_scale, spec.max_scale, spec.metric) == expected


def test_a_template_or_policy_comes_before_the_default() -> None:
    low = WorkloadSpec(kind=4, min_scale=2)  # type: ignore[arg-type]
    merged = merge([Layer(LayerName.TEMPLATE, low), Layer(LayerName.WORKLOAD, WorkloadSpec())])
    spec = derived(merged)
    assert (spec.min_scale, spec.max_scale) == (2, 2)
    assert merged.provenance["autoscaling.minReplicas"] == LayerName.TEMPLATE
    assert merged.provenance["autoscaling.maxReplicas"] == LayerName.DERIVED


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({}, 0),
        ({"gpu_devices_request": 0}, 0),
        ({"gpu_devices_request": 2}, 1),
        ({"gpu_portion_request": 0.5}, 1),
        ({"gpu_memory_request": "1G"}, 2),
        ({"mig_profile": "1g.5gb"}, 3),
        ({"gpu_portion_request": 0.5, "gpu_request_type": 2}, 2),
    ],
)
def test_the_way_of_asking_for_gpu_is_written_out(fields: dict[str, Any], type_: int) -> None:
    merged = merged_of(**fields)
    assert derived(merged).gpu_request_type == type_
    given = LayerName.WORKLOAD if "gpu_request_type" in fields else LayerName.DERIVED
    assert merged.provenance.get("compute.gpuRequestType") == (given if type_ else None)


def test_the_master_derives_from_its_own() -> None:
    merged = merged_of(Kind.DISTRIBUTED, gpu_memory_request="1G")
    merged.spec.master_spec.gpu_portion_request = 0.5
    spec = derived(merged)
    assert (spec.gpu_request_type, spec.master_spec.gpu_request_type) == (2, 1)


def test_what_is_said_for_all_goes_into_each() -> None:
    merged = merged_of(service_type=2, mount_propagation=True, run_as_user=True)
    merged.spec.ports.add(label="a", container=1)
    merged.spec.ports.add(label="b", container=2, service_type=3)
    merged.spec.volumes.add(label="v", path="/a", mount_path="/b")
    spec = derived(merged)
    assert [port.service_type for port in spec.ports] == [2, 3]
    assert spec.volumes[0].mount_propagation == 2
    assert spec.create_home_dir


def test_what_is_ignored_is_said_and_left_out() -> None:
    merged = merged_of(run_as_uid=500, run_as_gid=501)
    merged.spec.tolerations.add(label="t", operator=2, key="a", effect=1, seconds=5)
    merged.spec.tolerations.add(label="u", operator=2, key="a", effect=2, seconds=5)
    assert [said.split(" ")[0:3] for said in warnings_of(merged.spec)] == [
        ["runAsUid", "is", "ignored:"],
        ["runAsGid", "is", "ignored:"],
        ["the", "seconds", "of"],
    ]
    spec = derived(merged)
    assert not spec.HasField("run_as_uid")
    assert [each.HasField("seconds") for each in spec.tolerations] == [False, True]
    assert warnings_of(spec) == []


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({}, 0),
        ({"run_as_user": False}, 1),
        ({"run_as_user": True}, 2),
        ({"run_as_user": True, "run_as_gid": 5}, 3),
        ({"uid_gid_source": 2}, 2),
    ],
)
def test_one_name_for_whose_ids_a_process_has(fields: dict[str, Any], source: int) -> None:
    merged = merged_of(Kind.DISTRIBUTED, **fields)
    merged.spec.master_spec.CopyFrom(merged_of(Kind.DISTRIBUTED, **fields).spec)
    merged.provenance.update({f"masterSpec.{path}": layer for path, layer in merged.provenance.items()})
    spec = derived(merged)
    for role, prefix in ((spec, ""), (spec.master_spec, "masterSpec.")):
        assert (role.uid_gid_source, role.HasField("run_as_user")) == (source, False)
        given = LayerName.WORKLOAD if source else None
        assert merged.provenance.get(f"{prefix}security.uidGidSource") == given


def test_volumes_of_an_nfs_server_are_nfs() -> None:
    own = WorkloadSpec(kind=2)  # type: ignore[arg-type]
    own.volumes.add(label="far", path="/export", mount_path="/a", nfs_server="s", read_only=False)
    own.volumes.add(label="near", path="/x", mount_path="/b")
    merged = merge([Layer(LayerName.WORKLOAD, own)])
    spec = derived(merged)
    assert [each.label for each in spec.volumes] == ["near"]
    assert [(each.label, each.server, each.path, each.mount_path, each.read_only) for each in spec.nfs] == [
        ("far", "s", "/export", "/a", False)
    ]
    assert merged.provenance == {
        "storage.nfs.far": LayerName.WORKLOAD,
        "storage.hostPath.near": LayerName.WORKLOAD,
    }


def test_what_stands_for_a_class_is_one() -> None:
    for kind, fields, word in (
        (Kind.WORKSPACE, {"preemptible": True}, "interactive-preemptible"),
        (Kind.DISTRIBUTED, {"non_preemptible": True}, "build"),
    ):
        merged = merged_of(kind, **fields)
        assert derived(merged).priority_class == word
        assert merged.provenance["priorityClass"] == LayerName.WORKLOAD
    assert not derived(merged_of(Kind.WORKSPACE, preemptible=False)).HasField("priority_class")


@pytest.mark.parametrize("fields", [{"run_as_user": True}, {"uid_gid_source": 3}])
def test_ids_that_are_used_stay(fields: dict[str, Any]) -> None:
    merged = merged_of(run_as_uid=0, **fields)
    assert warnings_of(merged.spec) == []
    assert derived(merged).HasField("run_as_uid")


@pytest.mark.parametrize(
    ("kind", "fields", "word"),
    [
        (Kind.TRAINING, {"terminate_after_preemption": True, "priority_class": "build"}, "terminateAfterPreemption"),
        (Kind.WORKSPACE, {"preemption_limit": 2}, "preemptionLimit"),
        (Kind.DISTRIBUTED, {"framework": 2, "workers": 3, "max_replicas": 5}, "minReplicas and maxReplicas have"),
        (Kind.WORKSPACE, {"notebook_token": "x"}, "notebookToken"),
        (Kind.WORKSPACE, {"tensorboard_logdir": "/x"}, "tensorboardLogdir"),
        (Kind.DISTRIBUTED, {"framework": 2, "slots_per_worker": 4}, "slotsPerWorker"),
        (Kind.INFERENCE, {"min_scale": 0, "max_scale": 1}, "without"),
        (Kind.TRAINING, {"tty": True}, "tty"),
    ],
)
def test_what_has_no_effect(kind: Kind, fields: dict[str, Any], word: str) -> None:
    [warning] = warnings_of(merged_of(kind, **fields).spec)
    assert warning.startswith(word)


def test_an_existing_claim_has_its_size_already() -> None:
    spec = WorkloadSpec()
    spec.master_spec.pvcs.add(label="p", existing_pvc=True, claim_name="c", size="1G", path="/a")
    [warning] = warnings_of(spec)
    assert warning.startswith("masterSpec: size, storageClass and ephemeral of p are ignored")


def test_deriving_again_changes_nothing() -> None:
    merged = merged_of(Kind.INFERENCE, gpu_portion_request=0.5, max_scale=3)
    once = derived(merged).SerializeToString(deterministic=True)
    assert derived(merged).SerializeToString(deterministic=True) == once
