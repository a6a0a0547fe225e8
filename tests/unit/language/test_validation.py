"""The LAYER stage: what is wrong with one layer by itself, under the names of its channel."""

from __future__ import annotations

import math
from typing import Any

import pytest

from muster_language import Kind, WorkloadSpec, check_layer
from muster_language.naming import REST
from muster_language.spec import set_kind


def spec_of(kind: Kind = Kind.TRAINING, **fields: object) -> WorkloadSpec:
    spec = WorkloadSpec(**fields)  # type: ignore[arg-type]
    set_kind(spec, kind)
    return spec


def found(spec: WorkloadSpec) -> list[tuple[str, str]]:
    return [(each.path, each.message) for each in check_layer(spec)]


def test_a_layer_without_a_kind() -> None:
    assert found(WorkloadSpec(image="x")) == [("kind", "the kind of workload is not said")]


@pytest.mark.parametrize("portion", [0.001, -1.0, 1.5, 0.0, math.nan, math.inf])
def test_portions_of_typed_specs(portion: float) -> None:
    said = check_layer(spec_of(gpu_portion_request=portion))
    assert [each.path for each in said] == ["spec.gpu.value"]
    assert "is not a GPU request: 0 is no GPU" in said[0].text


@pytest.mark.parametrize("text", ["-1", "1e400", "NaN", "0", "0Gi", "", "1Z", "1 G", "9" * 39 + "E", "0.1", "4m", "٣"])
def test_amounts_of_memory_that_are_none(text: str) -> None:
    assert [path for path, _ in found(spec_of(memory=text))] == ["spec.memory.value"]


@pytest.mark.parametrize("text", ["=true", "a b", "a/b/c", "a=b=c", "-a", "a.b/", "A/b", f"a/{'b' * 64}"])
def test_labels_of_data_that_are_none(text: str) -> None:
    (violation,) = check_layer(spec_of(data_label=text))
    assert violation.path == "spec.dataLabel.value"
    assert "the key of a node label, or key=value, such as fluid.io/s-default-imagenet=true" in violation.text


@pytest.mark.parametrize("text", ["data", "data=", "data=x.y", "fluid.io/s-default-imagenet=true"])
def test_labels_of_data(text: str) -> None:
    assert found(spec_of(data_label=text)) == []


@pytest.mark.parametrize("name", ["North", "1a", "a-", "a.b", "a" * 64, ""])
def test_names_that_no_cluster_can_have(name: str) -> None:
    spec = spec_of()
    for clusters in (spec.clusters, spec.preferred_clusters):
        clusters.values.append(name)
    said = check_layer(spec)
    assert [each.path for each in said] == ["spec.clusters.value", "spec.preferredClusters.value"]
    assert all("a lower-case letter, then lower-case letters, digits and -" in each.text for each in said)


@pytest.mark.parametrize("text", ["-1", "1e400", "NaN", "0", "1G", "0.0001"])
def test_amounts_of_cpu_that_are_none(text: str) -> None:
    assert [path for path, _ in found(spec_of(cpu=text))] == ["spec.cpu.value"]


def test_names_of_paths_by_channel() -> None:
    spec = spec_of(Kind.DISTRIBUTED, memory="0", framework=99)
    spec.master_spec.memory = "0"
    spec.master_spec.workers = 2
    spec.ports.add(label="p", container=70_000)
    spec.readiness_probe.port = 0
    yaml = [
        "spec.ports.items.p.value.container",
        "spec.readinessProbe.value.port",
        "spec.memory.value",
        "spec.jobType",
        "masterSpec.memory.value",
        "masterSpec.workers",
    ]
    rest = [
        "ports.p.container",
        "probes.readiness.handler.httpGet.port",
        "compute.cpuMemoryRequest",
        "distributedFramework",
        "masterSpec.compute.cpuMemoryRequest",
        "masterSpec.numWorkers",
    ]
    assert [each.path for each in check_layer(spec)] == yaml
    assert [each.path for each in check_layer(spec, REST)] == rest


def test_typed_items() -> None:
    spec = spec_of()
    for label in ("A", "A", ""):
        spec.environment.add(label=label, value="x\0")
    spec.environment.add(label="B")
    spec.ports.add(container=80)
    spec.ports.add(container=80)
    said = found(spec)
    assert ("spec.environment.items.A", "two items have the label A") in said
    assert ("spec.environment.items.A.value", "the value has a NUL character") in said
    assert ("spec.environment.items.", "'' is not a label") in said
    assert ("spec.environment.items.B", "the item has no value") in said
    assert ("spec.ports.items.p-80", "two items have the label p-80") in said


def test_a_tombstone_needs_nothing_but_its_label() -> None:
    spec = spec_of()
    spec.environment.add(label="A", deleted=True)
    spec.pvcs.add(label="scratch", deleted=True)
    assert found(spec) == []


