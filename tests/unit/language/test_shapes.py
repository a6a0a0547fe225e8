"""The forms that documents come in beside the plain one: lists as items, probes as JSON, older groups, legacy jobs."""

from __future__ import annotations

import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_language import Document, Kind, read, write
from tests.support.told import format_violations

HEAD = "apiVersion: run.ai/v2alpha1\nkind: {kind}\nmetadata: {{name: t-1, namespace: runai-team-a}}\nspec:\n"


def one(body: str, kind: str = "TrainingWorkload") -> Document:
    (document,) = read(HEAD.format(kind=kind) + body, source="train.yaml")
    return document


def good(body: str, kind: str = "TrainingWorkload") -> wl.WorkloadSpec:
    document = one(body, kind)
    assert format_violations([document]) == ""
    (again,) = read(write(document.spec))
    assert again.spec == document.spec
    return document.spec


def said(body: str, kind: str = "TrainingWorkload") -> str:
    return format_violations([one(body, kind)])


@pytest.mark.parametrize(
    "body",
    [
        '  capabilities: {items: {"cap-1": {value: {capability: KILL}}, "cap-2": {value: {capability: chown}}}}\n',
        "  capabilities: {items: {a: {value: KILL}, b: {value: CHOWN}}}\n",
        "  capabilities: {value: [KILL, CHOWN]}\n",
        "  capabilities: {value: 'kill, CHOWN'}\n",
    ],
)
def test_capabilities_are_one_list_however_they_are_written(body: str) -> None:
    assert list(good(body).capabilities.values) == ["KILL", "CHOWN"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("  capabilities: {items: {a: {deleted: true}}}\n", "one entry cannot be deleted: the list is one value"),
        ("  capabilities: {items: {a: {}}}\n", "spec.capabilities.items.a: the item has no value"),
        ("  capabilities: {items: {a: KILL}}\n", "spec.capabilities.items.a: the item has no value"),
        ("  capabilities: {items: {a: {value: {cap: KILL}}}}\n", "cap: unknown field\n  known here: capability"),
        ("  capabilities: {items: {a: {value: {capability: FLY}}}}\n", "FLY is not known"),
        ("  capabilities: {items: [KILL]}\n", "spec.capabilities"),
    ],
)
def test_capabilities_that_are_none(body: str, error: str) -> None:
    assert error in said(body)


@pytest.mark.parametrize(
    "body",
    [
        "  imagePullSecrets: {value: registry}\n",
        "  imagePullSecrets: {value: [registry]}\n",
        "  imagePullSecrets: {items: {any: {value: {name: registry}}}}\n",
    ],
)
def test_pull_secrets(body: str) -> None:
    assert list(good(body).image_pull_secrets.values) == ["registry"]


@pytest.mark.parametrize(
    "body",
    [
        "  nodePools: {value: a}\n",
        "  nodePool: {value: a}\n",
        "  nodePools: {value: [a]}\n",
        "  nodePools: {value: 'a,'}\n",
    ],
)
def test_node_pools(body: str) -> None:
    assert list(good(body).node_pools.values) == ["a"]


@pytest.mark.parametrize("given", ["1;2;3", "'1,2,3'", "'1; 2, 3'"])
def test_groups_are_separated_as_both_seeds_have_it(given: str) -> None:
    assert good(f"  supplementalGroups: {{value: {given}}}\n").supplemental_groups == "1,2,3"


@pytest.mark.parametrize(
    "probe",
    [
        "{path: /ok, port: 8000, periodSeconds: 3}",
        "{httpGet: {path: /ok, port: 8000}, periodSeconds: 3}",
        "{handler: {httpGet: {path: /ok, port: '8000'}}, periodSeconds: 3}",
        '\'{"httpGet": {"path": "/ok", "port": 8000}, "periodSeconds": 3}\'',
    ],
)
def test_a_probe_is_an_object_or_json(probe: str) -> None:
    found = good(f"  readinessProbe: {{value: {probe}}}\n").readiness_probe
    assert (found.path, found.port, found.period_seconds) == ("/ok", 8000, 3)


@pytest.mark.parametrize("probe", ["soon", '"[1]"', "'{'", "''", "[a]", '\'{"a": {"b": [1]}}\''])
def test_what_is_no_probe(probe: str) -> None:
    assert "spec.readinessProbe.value" in said(f"  readinessProbe: {{value: {probe}}}\n")


def test_an_error_within_json_stands_where_its_text_stands() -> None:
    found = one("  readinessProbe:\n    value: '{\"port\": 70000}'\n").violations
    assert [(each.path, each.line) for each in found] == [("spec.readinessProbe.value", 6)]


def test_credentials_beside_a_secret_name_are_its_keys() -> None:
    spec = good(
        "  gitSync: {items: {g: {value: {repository: git@h:r, path: /g, secretName: s, username: user}}}}\n"
        "  s3: {items: {b: {value: {bucket: b, path: /b, secretName: s, key: id, secret: word}}}}\n"
    )
    (git,) = spec.git_sync
    assert (git.secret_name, git.secret_key_of_user, git.HasField("username")) == ("s", "user", False)
    (bucket,) = spec.s3
    assert (bucket.secret_key_of_access_key_id, bucket.secret_key_of_secret_key) == ("id", "word")
    assert not bucket.HasField("access_key_id")
    twice = "{bucket: b, path: /b, secretName: s, key: id, secretKeyOfAccessKeyId: id}"
    assert "are the same beside secretName" in said(f"  s3: {{items: {{b: {{value: {twice}}}}}}}\n")


