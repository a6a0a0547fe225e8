"""The EFFECTIVE stage: what a merged spec lacks or contradicts, each rule of the language once."""

from __future__ import annotations

from typing import Any

import pytest

from muster.workload.v1 import workload_pb2
from muster_language import Kind, WorkloadSpec, check_effective
from muster_language.spec import set_kind


def spec_of(kind: Kind = Kind.TRAINING, **fields: object) -> WorkloadSpec:
    spec = WorkloadSpec(**{"image": "x", **fields})  # type: ignore[arg-type]
    set_kind(spec, kind)
    return spec


def issues(spec: WorkloadSpec) -> dict[str, str]:
    return {each.path: each.details for each in check_effective(spec)}


def test_something_has_to_run() -> None:
    assert "nothing says what to run" in issues(spec_of(image=""))["command"]
    assert issues(spec_of(Kind.WORKSPACE, image="", jupyter=True)) == {}
    master = spec_of(Kind.DISTRIBUTED, image="", framework=1, workers=1)
    master.master_spec.command = "x"
    assert issues(master) == {}


# gpuRequestType: 1 portion, 2 memory, 3 migProfile
GPU: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"gpu_devices_request": 0}, ""),
    ({"gpu_devices_request": 4}, ""),
    ({"gpu_devices_request": 4, "gpu_portion_request": 1.0}, ""),
    ({"gpu_devices_request": 1, "gpu_portion_request": 0.5}, ""),
    ({"gpu_devices_request": 2, "gpu_portion_request": 0.5}, "compute.gpuDevicesRequest"),
    ({"gpu_devices_request": 2, "gpu_memory_request": "4G"}, "compute.gpuDevicesRequest"),
    ({"gpu_devices_request": 2, "mig_profile": "1g.5gb"}, "compute.gpuDevicesRequest"),
    ({"gpu_devices_request": 0, "mig_profile": "1g.5gb"}, "compute.gpuDevicesRequest"),
    ({"gpu_portion_request": 0.5, "gpu_portion_limit": 0.5}, ""),
    ({"gpu_portion_request": 0.5, "gpu_portion_limit": 0.4}, "compute.gpuPortionLimit"),
    ({"gpu_portion_limit": 0.4}, "compute.gpuPortionLimit"),
    ({"gpu_memory_request": "4G", "gpu_portion_limit": 0.4}, "compute.gpuPortionLimit"),
    ({"gpu_memory_request": "4G", "gpu_memory_limit": "4000M"}, ""),
    ({"gpu_memory_request": "4G", "gpu_memory_limit": "3G"}, "compute.gpuMemoryLimit"),
    ({"gpu_memory_limit": "3G"}, "compute.gpuMemoryLimit"),
    ({"gpu_portion_request": 0.5, "gpu_request_type": 1}, ""),
    ({"gpu_devices_request": 2, "gpu_request_type": 1}, ""),
    ({"gpu_portion_request": 0.5, "gpu_request_type": 2}, "compute.gpuRequestType"),
    ({"gpu_memory_request": "1G", "gpu_request_type": 1}, "compute.gpuRequestType"),
    ({"gpu_request_type": 2}, "compute.gpuMemoryRequest"),
    ({"gpu_request_type": 3}, "compute.migProfile"),
    ({"cpu": "2", "cpu_limit": "2000m"}, ""),
    ({"cpu": "2", "cpu_limit": "1999m"}, "compute.cpuCoreLimit"),
    ({"cpu_limit": "1"}, ""),
    ({"memory": "1Gi", "memory_limit": "1024Mi"}, ""),
    ({"memory": "1Gi", "memory_limit": "1G"}, "compute.cpuMemoryLimit"),
]


@pytest.mark.parametrize(("fields", "path"), GPU)
def test_what_a_replica_may_ask_for(fields: dict[str, Any], path: str) -> None:
    assert list(issues(spec_of(**fields))) == ([path] if path else [])


def test_what_is_no_quantity_is_said_once_and_not_compared() -> None:
    assert list(issues(spec_of(memory="NaN", memory_limit="1G"))) == ["compute.cpuMemoryRequest"]


def test_the_master_is_judged_with_what_it_inherits() -> None:
    gang = spec_of(Kind.DISTRIBUTED, framework=2, workers=2, gpu_portion_request=0.5)
    gang.master_spec.gpu_portion_limit = 0.25
    assert list(issues(gang)) == ["masterSpec.compute.gpuPortionLimit"]
    gang.framework = 1  # type: ignore[assignment]  # a launcher inherits no GPU: its limit limits nothing
    assert "needs a portion" in issues(gang)["masterSpec.compute.gpuPortionLimit"]
    gang.master_spec.ClearField("gpu_portion_limit")
    gang.gpu_portion_limit = 0.25
    assert list(issues(gang)) == ["compute.gpuPortionLimit"]
    gang.framework = 2  # type: ignore[assignment]
    assert list(issues(gang)) == ["compute.gpuPortionLimit"]  # said once, of the workers