def test_too_many_items() -> None:
    spec = spec_of()
    for number in range(1001):
        spec.environment.add(label=f"A{number}", value="x")
    assert found(spec) == [("spec.environment", "1001 items are too many")]


def test_other_typed_values() -> None:
    spec = spec_of(Kind.INFERENCE, target=0, image="a\0b", image_pull_policy=9, name="a" * 64)
    spec.node_pools.values.extend(f"p{number}" for number in range(65))
    assert dict(found(spec)) == {
        "spec.name.value": f"{'a' * 60}.. is too long: 64 characters",
        "spec.target.value": "0 is too small",
        "spec.image.value": "the value has a NUL character",
        "spec.imagePullPolicy.value": "9 is not known",
        "spec.nodePools.value": "65 entries are too many",
    }


def test_lists_that_are_one_value() -> None:
    spec = spec_of()
    spec.node_pools.values.extend(["a", "b", "a"])
    spec.capabilities.values.extend(["IPC_LOCK", "FLY"])
    url = spec.exposed_urls.add(label="u", container=80)
    url.authorized_users.values.extend(["a@b", "a\0b"])
    assert found(spec) == [
        ("spec.exposedUrls.items.u.value.authorizedUsers", "the value has a NUL character"),
        ("spec.nodePools.value", "a is given twice"),
        ("spec.capabilities.value", "FLY is not known"),
    ]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data", "data is not"),
        ("", "'' is not"),
        ("/data/../etc", "has a .. in it"),
        ("/..", "has a .. in it"),
        ("/a:b", "has a colon in it"),
        ("/" + "a" * 5000, "is too long"),
    ],
)
def test_folders_inside_the_container(path: str, said: str) -> None:
    spec = spec_of()
    spec.pvcs.add(label="p", claim_name="c", existing_pvc=True, path=path)
    [violation] = check_layer(spec)
    assert violation.path == "spec.pvcs.items.p.value.path"
    assert said in violation.message


def test_a_folder_whose_name_only_has_two_dots_in_it() -> None:
    spec = spec_of()
    spec.pvcs.add(label="p", claim_name="c", existing_pvc=True, path="/data/v1..v2")
    assert found(spec) == []


def test_two_volumes_on_one_folder() -> None:
    spec = spec_of()
    spec.pvcs.add(label="a", claim_name="c", existing_pvc=True, path="/data")
    spec.nfs.add(label="b", server="s", path="/export", mount_path="/data/")
    spec.empty_dir_volumes.add(label="c", path="//data")
    spec.empty_dir_volumes.add(label="d", path="/data/below")
    spec.config_map_volumes.add(label="e", deleted=True, mount_path="/data")
    assert found(spec) == [
        ("spec.nfs.items.b", "/data/ is taken by spec.pvcs.items.a as well"),
        ("spec.emptyDirVolumes.items.c", "//data is taken by spec.pvcs.items.a as well"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("team", "vision", ""),
        ("example.com/team", "", ""),
        ("a" * 64, "x", "is not a label"),
        ("Example.com/team", "x", "is not a label"),
        ("/team", "x", "is not a label"),
        ("team/", "x", "is not a label"),
        ("-team", "x", "is not a label"),
        ("team", "a" * 64, "is not the value of a label"),
        ("team", "two words", "is not the value of a label"),
        ("team", "ends-", "is not the value of a label"),
    ],
)
def test_labels_are_what_kubernetes_takes(key: str, value: str, said: str) -> None:
    spec = spec_of()
    spec.labels.add(label=key, value=value)
    assert [said in message for _, message in found(spec)] == ([True] if said else [])


def test_annotations_together_have_a_limit() -> None:
    spec = spec_of()
    for number in range(5):
        spec.annotations.add(label=f"a{number}", value="two words, " + "x" * 60_000)
    assert found(spec) == [("spec.annotations", "the annotations are 300065 characters long")]


def test_members_that_exclude_each_other() -> None:
    spec = spec_of(gpu_portion_request=0.5, gpu_memory_request="4G", mig_profile="1g.5gb", name="a", name_prefix="b")
    assert found(spec) == [
        ("spec.namePrefix.value", "name and namePrefix exclude each other"),
        ("spec.gpuMemory.value", "gpu and gpuMemory and migProfile exclude each other"),
    ]


def test_what_a_kind_does_not_take() -> None:
    spec = spec_of(Kind.INFERENCE, completions=2, backoff_limit=1)
    spec.nfs.add(label="n", server="s", path="/a", mount_path="/b")
    assert [path for path, _ in found(spec)] == ["spec.backoffLimit", "spec.completions", "spec.nfs"]
    assert "an InferenceWorkload does not take nfs" in dict(found(spec))["spec.nfs"]


