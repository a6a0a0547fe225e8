"""Plans as pods: what each field of the language becomes, and what users cannot change."""

from __future__ import annotations

from typing import Any

import pytest

from muster.options.v1 import options_pb2
from muster.workload.v1 import placement_pb2, workload_pb2
from muster_cluster_agent.adapters import specs
from muster_cluster_agent.domain.kubernetes import manifests, marks, refusals
from muster_cluster_agent.domain.kubernetes.manifests import Style
from muster_cluster_agent.domain.model import Assignment, Revision, Run
from muster_cluster_agent.domain.plan import InvalidCommand, ReplicaPlan, replica_plans
from tests.support.kubernetes_pods import OWNER

ID = "33333333-3333-4333-8333-333333333333"


def plan(gpus: int = 0, **fields: Any) -> ReplicaPlan:
    """The one replica of a training with these fields."""
    spec = workload_pb2.WorkloadSpec(kind=options_pb2.KIND_TRAINING, **fields)
    run = Run("worker", 0, 1, "n-7", slots=(("", gpus),) if gpus else ())
    revision = Revision(1, 0, specs.pattern(spec), specs.template(spec, containers=True), (run,))
    assignment = Assignment(ID, 1, "", 1, (revision,), project="p", namespace="runai-p", name="bert", grace=45.0)
    return replica_plans(assignment, revision)[0]


def made(style: Style | None = None, gpus: int = 0, **fields: Any) -> dict[str, Any]:
    return manifests.pod(OWNER, plan(gpus, **fields), style or Style(), "root-uid")


def main_of(pod: dict[str, Any]) -> dict[str, Any]:
    (main,) = pod["spec"]["containers"]
    return dict(main)


def test_a_pod_is_the_replica_on_its_node() -> None:
    pod = made(image="team/bert:7", command="python train.py", args="--lr 0.1 'a b'", working_dir="/w")
    assert pod["metadata"]["name"] == plan(image="x").name
    assert pod["metadata"]["finalizers"] == [marks.GONE]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "root-uid"
    spec = pod["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-7"]}]}]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 45)
    assert spec["automountServiceAccountToken"] is False
    main = main_of(pod)
    assert (main["image"], main["command"], main["args"]) == (
        "team/bert:7",
        ["python"],
        ["train.py", "--lr", "0.1", "a b"],
    )
    assert main["workingDir"] == "/w"


def test_a_pod_that_is_bound_directly_names_its_node_and_nothing_else_does() -> None:
    pod = made(Style(direct=True), gpus=1, image="x", command="run")
    assert pod["spec"]["nodeName"] == "n-7"
    assert "affinity" not in pod["spec"]
    assert refusals.mutated(pod, pod) == ()
    assert refusals.mutated(pod, {**pod, "spec": {**pod["spec"], "nodeName": "n-9"}}) == ("spec.nodeName",)
    assert (
        pod["metadata"]["annotations"][marks.SPEC]
        != made(gpus=1, image="x", command="run")["metadata"]["annotations"][marks.SPEC]
    )


def test_without_a_command_the_image_says_what_runs() -> None:
    assert {"command", "args"}.isdisjoint(main_of(made(image="x")))
    main = main_of(made(image="x", args="--port 80"))
    assert (main.get("command"), main["args"]) == (None, ["--port", "80"])


def test_references_become_values_and_are_read_by_no_one_else() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="A", value="$(HOME) and $$")]
    main = main_of(made(image="x", command='echo "${A}" "${NONE}" $(POD_NAME)', environment=environment))
    assert main["args"] == ["$$(HOME) and $$$$", "${NONE}", "$(POD_NAME)"]


def test_secrets_are_named_and_their_text_is_no_value() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="KEY", value="SECRET:store, token")]
    pod = made(image="x", environment=environment, notebook_token="SECRET:note,it")
    env = {one["name"]: one for one in main_of(pod)["env"]}
    assert env["JUPYTER_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "note", "key": "it"}}
    assert env["KEY"] == {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "store", "key": "token"}}}


def test_what_identifies_a_replica_wins_over_its_user() -> None:
    environment = [workload_pb2.EnvironmentVariable(label="MUSTER_ROLE", value="king")]
    labels = [
        workload_pb2.MapEntry(label=name, value="mine")
        for name in ("team", marks.WORKLOAD, marks.MANAGED_BY, "muster.io/anything")
    ]
    pod = made(image="x", environment=environment, labels=labels, annotations=labels)
    env = {one["name"]: one["value"] for one in main_of(pod)["env"]}
    assert env["MUSTER_ROLE"] == "worker"
    found = pod["metadata"]["labels"]
    assert (found["team"], found[marks.WORKLOAD], found[marks.MANAGED_BY]) == ("mine", ID, "muster")
    assert "muster.io/anything" not in {**found, **pod["metadata"]["annotations"]}


def test_resources_are_requests_and_limits() -> None:
    more = [placement_pb2.ExtendedResource(label="r", resource="rdma/hca", quantity="1")]
    main = main_of(
        made(gpus=2, image="x", cpu="500m", cpu_limit="2", memory="1Gi", memory_limit="2Gi", extended_resources=more)
    )
    units = {"rdma/hca": "1", "nvidia.com/gpu": "2"}
    assert main["resources"] == {
        "requests": {"cpu": "500m", "memory": str(1 << 30), **units},
        "limits": {"cpu": "2000m", "memory": str(2 << 30), **units},
    }
    assert "resources" not in main_of(made(image="x"))