def test_what_is_a_share_of_one_device_is_said_in_words_and_not_by_a_path_of_rest() -> None:
    asked: dict[str, dict[str, Any]] = {
        "a portion": {"gpu_portion_request": 0.5},
        "GPU memory": {"gpu_memory_request": "4G"},
        "a MIG profile": {"mig_profile": "1g.5gb"},
    }
    for word, fields in asked.items():
        (said,) = issues(spec_of(gpu_devices_request=2, **fields)).values()
        assert said.startswith(f"{word} is a share of one device, and 2 are asked for")


def test_a_gang_needs_framework_and_workers_and_room_for_its_processes() -> None:
    assert set(issues(spec_of(Kind.DISTRIBUTED))) == {"distributedFramework", "numWorkers"}
    spec = spec_of(Kind.DISTRIBUTED, framework=1, workers=2, slots_per_worker=2, processes=5)
    assert issues(spec) == {"processes": "5 processes do not fit 2 workers with 2 slots each"}
    spec.processes = 4
    assert issues(spec) == {}
    spec.framework = 2  # type: ignore[assignment]
    assert issues(spec) == {"processes": "only MPI counts its ranks in processes"}
    assert issues(spec_of(mpi=True)) == {"mpi": "MPI needs workers"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"framework": 2, "min_replicas": 1, "max_replicas": 4}, ""),
        ({"framework": 2, "min_replicas": 3}, "minReplicas"),
        ({"framework": 2, "max_replicas": 1}, "maxReplicas"),
        ({"framework": 4, "min_replicas": 1}, "minReplicas"),
        ({"framework": 1, "max_replicas": 4}, "maxReplicas"),
    ],
)
def test_only_pytorch_is_elastic(fields: dict[str, Any], path: str) -> None:
    assert list(issues(spec_of(Kind.DISTRIBUTED, workers=2, **fields))) == ([path] if path else [])


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"completions": 12, "parallelism": 3}, ""),
        ({"completions": 3}, ""),
        ({"completions": 2, "parallelism": 3}, "parallelism"),
        ({"parallelism": 2}, "parallelism"),
    ],
)
def test_trials(fields: dict[str, Any], path: str) -> None:
    assert list(issues(spec_of(**fields))) == ([path] if path else [])


def served(**fields: object) -> dict[str, str]:
    spec = spec_of(Kind.INFERENCE, **fields)
    spec.ports.add(label="http", container=80)
    return issues(spec)


def test_a_service_needs_a_port_and_a_sane_scale() -> None:
    assert set(issues(spec_of(Kind.INFERENCE))) == {"ports"}
    assert served() == {}
    assert served(min_scale=0, max_scale=1) == {}
    assert served(min_scale=3) == {}
    assert served(min_scale=3, max_scale=2) == {"autoscaling.minReplicas": "minScale 3 is above maxScale 2"}
    assert set(served(min_scale=1, max_scale=2)) == {"autoscaling.metric"}
    assert set(served(max_scale=2, metric=1)) == {"autoscaling.metricThreshold"}
    assert served(max_scale=2, metric=1, target=5) == {}
    assert set(served(min_scale=0, max_scale=2, metric=3, target=5)) == {"autoscaling.metric"}
    assert served(min_scale=0, max_scale=1, scale_to_zero_retention_seconds=60) == {}
    assert set(served(min_scale=1, scale_to_zero_retention_seconds=60)) == {"autoscaling.scaleToZeroRetentionSeconds"}
    assert set(served(min_scale=1, scale_to_zero_retention_seconds=3601)) == {"autoscaling.scaleToZeroRetentionSeconds"}


def test_an_affinity_is_said_whole_or_not_at_all() -> None:
    assert issues(spec_of(pod_affinity=True, pod_affinity_scheduling_rule=1, pod_affinity_topology="zone")) == {}
    assert set(issues(spec_of(pod_affinity=True))) == {"podAffinity.type", "podAffinity.key"}
    assert issues(spec_of(pod_affinity_scheduling_rule=1)) == {"podAffinity.type": "it is used only with podAffinity"}
    assert set(issues(spec_of(pod_affinity=False, pod_affinity_topology="zone"))) == {"podAffinity.key"}