def test_a_job_of_another_form_belongs_to_gangs_alone() -> None:
    spec = spec_of()
    spec.colossal.torch_config.script.append("train.py")
    assert found(spec) == [("spec.colossal", "a TrainingWorkload does not take colossal")]
    gang = spec_of(Kind.DISTRIBUTED)
    gang.colossal.CopyFrom(spec.colossal)
    assert found(gang) == []
    gang.master_spec.colossal.CopyFrom(spec.colossal)
    assert [path for path, _ in found(gang)] == ["masterSpec.colossal"]


def test_what_nobody_may_say() -> None:
    [violation] = check_layer(spec_of(ingress_url="http://x"))
    assert (violation.path, violation.message) == ("spec.ingressUrl", "ingressUrl is not taken")
    assert "exposedUrls" in violation.allowed


def test_a_credential_is_not_quoted() -> None:
    spec = spec_of()
    spec.git_sync.add(label="g", repository="git@host:r", path="/a", password="hunter2" * 1000)
    assert found(spec) == [("spec.gitSync.items.g.value.password", "the credential is too long: 7000 characters")]


def test_what_no_policy_can_give_is_missed_at_once() -> None:
    spec = spec_of()
    spec.tolerations.add(label="t", key="gpu")
    spec.ports.add(label="p", external=80)
    paths = found(spec)
    assert ("spec.tolerations.items.t", "operator is missing") in paths
    assert not any(path.startswith("spec.ports") for path, _ in paths)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_spec_is_not_changed(step: int) -> None:
    specs: list[Any] = [spec_of(), spec_of(memory="0"), spec_of(Kind.DISTRIBUTED)]
    spec = specs[step]
    spec.ports.add(container=1)
    before = spec.SerializeToString(deterministic=True)
    check_layer(spec)
    assert spec.SerializeToString(deterministic=True) == before


PASSWORD = "ann:canary@"


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://a.example", True),
        ("HTTP://a.example:8080/x?y#z", True),
        ("http://[::1]:80/x", True),
        ("", True),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("https:///x", False),
        (f"https://{PASSWORD}a.example", False),
        ("https://ann:can/ary@a.example", False),
    ],
)
def test_addresses_are_of_the_web_and_hold_no_credential(url: str, taken: bool) -> None:
    spec = spec_of()
    spec.exposed_urls.add(label="a", container=80, url=url)
    spec.related_urls.add(label="b", url=url, type="x")
    spec.s3.add(label="c", url=url, bucket="b", path="/a")
    found = [each for each in check_layer(spec) if each.path.endswith("url")]
    assert len(found) == (0 if taken else 3)
    assert not any("canary" in each.text or "ary@" in each.text for each in found)


@pytest.mark.parametrize(
    ("repository", "taken"),
    [
        ("https://a.example/b.git", True),
        ("ssh://git@a.example:22/b.git", True),
        ("git@a.example:b/c.git", True),
        ("file:///srv/b", False),
        ("javascript:alert(1)", False),
        (f"https://{PASSWORD}a.example/b", False),
        (f"ssh://{PASSWORD}a.example/b", False),
    ],
)
def test_a_repository_is_fetched_by_https_or_ssh_and_its_credentials_stand_elsewhere(
    repository: str,
    taken: bool,
) -> None:
    spec = spec_of()
    spec.git_sync.add(label="g", repository=repository, path="/a")
    found = [each for each in check_layer(spec) if each.path.endswith("repository")]
    assert len(found) == (0 if taken else 1)
    assert all("username and password" in each.allowed and "canary" not in each.text for each in found)


@pytest.mark.parametrize(
    ("folder", "taken"),
    [("/", True), ("/a/..b/.c/...", True), ("", True), ("a", False), ("..", False), ("/a/../b", False), ("/..", False)],
)
def test_the_working_directory_is_absolute_and_does_not_climb(folder: str, taken: bool) -> None:
    assert [each.path for each in check_layer(spec_of(working_dir=folder))] == (
        [] if taken else ["spec.workingDir.value"]
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"min_scale": 3, "max_scale": 2}, ["spec.minScale.value: minScale 3 is above maxScale 2"]),
        (
            {"min_scale": 0, "metric": 3},
            ["spec.metric.value: a service scaled by latency cannot go down to no replica"],
        ),
        ({"min_scale": 2, "max_scale": 2}, []),
        ({"max_scale": 1}, []),
        ({"metric": 3}, []),
        ({"min_scale": 0, "metric": 1}, []),
    ],
)
def test_bounds_and_a_metric_of_one_layer_may_not_contradict_each_other(given: dict[str, int], told: list[str]) -> None:
    spec = WorkloadSpec(kind=Kind.INFERENCE, **given)  # type: ignore[arg-type]
    assert [f"{one.path}: {one.message}" for one in check_layer(spec)] == told