def test_literal_credentials_are_read_and_never_written() -> None:
    document = one(
        "  gitSync: {items: {g: {value: {repository: git@h:r, path: /g, username: me, password: canary}}}}\n"
    )
    assert document.violations == []
    assert document.spec.git_sync[0].password == "canary"
    text = write(document.spec)
    assert "canary" not in text
    assert text.count("***") == 2


def test_older_groups_hold_usual_fields() -> None:
    spec = good(
        "  jobType: MPIJob\n  workers: {value: 2}\n  mpiJob: {slotsPerWorker: 2, processes: {value: 4}}\n"
        "  runPolicy: {value: {cleanPodPolicy: All}}\n",
        "DistributedWorkload",
    )
    assert (spec.slots_per_worker, spec.processes) == (2, 4)
    assert spec.clean_pod_policy == wl.CLEAN_POD_POLICY_ALL


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("  mpiJob: {slots: 2}\n", "5:12: spec.mpiJob.slots: unknown field\n  known here: slotsPerWorker, processes"),
        ("  mpiJob: 4\n", "5:11: spec.mpiJob: mpiJob is not a mapping"),
        ("  mpiJob: {slotsPerWorker: 0}\n", "spec.mpiJob.slotsPerWorker: 0 is too small"),
        (
            "  slotsPerWorker: {value: 1}\n  mpiJob: {slotsPerWorker: 2}\n",
            "slotsPerWorker and slotsPerWorker are the same field",
        ),
        ("  ingressUrl: {value: x}\n", "spec.ingressUrl: ingressUrl is not taken"),
    ],
)
def test_errors_in_older_forms(body: str, error: str) -> None:
    assert error in said(body, "DistributedWorkload")


def test_a_training_with_mpi_is_a_gang() -> None:
    spec = one("  mpi: {value: true}\n  processes: {value: 5}\n  slotsPerWorker: {value: 2}\n").spec
    assert (spec.kind, spec.framework, spec.workers) == (Kind.DISTRIBUTED, wl.FRAMEWORK_MPI, 3)
    assert not spec.HasField("mpi")
    assert "5:3: spec.mpi: mpi and this jobType exclude each other" in said(
        "  mpi: {value: true}\n  jobType: PyTorch\n", "DistributedWorkload"
    )


def test_a_legacy_job_keeps_its_mark() -> None:
    text = HEAD.format(kind="TrainingWorkload").replace("name: t-1", 'labels: {PreviousJob: "true"}, name: t-1')
    (document,) = read(text + "  image: {value: i}\n")
    assert document.violations == []
    assert [(item.label, item.value) for item in document.spec.labels] == [("PreviousJob", "true")]
    assert read(write(document.spec))[0].spec == document.spec


def test_a_template_inherits_from_nothing_and_has_a_name() -> None:
    body = "  usage: Template\n  baseWorkload: other\n  namePrefix: {value: x}\n"
    assert said(body).splitlines()[::2] == [
        "train.yaml:6:17: spec.baseWorkload: a template inherits from no other template",
        "train.yaml:7:3: spec.namePrefix: a template needs a name of its own",
        "2 errors, nothing was submitted",
    ]


def test_volumes_with_a_server_are_nfs() -> None:
    spec = good("  volumes: {items: {v: {value: {path: /src, mountPath: /dst, nfsServer: nfs.example}}}}\n")
    (volume,) = spec.volumes
    assert (volume.path, volume.mount_path, volume.nfs_server) == ("/src", "/dst", "nfs.example")


@pytest.mark.parametrize("given", ["0.5", "1"])
def test_a_portion_goes_with_its_limit_and_type(given: str) -> None:
    spec = good(f"  gpu: {{value: {given}}}\n  gpuLimit: {{value: 1}}\n  gpuRequestType: {{value: portion}}\n")
    assert spec.gpu_portion_limit == 1


def test_only_gpu_says_no_device() -> None:
    assert "0 is no number of devices" in said("  gpuDevices: {value: 0}\n")
    assert (
        good("  gpu: {value: 0}\n").gpu_devices_request,
        good("  gpuDevices: {value: 1}\n").gpu_devices_request,
    ) == (
        0,
        1,
    )


def test_secrets_of_the_environment_stay_as_they_are_written() -> None:
    spec = good('  environment: {items: {A: {value: "SECRET:pg,password"}, B: {value: SECRET}}}\n')
    assert [item.value for item in spec.environment] == ["SECRET:pg,password", "SECRET"]


def test_a_name_inside_an_item_is_a_remark() -> None:
    document = one("  tolerations: {items: {t: {value: {name: u, key: k, operator: Exists, effect: NoSchedule}}}}\n")
    assert document.violations == []
    assert [each.message for each in document.warnings] == ["u is not used: the item is known by its label t"]