def test_shared_memory_is_half_of_the_replicas() -> None:
    pod = made(image="x", large_shm=True, memory_limit="4Gi")
    assert pod["spec"]["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(2 << 30)}}]
    assert main_of(pod)["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert made(image="x", large_shm=True)["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == str(8 << 30)


def test_security_is_that_of_the_spec() -> None:
    pod = made(
        image="x",
        uid_gid_source=workload_pb2.UID_GID_SOURCE_CUSTOM,
        run_as_uid=1000,
        run_as_gid=0,
        supplemental_groups="7;8, 9",
        run_as_non_root=True,
        read_only_root_filesystem=True,
        allow_privilege_escalation=False,
        seccomp_profile=workload_pb2.SECCOMP_PROFILE_RUNTIME_DEFAULT,
        capabilities=workload_pb2.StringList(values=["SYS_PTRACE"]),
        drop_all_capabilities=True,
    )
    assert pod["spec"]["securityContext"] == {
        "runAsUser": 1000,
        "runAsGroup": 0,
        "supplementalGroups": [7, 8, 9],
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert main_of(pod)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]},
    }
    assert "securityContext" not in made(image="x", run_as_uid=5)["spec"]  # without a source they are not used


def test_a_cluster_says_what_every_pod_has() -> None:
    style = Style(
        priority_class="muster",
        runtime_class="nvidia",
        scheduler="kai",
        pull_secrets=("shared",),
        tolerate=({"key": "gpu", "operator": "Exists"},),
        service_accounts=(("other", "reader"), (plan(image="x").project, "trainer")),
    )
    spec = made(style, image="x", image_pull_secrets=workload_pb2.StringList(values=["own", "shared"]))["spec"]
    assert (spec["priorityClassName"], spec["runtimeClassName"], spec["schedulerName"]) == ("muster", "nvidia", "kai")
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("trainer", False)
    assert "serviceAccountName" not in made(image="x")["spec"]
    assert spec["imagePullSecrets"] == [{"name": "own"}, {"name": "shared"}]
    keys = [each["key"] for each in spec["tolerations"]]
    assert keys == ["gpu", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def test_a_pod_without_an_image_is_refused() -> None:
    with pytest.raises(InvalidCommand, match="names no image"):
        made(command="true")


def test_the_digest_tells_specs_apart_and_not_roots() -> None:
    first, again = made(image="x"), manifests.pod(OWNER, plan(image="x"), Style(), "another-root")
    assert first["metadata"]["annotations"][marks.SPEC] == again["metadata"]["annotations"][marks.SPEC]
    assert first["metadata"]["annotations"][marks.SPEC] != made(image="y")["metadata"]["annotations"][marks.SPEC]


def changed(**fields: Any) -> dict[str, Any]:
    pod = made(gpus=1, image="x", command="run")
    pod["spec"] |= fields
    return pod


def test_what_admission_changes_is_named() -> None:
    asked = made(gpus=1, image="x", command="run")
    sidecar = [*asked["spec"]["containers"], {"name": "istio-proxy", "image": "istio"}]
    added = [*asked["spec"]["tolerations"], {"key": "added"}]
    assert refusals.mutated(asked, changed(containers=sidecar, tolerations=added)) == ()
    assert refusals.mutated(asked, changed(nodeName="n-9")) == ("spec.nodeName",)
    other = [{**main_of(asked), "image": "mirror/x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    paths = refusals.mutated(asked, changed(containers=other, affinity={}))
    assert paths == (
        "spec.affinity.nodeAffinity",
        "spec.containers[main].image",
        "spec.containers[main].resources",
    )
    assert "spec.containers[main].image" in refusals.mutation(paths)


@pytest.mark.parametrize(
    ("status", "reason", "message", "code"),
    [
        (403, "Forbidden", "exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9", "NamespaceQuota"),
        (
            403,
            "Forbidden",
            "unable to create new content because it is being terminated",
            "NamespaceNotOurs",
        ),
        (403, "Forbidden", 'error looking up service account x/y: serviceaccount "y" not found', "MissingObject"),
        (404, "NotFound", 'namespaces "x" not found', "MissingObject"),
        (400, "BadRequest", 'admission webhook "w" denied the request: no', "AdmissionDenied"),
        (422, "Invalid", "Pod is invalid: spec.containers[0].image: Required value", "AdmissionDenied"),
        (409, refusals.TAKEN, "taken", "NameConflict"),
        (500, "InternalError", "etcd", None),
        (500, "InternalError", 'failed calling webhook "w": context deadline exceeded', "WebhookFailed"),
        (429, "TooManyRequests", "", None),
    ],
)
def test_an_error_of_the_server_has_its_code(status: int, reason: str, message: str, code: str | None) -> None:
    answer = refusals.answer_of(status, reason, message)
    assert answer.code == code
    assert message in answer.message


def test_a_denial_reads_the_same_for_every_incarnation() -> None:
    one = plan(image="x")
    said = f'pods "{one.name}" is forbidden: violates PodSecurity'
    assert refusals.without_names("Forbidden", said, one) == 'pods "the pod" is forbidden: violates PodSecurity'
    assert refusals.without_names(refusals.TAKEN, f"Pod p/{one.name} is there", one) == f"Pod p/{one.name} is there"
