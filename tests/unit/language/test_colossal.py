"""ColossalAIJob documents: their own form is kept, and what others need is lowered into the usual fields."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from muster.workload.v1 import workload_pb2 as wl
from muster_language import ANY_FIELD, Document, Kind, read, write
from tests.support.told import format_violations

SEED = Path(__file__).parents[2] / "data" / "seeds" / "004-colossal-ai-job.yaml"
HEAD = "apiVersion: batch.tensorstack.dev/v1beta1\nkind: ColossalAIJob\nmetadata: {name: job}\nspec:\n"
CONFIG = "  torchConfig: {script: [train.py]}\n"
WORKER = "  replicaSpecs: [{type: Worker, template: {spec: {containers: [{name: worker, %s}]}}}]\n"


def one(text: str) -> Document:
    (document,) = read(text, source="job.yaml")
    return document


def pod(container: str = "image: i", spec: str = "") -> str:
    template = f"{{spec: {{{spec}{', ' if spec else ''}containers: [{{name: worker, {container}}}]}}}}"
    return HEAD + CONFIG + f"  replicaSpecs: [{{type: worker, template: {template}}}]\n"


def lowered(container: str, spec: str = "") -> wl.WorkloadSpec:
    document = one(pod(container, spec))
    assert format_violations([document]) == ""
    (again,) = read(write(document.spec))
    assert again.spec == document.spec
    return document.spec


def said(container: str, spec: str = "") -> str:
    return format_violations([one(pod(container, spec))])


def test_the_seed() -> None:
    document = one(SEED.read_text())
    assert document.violations == []
    spec = document.spec
    assert (document.kind, document.name, document.namespace) == (Kind.DISTRIBUTED, "colossal", "runai-team-a")
    assert (spec.framework, spec.workers, spec.slots_per_worker) == (wl.FRAMEWORK_COLOSSALAI, 2, 2)
    assert spec.command == "torchrun"
    assert shlex.split(spec.args) == ["--nproc_per_node=2", "--log-dir=/tmp", "train.py"]
    assert (spec.backoff_limit, spec.priority_class, spec.gpu_devices_request) == (3, "medium", 1)
    assert (spec.cpu, spec.memory, spec.working_dir) == ("500m", "200M", "/tmp")
    assert [(item.label, item.value) for item in spec.environment] == [("LR", "0.1")]
    assert [(item.label, item.value) for item in spec.labels] == [("stage", "research")]
    assert spec.master_spec.image == "hpcaitech/colossalai:0.2.7"
    assert spec.colossal.scheduler.t9k_scheduler.queue == "team-a"
    assert len(document.warnings) == 2


def test_a_list_is_as_many_documents() -> None:
    job = "{apiVersion: batch.tensorstack.dev/v1beta1, kind: ColossalAIJob, metadata: {name: %s}, spec: {%s}}"
    spec = "torchConfig: {script: [a.py]}, replicaSpecs: [{type: worker, template: {}}]"
    items = "".join(f"  - {job % (name, spec)}\n" for name in ("a", "b"))
    documents = read("apiVersion: batch.tensorstack.dev/v1beta1\nkind: ColossalAIJobList\nitems:\n" + items)
    assert [(each.name, each.line, each.violations) for each in documents] == [("a", 4, []), ("b", 5, [])]
    empty = "apiVersion: batch.tensorstack.dev/v1beta1\nkind: ColossalAIJobList\nitems: []\n"
    assert "the list has no jobs" in format_violations(read(empty))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (HEAD.replace("ColossalAIJob", "Job") + CONFIG, "Job is not a kind of batch.tensorstack.dev/v1beta1"),
        (HEAD.replace("kind: ColossalAIJob\n", "") + CONFIG, "kind is missing"),
        (HEAD.replace("spec:\n", ""), "the document has no spec"),
        (HEAD + "  []\n", "spec: spec is not a mapping"),
        (HEAD + WORKER % "image: i", "torchConfig is missing"),
        (HEAD + CONFIG, "replicaSpecs is missing"),
        (HEAD + CONFIG + "  replicaSpecs: []\n", "replicaSpecs is not a list of mappings"),
        (HEAD + CONFIG + "  replicaSpecs: [{type: master, template: {}}]\n", "master is not known"),
        (HEAD + CONFIG + "  replicaSpecs: [{type: launcher, template: {}}]\n", "not exactly one entry of type worker"),
        (HEAD + CONFIG + "  replicaSpecs: [{type: worker}]\n", "template is missing"),
        (HEAD + CONFIG + "  replicaSpecs: [{type: worker, replicas: 0, template: {}}]\n", "replicas: 0 is too small"),
        (HEAD + CONFIG + "  replicaSpecs: [{type: worker, template: x}]\n", "template: this is not a mapping"),
        (
            HEAD
            + CONFIG
            + "  replicaSpecs: [{type: worker, template: {}}, {type: launcher, replicas: 2, template: {}}]\n",
            "a job has at most one launcher",
        ),
        (HEAD + "  torchConfig: {script: [a.sh]}\n" + WORKER % "image: i", "a.sh is no Python script"),
        (HEAD + "  torchConfig: {script: []}\n" + WORKER % "image: i", "script is missing"),
        (HEAD + "  torchConfig: {script: a.py}\n" + WORKER % "image: i", "script: this is not a list"),
        (HEAD + "  torchConfig: {script: [a.py], extraArgs: [x]}\n", "x is no option of torchrun"),
        (HEAD + "  torchConfig: {script: [a.py], extraArgs: [--nnodes=2]}\n", "--nnodes=2 is decided by the placement"),
        (HEAD + "  torchConfig: {script: [a.py], procPerWorker: 0}\n", "procPerWorker: 0 is too small"),
        (HEAD + CONFIG + "  ssh: {sshdPath: sshd}\n" + WORKER % "image: i", "sshd is not a sshdPath"),
        (HEAD + CONFIG + "  shh: {}\n" + WORKER % "image: i", "spec.shh: unknown field; did you mean ssh?"),
    ],
)
def test_errors_of_a_job(text: str, error: str) -> None:
    assert error in format_violations([one(text)])


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ("", 0),
        ("restartPolicy: Never, ", 0),
        ("restartPolicy: {policy: Always, limit: 5}, ", 5),
        ("restartPolicy: {policy: Never, limit: 5}, ", 0),
    ],
)
def test_a_restart_policy_is_a_word_or_an_object(given: str, limit: int) -> None:
    text = HEAD + CONFIG + f"  replicaSpecs: [{{type: worker, {given}template: {{}}}}]\n"
    spec = one(text).spec
    assert (spec.backoff_limit, spec.HasField("backoff_limit")) == (limit, True)


@pytest.mark.parametrize(
    ("priority", "word"),
    [
        (0, "very-low"),
        (24, "very-low"),
        (25, "low"),
        (49, "medium-low"),
        (74, "medium"),
        (99, "high"),
        (100, "very-high"),
    ],
)
def test_priorities_are_classes(priority: int, word: str) -> None:
    scheduler = f"  scheduler: {{t9kScheduler: {{priority: {priority}}}}}\n"
    assert one(pod() + scheduler).spec.priority_class == word


def test_run_modes() -> None:
    assert not one(pod() + "  runMode: Immediate\n").spec.HasField("active")
    paused = one(pod() + "  runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, command: [a]}]}}\n")
    assert paused.violations == []
    assert (paused.spec.active, paused.spec.HasField("active")) == (False, True)
    assert not one(pod() + "  runMode: {pause: {enabled: null}}\n").spec.HasField("active")


def test_resources() -> None:
    spec = lowered(
        "resources: {requests: {cpu: 500m, nvidia.com/gpu: 2}, "
        "limits: {cpu: 1, memory: 2Gi, nvidia.com/gpu: '2', vendor.example/nic: 1}}"
    )
    assert (spec.cpu, spec.cpu_limit, spec.memory, spec.memory_limit) == ("500m", "1", "2Gi", "2Gi")
    assert spec.gpu_devices_request == 2
    assert [(item.resource, item.quantity) for item in spec.extended_resources] == [("vendor.example/nic", "1")]
    assert lowered("resources: {limits: {nvidia.com/mig-1g.5gb: 1}}").mig_profile == "1g.5gb"


@pytest.mark.parametrize(
    ("container", "error"),
    [
        (
            "resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}",
            "request and limit of nvidia.com/gpu",
        ),
        ("resources: {limits: {nvidia.com/mig-1g.5gb: 2}}", "more than one MIG slice"),
        ("resources: {limits: {cpu: lots}}", "limits.cpu: cpu 'lots' is not a quantity"),
        ("resources: {requests: {memory: 0}}", "requests.memory: 0 is nothing"),
        ("resources: {claims: []}", "claims: unknown field"),
        ("resources: 1", "resources: this is not a mapping"),
        ("lifecycle: {}", "lifecycle of a pod template has no field of the language"),
        ("env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]", "only a key of a Secret can be named here"),
        ("env: x", "env: this is not a list"),
        ("env: [x]", "env.0: this is not a mapping"),
        ("ports: [{name: x}]", "containerPort is missing"),
        ("ports: [{containerPort: 70000}]", "70000 is too large"),
        ("volumeMounts: [{name: v, mountPath: /v}]", "there is no volume v"),
        ("securityContext: {capabilities: {drop: [KILL]}}", "capabilities are dropped all or none"),
        ("securityContext: {privileged: true}", "privileged of a pod template has no field"),
    ],
)
def test_what_a_template_cannot_say(container: str, error: str) -> None:
    assert error in said(container)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("nodeSelector: {zone: a}", "zone of a pod template has no field of the language\n  known here: run.ai/type"),
        ("serviceAccountName: x", "serviceAccountName of a pod template has no field"),
        ("tolerations: [{key: k, forever: 1}]", "forever is no member of a toleration"),
        ("volumes: [{name: v, csi: {}}]", "csi: unknown field"),
    ],
)
def test_what_a_pod_cannot_say(spec: str, error: str) -> None:
    assert error in said("image: i", spec)


def test_what_an_operator_lists_is_let_through_without_effect() -> None:
    text = pod("image: i, lifecycle: {}", "serviceAccountName: x")
    listed = ["spec.serviceAccountName", "spec.containers.lifecycle"]
    (document,) = read(text, template_fields=listed)
    assert document.violations == []
    assert [each.message for each in document.warnings] == [
        "serviceAccountName is not used: it has no field of the language",
        "lifecycle is not used: it has no field of the language",
    ]
    assert read(text, template_fields=[ANY_FIELD])[0].violations == []
    assert [each.path for each in read(text, template_fields=listed[:1])[0].violations] == [
        "spec.replicaSpecs.0.template.spec.containers.0.lifecycle"
    ]


def test_two_containers_are_one_too_many() -> None:
    text = pod().replace("[{name: worker, image: i}]", "[{name: worker}, {name: sidecar}]")
    assert "2 containers: a replica has one\n  one, called worker" in format_violations([one(text)])
    assert one(pod().replace("name: worker, image", "name: other, image")).violations == []


def test_what_is_replaced_by_the_script_is_a_remark() -> None:
    document = one(pod("command: [sleep], args: [inf]"))
    assert document.violations == []
    assert [each.path.rpartition(".")[2] for each in document.warnings] == ["command", "args"]


def test_a_container() -> None:
    spec = lowered(
        "image: i, imagePullPolicy: IfNotPresent, tty: true, stdin: true, workingDir: /w, "
        "env: [{name: A, value: '1'}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}], "
        "ports: [{containerPort: 80}, {containerPort: 81, name: admin}], "
        "readinessProbe: {httpGet: {path: /ok, port: 80}}, "
        "securityContext: {runAsUser: 7, runAsGroup: 8, runAsNonRoot: true, allowPrivilegeEscalation: false, "
        "readOnlyRootFilesystem: true, seccompProfile: {type: RuntimeDefault}, "
        "capabilities: {add: [KILL], drop: [ALL]}}",
        "hostNetwork: true, nodeSelector: {run.ai/type: a100}, imagePullSecrets: [{name: reg}], "
        "tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 9}], "
        "securityContext: {supplementalGroups: [1, 2]}",
    )
    assert [(item.label, item.value) for item in spec.environment] == [("A", "1"), ("B", "SECRET:s,k")]
    assert [(item.label, item.container) for item in spec.ports] == [("p-80", 80), ("admin", 81)]
    assert (spec.readiness_probe.path, spec.tty, spec.host_network, spec.node_type) == ("/ok", True, True, "a100")
    assert (spec.run_as_uid, spec.run_as_gid, spec.uid_gid_source) == (7, 8, wl.UID_GID_SOURCE_CUSTOM)
    assert (list(spec.capabilities.values), spec.drop_all_capabilities) == (["KILL"], True)
    assert (list(spec.image_pull_secrets.values), spec.supplemental_groups) == (["reg"], "1,2")
    assert spec.tolerations[0].seconds == 9


def test_volumes() -> None:
    volumes = (
        "volumes: [{name: h, hostPath: {path: /h}}, {name: n, nfs: {server: s, path: /n}}, "
        "{name: p, persistentVolumeClaim: {claimName: c, readOnly: true}}, {name: c, configMap: {name: cm}}, "
        "{name: s, secret: {secretName: sec}}, {name: e, emptyDir: {}}, {name: shm, emptyDir: {medium: Memory}}]"
    )
    mounts = ", ".join(f"{{name: {name}, mountPath: /m/{name}}}" for name in "hnpcse")
    spec = lowered(f"volumeMounts: [{mounts}, {{name: shm, mountPath: /dev/shm}}]", volumes)
    assert [(each.path, each.mount_path, each.read_only) for each in spec.volumes] == [("/h", "/m/h", False)]
    assert [(each.server, each.path, each.mount_path) for each in spec.nfs] == [("s", "/n", "/m/n")]
    assert [(each.claim_name, each.existing_pvc, each.read_only) for each in spec.pvcs] == [("c", True, True)]
    assert (spec.config_map_volumes[0].config_map, spec.secret_volumes[0].secret) == ("cm", "sec")
    assert (spec.empty_dir_volumes[0].path, spec.large_shm) == ("/m/e", True)
    twice = lowered(
        "volumeMounts: [{name: e, mountPath: /a}, {name: e, mountPath: /b}]", "volumes: [{name: e, emptyDir: {}}]"
    )
    assert [each.label for each in twice.empty_dir_volumes] == ["e", "e-1"]


@pytest.mark.parametrize(
    ("volume", "error"),
    [
        ("{name: v}", "a volume of this kind has no field of the language"),
        ("{name: v, emptyDir: x}", "a volume of this kind has no field of the language"),
        ("{name: v, emptyDir: {medium: Memory}}", "a folder in memory has no field of the language"),
        ("{name: v, hostPath: {path: ../x}}", "../x"),
    ],
)
def test_volumes_without_a_field(volume: str, error: str) -> None:
    assert error in said("volumeMounts: [{name: v, mountPath: /v}]", f"volumes: [{volume}]")


def test_errors_of_lowered_fields_stand_in_the_template() -> None:
    found = one(pod("resources: {limits: {\n   nvidia.com/gpu: 1000}}")).violations
    assert [(each.path, each.line, each.message) for each in found] == [
        (
            "spec.replicaSpecs.0.template.spec.containers.0.resources.limits.nvidia.com/gpu",
            7,
            "1000 is too large",
        )
    ]


def test_what_a_template_holds_is_written_back_as_it_was() -> None:
    spec = lowered("env: [{name: A, value: '1e3'}, {name: B, value: 'true'}, {name: C, value: '0.50'}]")
    text = write(spec)
    for each in ('"1e3"', "'true'", '"0.50"'):
        assert each in text
