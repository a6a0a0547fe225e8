"""REST bodies that are read: the reference's own example, each compound, and every refusal with its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster_language.rest.bodies import Body, read_body, write_body
from muster_language.spec import Kind

# The API reference's body of a training. Mended by hand: the members git.repository, s3.url, exposedUrls.url and
# relatedUrls that its extraction lost, and paths that say `string` where only an absolute path is legal.
EXAMPLE = json.loads((Path(__file__).parents[2] / "data" / "rest" / "training.json").read_text())
ENVELOPE = {"name": "a", "projectId": "1", "clusterId": "c"}


def read(kind: Kind = Kind.TRAINING, envelope: dict[str, Any] | None = None, **spec: Any) -> Body:
    return read_body(kind, ENVELOPE | {"spec": spec} | (envelope or {}))


def found(body: Body) -> dict[str, str]:
    return {one.path: one.text for one in body.violations}


def test_the_example_of_the_reference_is_taken() -> None:
    body = read_body(Kind.TRAINING, EXAMPLE)
    assert body.violations == ()
    assert (body.spec.name_prefix, body.project_id) == ("my-workload-name", "1")
    assert [one.partition(" ")[0] for one in body.warnings] == [
        "spec.environmentVariables[0].value",
        "spec.compute.gpuMemoryRequest",
        "spec.compute.gpuMemoryLimit",
        "spec.compute.migProfile",
        "spec.security.runAsUid",
        "spec.security.runAsGid",
    ]


def test_the_example_comes_back_as_it_was_but_for_what_was_ignored() -> None:
    written = write_body(read_body(Kind.TRAINING, EXAMPLE).spec)["spec"]
    asked = json.loads(json.dumps(EXAMPLE["spec"]))
    del asked["environmentVariables"][0]["value"]
    for name in ("gpuMemoryRequest", "gpuMemoryLimit", "migProfile"):
        del asked["compute"][name]
    for name in ("runAsUid", "runAsGid"):
        del asked["security"][name]
    asked["compute"]["extendedResources"][0]["quantity"] = "2"
    assert written == asked


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"gpu_devices_request": 1}, "spec.gpu_devices_request"),
        ({"imge": "x"}, "spec.imge"),
        ({"tty": 1}, "spec.tty"),
        ({"tty": "true"}, "spec.tty"),
        ({"backoffLimit": True}, "spec.backoffLimit"),
        ({"backoffLimit": "3"}, "spec.backoffLimit"),
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"backoffLimit": 1.5}, "spec.backoffLimit"),
        ({"backoffLimit": 10**30}, "spec.backoffLimit"),
        ({"image": ""}, "spec.image"),
        ({"image": 5}, "spec.image"),
        ({"image": {}}, "spec.image"),
        ({"imagePullPolicy": "Sometimes"}, "spec.imagePullPolicy"),
        ({"compute": []}, "spec.compute"),
        ({"compute": {"cpuCoreRequest": "0.5"}}, "spec.compute.cpuCoreRequest"),
        ({"compute": {"cpuCoreRequest": -1}}, "spec.compute.cpuCoreRequest"),
        ({"compute": {"cpuMemoryRequest": 5}}, "spec.compute.cpuMemoryRequest"),
        ({"compute": {"cpuMemoryRequest": "-1"}}, "spec.compute.cpuMemoryRequest"),
        ({"compute": {"cpuMemoryRequest": "1e400"}}, "spec.compute.cpuMemoryRequest"),
        ({"compute": {"cpuMemoryRequest": "NaN"}}, "spec.compute.cpuMemoryRequest"),
        ({"compute": {"cpuMemoryRequest": "0"}}, "spec.compute.cpuMemoryRequest"),
        ({"compute": {"gpuPortionRequest": 1.5}}, "spec.compute.gpuPortionRequest"),
        ({"nodePools": "a"}, "spec.nodePools"),
        ({"nodePools": ["a", 1]}, "spec.nodePools[1]"),
        ({"ports": {}}, "spec.ports"),
        ({"ports": [5]}, "spec.ports[0]"),
        ({"ports": [{"serviceType": "ClusterIP"}]}, "spec.ports[0].container"),
        ({"ports": [{"container": 70000, "serviceType": "ClusterIP"}]}, "spec.ports[0].container"),
        ({"podAffinity": {"key": "zone"}}, "spec.podAffinity.type"),
        ({"podAntiAffinity": {"type": "Required"}}, "spec.podAntiAffinity.key"),
        ({"probes": {"readiness": {}}}, "spec.probes.readiness.handler"),
        ({"environmentVariables": [{"value": "x"}]}, "spec.environmentVariables[0].name"),
        ({"environmentVariables": [{"name": "A", "value": "SECRET:s,k"}]}, "spec.environmentVariables[0].value"),
        ({"environmentVariables": [{"name": "A", "secret": {"name": "s"}}]}, "spec.environmentVariables[0].secret.key"),
        ({"environmentVariables": [{"name": "A", "secret": []}]}, "spec.environmentVariables[0].secret"),
        (
            {"environmentVariables": [{"name": "A", "secret": {"name": "s", "key": "k", "x": 1}}]},
            "spec.environmentVariables[0].secret.x",
        ),
        ({"storage": {"pvc": [{"path": "/a", "claimInfo": {}}]}}, "spec.storage.pvc[0].claimInfo.size"),
        ({"storage": {"dataVolume": [{"id": "x", "mountPath": "/a"}]}}, "spec.storage.dataVolume[0].id"),
        (
            {"storage": {"nfs": [{"path": "/a", "mountPath": "/b/../c", "server": "s"}]}},
            "spec.storage.nfs[0].mountPath",
        ),
        ({"labels": [{"name": "x" * 64, "value": ""}]}, "spec.labels[0]"),
        ({"labels": [{"name": "stage", "value": "x" * 64}]}, "spec.labels[0].value"),
        ({"labels": [{"name": "a", "value": ""}, {"name": "a", "value": "b"}]}, "spec.labels[0]"),
        (
            {"storage": {"nfs": [{"path": "/a", "mountPath": "/b", "server": "s"}], "pvc": [{"path": "/b"}]}},
            "spec.storage.nfs[0]",
        ),
        ({"numWorkers": 3}, "spec.numWorkers"),
        ({"autoscaling": {"minReplicas": 1}}, "spec.autoscaling"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(said: dict[str, Any], path: str) -> None:
    assert path in found(read(**({"image": "x"} | said)))


@pytest.mark.parametrize(
    ("envelope", "path"),
    [
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"useGivenNameAsPrefix": "yes"}, "useGivenNameAsPrefix"),
        ({"useGivenNameAsPrefix": []}, "useGivenNameAsPrefix"),
        ({"projectId": None}, "projectId"),
        ({"projectId": True}, "projectId"),
        ({"clusterId": 1.5}, "clusterId"),
        ({"spec": "x"}, "spec"),
        ({"project_id": "1"}, "project_id"),
        ({"masterSpec": {}}, "masterSpec"),
    ],
)
def test_the_envelope_is_checked(envelope: dict[str, Any], path: str) -> None:
    assert path in found(read(envelope=envelope))


def test_a_snake_case_twin_is_told_its_name() -> None:
    assert "workingDir" in found(read(image="x", working_dir="/a"))["spec.working_dir"]


@pytest.mark.parametrize("text", ["'; DROP TABLE workloads; --'", "{{ 7 * 7 }}", "${jndi:ldap://x}", "$(id)", "%n%s"])
def test_text_is_only_ever_text(text: str) -> None:
    body = read(image=text, command=text, args=text, environmentVariables=[{"name": "A", "value": text}])
    assert body.violations == ()
    assert (body.spec.image, body.spec.command, body.spec.args, body.spec.environment[0].value) == (text,) * 4


def test_null_is_the_same_as_leaving_it_out() -> None:
    body = read(image="x", tty=None, compute=None, ports=None)
    assert (body.violations, body.spec) == ((), read(image="x").spec)


def test_zero_false_and_empty_are_values() -> None:
    spec = read(image="x", backoffLimit=0, tty=False, nodePools=[]).spec
    assert (spec.HasField("backoff_limit"), spec.HasField("tty"), spec.HasField("node_pools")) == (True, True, True)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert read(image="x", backoffLimit=3.0).spec.backoff_limit == 3


def test_more_items_than_allowed_are_not_read() -> None:
    many = [{"name": f"A{number}", "value": ""} for number in range(1001)]
    assert "spec.environmentVariables" in found(read(image="x", environmentVariables=many))


def test_a_secret_is_the_same_on_both_channels() -> None:
    spec = read(image="x", environmentVariables=[{"name": "A", "secret": {"name": "s", "key": "k"}}]).spec
    assert spec.environment[0].value == "SECRET:s,k"
    assert write_body(spec)["spec"]["environmentVariables"] == [{"name": "A", "secret": {"name": "s", "key": "k"}}]


def test_the_word_secret_alone_is_a_text() -> None:
    spec = read(image="x", environmentVariables=[{"name": "A", "value": "SECRET"}]).spec
    assert write_body(spec)["spec"]["environmentVariables"] == [{"name": "A", "value": "SECRET"}]


def test_exclude_takes_an_inherited_item_out() -> None:
    body = read(image="x", labels=[{"name": "stage", "exclude": True}])
    assert (body.violations, body.spec.labels[0].deleted) == ((), True)


@pytest.mark.parametrize(
    ("kind", "kept", "ignored"),
    [
        ("portion", "gpuPortionRequest", ["gpuMemoryRequest", "migProfile"]),
        ("memory", "gpuMemoryRequest", ["gpuPortionRequest", "migProfile"]),
        ("migProfile", "migProfile", ["gpuPortionRequest", "gpuMemoryRequest"]),
    ],
)
def test_the_request_type_selects(kind: str, kept: str, ignored: list[str]) -> None:
    compute = {"gpuPortionRequest": 0.5, "gpuMemoryRequest": "10M", "migProfile": "1g.5gb", "gpuRequestType": kind}
    body = read(image="x", compute=compute)
    assert body.violations == ()
    assert [one.split(" ")[0] for one in body.warnings] == [f"spec.compute.{name}" for name in ignored]
    assert set(write_body(body.spec)["spec"]["compute"]) - {"gpuDevicesRequest"} == {kept, "gpuRequestType"}


def test_affinity_is_an_object() -> None:
    spec = read(image="x", podAffinity={"type": "Preferred", "key": "zone"}).spec
    assert (spec.pod_affinity, spec.pod_affinity_topology) == (True, "zone")
    assert write_body(spec)["spec"]["podAffinity"] == {"type": "Preferred", "key": "zone"}
    apart = read(image="x", podAntiAffinity={"type": "Required", "key": "zone"}).spec
    assert (apart.pod_anti_affinity, apart.pod_anti_affinity_topology) == (True, "zone")
    assert write_body(apart)["spec"]["podAntiAffinity"] == {"type": "Required", "key": "zone"}


def test_where_a_workload_runs() -> None:
    said: dict[str, Any] = {
        "clusters": ["a", "b"],
        "preferredClusters": ["b"],
        "dataLabel": "fluid.io/s-default-imagenet=true",
    }
    spec = read(image="x", **said).spec
    assert (list(spec.clusters.values), list(spec.preferred_clusters.values)) == (["a", "b"], ["b"])
    assert {name: write_body(spec)["spec"][name] for name in said} == said


def gang(**envelope: Any) -> Body:
    return read(Kind.DISTRIBUTED, envelope, image="x", numWorkers=2, distributedFramework="PyTorch")


def test_a_master_of_its_own() -> None:
    body = gang(masterSpec={"command": "lead", "security": {"uidGidSource": "fromTheImage", "runAsUid": 4}})
    assert (body.violations, body.spec.master_spec.command) == ((), "lead")
    assert [one.split(" ")[0] for one in body.warnings] == ["masterSpec.security.runAsUid"]
    assert write_body(body.spec)["masterSpec"]["command"] == "lead"


def test_a_master_like_the_workers() -> None:
    body = gang(masterSpecSameAsWorker=True)
    assert not body.spec.HasField("master_spec")
    assert write_body(body.spec)["masterSpecSameAsWorker"] is True


@pytest.mark.parametrize(
    ("envelope", "path"),
    [
        ({"masterSpec": {}, "masterSpecSameAsWorker": True}, "masterSpec"),
        ({"masterSpec": []}, "masterSpec"),
        ({"masterSpecSameAsWorker": 1}, "masterSpecSameAsWorker"),
        ({"masterSpec": {"numWorkers": 2}}, "masterSpec.numWorkers"),
        ({"masterSpec": {"ports": [{"container": 0, "serviceType": "ClusterIP"}]}}, "masterSpec.ports[0].container"),
    ],
)
def test_a_master_is_checked(envelope: dict[str, Any], path: str) -> None:
    assert path in found(gang(**envelope))


def serve(**spec: Any) -> Body:
    return read(Kind.INFERENCE, image="x", **spec)


def test_the_serving_port_is_the_first_port() -> None:
    body = serve(
        servingPort={"container": 8000, "protocol": "grpc"}, ports=[{"container": 9, "serviceType": "NodePort"}]
    )
    assert [port.container for port in body.spec.ports] == [8000, 9]
    written = write_body(body.spec)["spec"]
    assert written["servingPort"] == {"container": 8000, "protocol": "grpc"}
    assert written["ports"] == [{"container": 9, "serviceType": "NodePort"}]


def test_a_serving_port_with_more_to_say_stands_in_both_places() -> None:
    ports = [
        {"container": 9, "serviceType": "NodePort"},
        {"name": "http", "container": 8000, "serviceType": "ClusterIP"},
    ]
    body = serve(servingPort={"container": 8000}, ports=ports)
    assert [port.container for port in body.spec.ports] == [8000, 9]
    written = write_body(body.spec)["spec"]
    assert written["ports"] == [ports[1], ports[0]]
    assert read(Kind.INFERENCE, **written).spec == body.spec


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ([], "spec.servingPort"),
        ({}, "spec.servingPort.container"),
        ({"container": 70000}, "spec.servingPort.container"),
        ({"container": "80"}, "spec.servingPort.container"),
        ({"container": 80, "protocol": "smtp"}, "spec.servingPort.protocol"),
        ({"container": 80, "name": "x"}, "spec.servingPort.name"),
    ],
)
def test_a_serving_port_is_checked(said: Any, path: str) -> None:
    paths = set(found(serve(servingPort=said)))
    assert path in paths or path.replace("servingPort", "ports[0]") in paths


def test_rest_takes_less_than_yaml_for_inference() -> None:
    assert "spec.tty" in found(serve(servingPort={"container": 80}, tty=True))
