"""REST bodies that are written: what YAML says in its own words stands where REST has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.workload.v1 import storage_pb2 as storage
from muster.workload.v1 import workload_pb2 as wl
from muster_language.rest.bodies import answer_body, write_body
from muster_language.spec import Kind, WorkloadSpec, set_kind


def made(kind: Kind = Kind.TRAINING, **fields: Any) -> WorkloadSpec:
    spec = WorkloadSpec(**fields)
    set_kind(spec, kind)
    return spec


@pytest.mark.parametrize(
    ("fields", "compute"),
    [
        ({"gpu_portion_request": 0.5}, {"gpuPortionRequest": 0.5, "gpuDevicesRequest": 1, "gpuRequestType": "portion"}),
        ({"gpu_devices_request": 2}, {"gpuPortionRequest": 1, "gpuDevicesRequest": 2, "gpuRequestType": "portion"}),
        ({"gpu_devices_request": 0}, {"gpuDevicesRequest": 0}),
        ({"gpu_memory_request": "4Gi"}, {"gpuMemoryRequest": "4Gi", "gpuRequestType": "memory"}),
        ({"cpu": "250m"}, {"cpuCoreRequest": 0.25}),
        ({"cpu": "2"}, {"cpuCoreRequest": 2}),
    ],
)
def test_requests_of_yaml_are_written_out(fields: dict[str, Any], compute: dict[str, Any]) -> None:
    assert write_body(made(**fields))["spec"]["compute"] == compute


@pytest.mark.parametrize(
    ("fields", "security"),
    [
        ({"run_as_user": True}, {"uidGidSource": "fromIdpToken"}),
        ({"run_as_user": False}, {"uidGidSource": "fromTheImage"}),
        ({"run_as_user": True, "run_as_uid": 5}, {"uidGidSource": "custom", "runAsUid": 5}),
    ],
)
def test_ids_of_yaml_are_written_out(fields: dict[str, Any], security: dict[str, Any]) -> None:
    assert write_body(made(**fields))["spec"]["security"] == security


def test_what_yaml_says_once_is_written_where_rest_has_it() -> None:
    spec = made(
        Kind.WORKSPACE,
        preemptible=True,
        service_type=wl.SERVICE_TYPE_NODE_PORT,
        ports=[wl.Port(container=80), wl.Port(container=81, service_type=wl.SERVICE_TYPE_CLUSTER_IP)],
        mount_propagation=True,
        volumes=[
            storage.HostPath(path="/a", mount_path="/b"),
            storage.HostPath(label="n", path="/c", mount_path="/d", nfs_server="files", read_only=True),
        ],
    )
    written = write_body(spec)["spec"]
    assert written["priorityClass"] == "interactive-preemptible"
    assert [port["serviceType"] for port in written["ports"]] == ["NodePort", "ClusterIP"]
    assert written["storage"] == {
        "nfs": [{"name": "n", "path": "/c", "mountPath": "/d", "server": "files", "readOnly": True}],
        "hostPath": [{"path": "/a", "mountPath": "/b", "mountPropagation": "HostToContainer"}],
    }


def test_a_literal_credential_has_no_form() -> None:
    spec = made(git_sync=[storage.GitRepository(repository="git@h:r", path="/p", username="ann", password="canary")])
    assert "canary" not in json.dumps(write_body(spec))
    assert "ann" not in json.dumps(write_body(spec))


def test_a_spec_without_a_kind_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="kind"):
        write_body(WorkloadSpec())


def test_what_the_api_has_no_word_for_stands_beside_in_workers_and_master() -> None:
    spec = made(Kind.DISTRIBUTED, mig_profile="1g.6gb")
    spec.master_spec.mig_profile = "1g.12gb"
    answered = answer_body(spec)
    assert "migProfile" not in answered["spec"]["compute"]
    assert "migProfile" not in answered["masterSpec"]["compute"]
    assert answered["additionalFields"] == {
        "compute.migProfile": "1g.6gb",
        "masterSpec.compute.migProfile": "1g.12gb",
    }