def test_anti_affinity_has_its_rule_and_does_not_contradict_what_has_to_be_close() -> None:
    def of(**more: Any) -> dict[str, str]:
        return issues(spec_of(pod_anti_affinity=True, **more))

    def close(**more: Any) -> set[str]:
        return set(of(pod_anti_affinity_scheduling_rule=1, pod_anti_affinity_topology="rack", **more))

    assert set(of()) == {"podAntiAffinity.type", "podAntiAffinity.key"}
    assert set(issues(spec_of(pod_anti_affinity_topology="rack"))) == {"podAntiAffinity.key"}
    assert close() == set()
    together: dict[str, Any] = {"pod_affinity": True, "pod_affinity_scheduling_rule": 1}
    assert close(**together, pod_affinity_topology="rack") == {"podAntiAffinity.key"}
    assert close(**together, pod_affinity_topology="kubernetes.io/hostname") == {"podAntiAffinity.key"}
    assert close(**together, pod_affinity_topology="block") == set()
    assert close(**{**together, "pod_affinity_scheduling_rule": 2}, pod_affinity_topology="rack") == set()
    said = of(pod_anti_affinity_scheduling_rule=1, pod_anti_affinity_topology="rack", topology_required="rack")
    assert said["podAntiAffinity.key"] == (
        "replicas that have to stand apart by rack cannot all have one rack, as topologyRequired wants"
    )


def test_groups_of_a_gang_are_named_and_sized_and_leave_nobody_over() -> None:
    def of(**said: object) -> dict[str, str]:
        return issues(spec_of(Kind.DISTRIBUTED, framework=workload_pb2.FRAMEWORK_PYTORCH, workers=8, **said))

    assert of(topology_required="block", topology_group="rack", topology_group_size=4) == {}
    assert of(topology_group="rack") == {"topology.groupSize": "topologyGroup needs the size of its groups"}
    assert of(topology_group_size=4) == {"topology.group": "topologyGroupSize needs the node label of its groups"}
    assert of(topology_group="rack", topology_group_size=3) == {
        "topology.groupSize": "8 workers do not divide into groups of 3"
    }


ITEMS: list[tuple[str, dict[str, Any], str]] = [
    ("pvcs", {"path": "/a", "existing_pvc": True, "claim_name": "c"}, ""),
    ("pvcs", {"path": "/a", "size": "1G"}, ""),
    ("pvcs", {"path": "/a", "existing_pvc": True}, "storage.pvc.i.claimName"),
    ("pvcs", {"path": "/a", "claim_name": "c"}, "storage.pvc.i.claimInfo.size"),
    ("pvcs", {"size": "1G"}, "storage.pvc.i.path"),
    ("ports", {"external": 80}, "ports.i.container"),
    ("nfs", {"server": "s", "path": "/a"}, "storage.nfs.i.mountPath"),
    ("tolerations", {"operator": 1, "key": "a", "value": "b", "effect": 1}, ""),
    ("extended_resources", {"resource": "a/b", "quantity": "2"}, ""),
    ("extended_resources", {"resource": "a/b", "quantity": "0"}, "compute.extendedResources.i.quantity"),
    ("extended_resources", {"resource": "a/b", "quantity": "999E"}, "compute.extendedResources.i.quantity"),
    ("tolerations", {"operator": 2, "key": "", "effect": 1}, ""),
    ("tolerations", {"operator": 2, "key": "a", "value": "b", "effect": 1}, "tolerations.i.value"),
    ("tolerations", {"operator": 1, "key": "", "effect": 1}, "tolerations.i.key"),
    ("environment", {"value": "SECRET:store,password"}, ""),
    ("environment", {"value": "SECRET"}, ""),
    ("environment", {"value": "SECRET:store"}, "environmentVariables.i.value"),
    ("environment", {"value": "SECRET:,k"}, "environmentVariables.i.value"),
    ("git_sync", {"repository": "git@h:r", "path": "/a", "branch": "b", "revision": "c"}, ""),
    ("git_sync", {"repository": "git@h:r", "path": "/a", "password": "p"}, "storage.git.i.username"),
    ("git_sync", {"repository": "git@h:r", "path": "/a", "password": "p", "username": "u"}, ""),
    ("s3", {"bucket": "b", "path": "/a", "access_key_id": "k", "secret_key": "s"}, ""),
    ("s3", {"bucket": "b", "path": "/a", "access_key_id": "k"}, "storage.s3.i.secret"),
    ("s3", {"bucket": "b", "path": "/a", "secret_key": "k"}, "storage.s3.i.key"),
]


@pytest.mark.parametrize(("field", "members", "path"), ITEMS)
def test_what_an_item_needs(field: str, members: dict[str, Any], path: str) -> None:
    spec = spec_of()
    getattr(spec, field).add(label="i", **members)
    assert list(issues(spec)) == ([path] if path else [])


def test_two_ports_cannot_have_one_external_port() -> None:
    spec = spec_of()
    spec.ports.add(label="a", container=80, external=30_000)
    spec.ports.add(label="b", container=81, external=30_000)
    spec.ports.add(label="c", container=82)
    spec.ports.add(label="d", container=83)
    assert issues(spec) == {"ports.b.external": "the port a has the external port 30000 as well: a number of its own"}


def test_the_effective_spec_is_checked_like_a_layer_too() -> None:
    assert issues(spec_of(backoff_limit=5000)) == {"backoffLimit": "5000 is too large: a whole number from 0 to 1000"}
